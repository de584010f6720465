"""Mirroring is switched on and off by the settings file and by table properties, without a restart."""

from pathlib import Path
from typing import Any

import pytest

from deltamirror import Catalog, MirrorEngine, Table
from deltamirror.config import LiveSettings, MirrorSettings, Settings, Switch, TableBlock, WriterSettings
from deltamirror.errors import InvalidInput, Refused
from deltamirror.ops.reconcile.reconciling import Strategy
from deltamirror.txnlog.queue.breakers import failing_share
from deltamirror.txnlog.tables.registry import list_tables
from tests.support.lakes.lake import execute
from tests.support.mirrors.local import append, committed_files, following, local_settings, make_table, published_files
from tests.support.mirrors.reconcilers import reconciler_of

pytestmark = [pytest.mark.requirement("R33"), pytest.mark.requirement("R116")]

PROPERTY = "deltamirror.mirrorEnabled"


@pytest.fixture
def lake(tmp_path: Path) -> Any:
    with Catalog(f"sqlite:///{tmp_path / 'lake.db'}") as catalog:
        catalog.init()
        yield catalog


def states(engine: MirrorEngine) -> dict[str, str]:
    return {status.name: status.state for status in engine.status()}


def mirrored(lake: Catalog, settings: Settings) -> dict[str, str]:
    with MirrorEngine(settings=settings, database=lake.database) as engine:
        engine.run(once=True)
        return states(engine)


def block(match: str, *, enabled: bool) -> TableBlock:
    return TableBlock(match=match, values=(("mirror.enabled", enabled),))


def with_blocks(*blocks: TableBlock, enabled: bool = True) -> Settings:
    settings = local_settings(enabled=enabled)
    return Settings(mirror=settings.mirror, reconcile=settings.reconcile, tables=blocks)


def whole(*tables: Table) -> list[bool]:
    return [published_files(table) == committed_files(table) for table in tables]


def test_switched_off_commits_stay_pending_and_nothing_is_written(lake: Catalog, tmp_path: Path) -> None:
    table = make_table(lake, tmp_path)
    append(table, 2)
    assert mirrored(lake, local_settings(enabled=False)) == {"t": "disabled"}
    assert not (tmp_path / "t").exists()
    assert execute(lake, "SELECT DISTINCT state FROM dl_mirror_status") == [("PENDING",)]
    assert execute(lake, "SELECT count(*) FROM dl_leases") == [(0,)]
    assert mirrored(lake, local_settings()) == {"t": "active"}
    assert whole(table) == [True]


def test_off_for_all_and_on_for_one_and_the_reverse(lake: Catalog, tmp_path: Path) -> None:
    one, other = make_table(lake, tmp_path, "sales.orders"), make_table(lake, tmp_path, "stock")
    settings = with_blocks(block("sales.*", enabled=True), enabled=False)
    assert mirrored(lake, settings) == {"sales.orders": "active", "stock": "disabled"}
    assert whole(one) == [True]
    assert published_files(other) == {}
    append(one)
    assert mirrored(lake, with_blocks(block("sales.*", enabled=False))) == {
        "sales.orders": "disabled",
        "stock": "active",
    }
    assert (len(published_files(one)), whole(other)) == (1, [True])


def test_a_table_property_goes_before_patterns_and_these_before_the_setting(lake: Catalog, tmp_path: Path) -> None:
    made = [make_table(lake, tmp_path, "a.off", properties={PROPERTY: "false"})]
    made += [make_table(lake, tmp_path, "b.on", properties={PROPERTY: "TRUE"})]
    made += [make_table(lake, tmp_path, "b.none")]
    settings = with_blocks(block("a.*", enabled=False), block("a.*", enabled=True), block("b.*", enabled=False))
    assert mirrored(lake, settings) == {"a.off": "disabled", "b.on": "active", "b.none": "disabled"}
    made[0].alter(properties={PROPERTY: "true"})
    made[1].alter(properties={PROPERTY: "false"})
    made[2].alter(properties={PROPERTY: "true"})
    assert mirrored(lake, settings) == {"a.off": "active", "b.on": "disabled", "b.none": "active"}
    assert whole(made[0], made[2]) == [True, True]
    assert len(published_files(made[1])) == 1


PATTERNS = {
    "sales.*": ["sales.eu.orders", "sales.orders"],
    "Sales.*": ["Sales.orders"],
    "s?les_1": ["sales_1"],
    "sales_1": ["sales_1"],
    "sales": [],
    "*": ["Sales.orders", "sales.eu.orders", "sales.orders", "sales_1", "salesx1"],
}


def test_patterns_mean_the_same_in_every_database(catalog: Catalog, tmp_path: Path) -> None:
    for name in PATTERNS["*"]:
        make_table(catalog, tmp_path, name)
    found = {}
    for pattern in PATTERNS:
        with catalog.database.read() as connection:
            infos = list_tables(connection, Switch(False, ((pattern, True),)))
        found[pattern] = sorted(info.name for info in infos if info.state == "active")
    assert found == PATTERNS


def test_a_service_switches_without_a_restart_and_catches_up(lake: Catalog, tmp_path: Path) -> None:
    file = tmp_path / "deltamirror.toml"
    always = "[mirror]\nrunner = 'local'\npoll = 0.02\n"
    file.write_text(f"{always}enabled = false\n")
    live = LiveSettings.load(environment={}, config=file, settled=0.0)
    one, other = make_table(lake, tmp_path, "one"), make_table(lake, tmp_path, "other")
    append(one, 3)
    with MirrorEngine(settings=live, database=lake.database) as engine, following(engine):
        file.write_text(f"{always}enabled = false\n[[tables]]\nmatch = 'one'\nmirror.enabled = true\n")
        live.check()
        lake.wait_until_published({"one": 3}, seconds=60)
        assert states(engine) == {"one": "active", "other": "disabled"}
        assert published_files(other) == {}
        file.write_text(always)
        live.check()
        lake.wait_until_published({"other": 0}, seconds=60)
    assert whole(one, other) == [True, True]


def test_a_table_that_is_switched_off_is_neither_compared_nor_repaired_nor_published_by_name(
    lake: Catalog, tmp_path: Path
) -> None:
    table = make_table(lake, tmp_path)
    append(table)
    mirrored(lake, local_settings())
    for commit in (tmp_path / "t" / "_delta_log").glob("*.json"):
        commit.unlink()
    with (
        MirrorEngine(settings=local_settings(enabled=False), database=lake.database) as engine,
        reconciler_of(engine) as (reconciler, _),
    ):
        assert reconciler.run(Strategy.SMART).tables == ()
        for asked in (lambda: engine.mirror("t"), lambda: engine.checkpoint("t"), lambda: engine.clean("t")):
            with pytest.raises(Refused, match=r"switched off by mirror\.enabled") as refused:
                asked()
            assert "config show --table t" in refused.value.hint
        with pytest.raises(Refused, match="it is disabled"):
            reconciler.run(Strategy.FULL, ["t"])
    assert published_files(table) == {}


def test_writers_neither_publish_nor_wait_for_a_mirror_that_is_off(tmp_path: Path) -> None:
    off = Settings(mirror=MirrorSettings(enabled=False, inline=True), writer=WriterSettings(backlog_limit=1))
    with Catalog(f"sqlite:///{tmp_path / 'lake.db'}", settings=off) as catalog:
        catalog.init()
        table = make_table(catalog, tmp_path)
        append(table, 3)
        assert (table.info().state, table.info().unpublished) == ("disabled", 4)
        assert [info.state for info in catalog.tables()] == ["disabled"]
    assert not (tmp_path / "t").exists()
    on = Settings(writer=WriterSettings(backlog_limit=1))
    with (
        Catalog(f"sqlite:///{tmp_path / 'lake.db'}", settings=on) as catalog,
        pytest.raises(Refused, match="limit is 1"),
    ):
        append(catalog.table("t"))


def test_a_table_that_is_switched_off_says_nothing_of_its_store(lake: Catalog, tmp_path: Path) -> None:
    make_table(lake, tmp_path, "good")
    mirrored(lake, local_settings())
    make_table(lake, tmp_path, "bad")
    execute(lake, "UPDATE dl_mirror_status SET state = 'FAILED', error_code = 'unavailable' WHERE state = 'PENDING'")

    def failing(switch: Switch) -> float:
        with lake.database.write() as session:
            return failing_share(session, "file://", ["unavailable"], switch=switch)

    assert (failing(Switch()), failing(Switch(True, (("bad", False),)))) == (50.0, 0.0)


def test_a_value_that_a_property_cannot_have_is_refused_by_name(lake: Catalog, tmp_path: Path) -> None:
    said = rf"property {PROPERTY}: expected true or false, found 'fasle'"
    with pytest.raises(InvalidInput, match=said):
        make_table(lake, tmp_path, properties={PROPERTY: "fasle"})
    table = make_table(lake, tmp_path)
    with pytest.raises(InvalidInput, match=said):
        table.alter(properties={PROPERTY: "fasle"})
    transaction = lake.transaction()
    with pytest.raises(InvalidInput, match=r"deltamirror\.checkpointBytes: expected whole number, found '-1'"):
        transaction.set_metadata("t", properties={"deltamirror.checkpointBytes": -1})


def test_of_all_that_keeps_a_table_from_being_mirrored_the_first_to_undo_is_shown(
    lake: Catalog, tmp_path: Path
) -> None:
    table = make_table(lake, tmp_path)
    append(table)
    lake.pause("t", unpublished=True)
    off, on = local_settings(enabled=False), local_settings()
    assert (mirrored(lake, off), mirrored(lake, on)) == ({"t": "disabled"}, {"t": "paused"})
    execute(lake, "UPDATE dl_tables SET quarantined_at = 1, quarantine_reason = 'it'")
    assert (mirrored(lake, off), mirrored(lake, on)) == ({"t": "quarantined"}, {"t": "quarantined"})
    execute(lake, "UPDATE dl_tables SET quarantined_at = NULL, quarantine_reason = NULL")
    lake.resume("t")
    assert (mirrored(lake, off), mirrored(lake, on)) == ({"t": "disabled"}, {"t": "active"})
    assert whole(table) == [True]
