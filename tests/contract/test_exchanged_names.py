"""Two tables exchange their names while one of them is worked on: the work is on the table that it began with."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from deltamirror import Catalog, MirrorEngine
from deltamirror.catalog.maintenance.vacuum import Retain
from deltamirror.delta.actions import Add, Remove
from deltamirror.delta.lines import decode_commit
from deltamirror.errors import Conflict
from deltamirror.ops.adopt.adoption import adopt
from deltamirror.ops.maintenance.chores import Chores
from deltamirror.ops.rebuild.restoring import restore_log
from deltamirror.ops.reconcile.repair import repair
from deltamirror.ops.reconcile.table_logs import Logs
from deltamirror.pipeline.plan import checksum_seeds
from deltamirror.pipeline.plan.checksum_seeds import seed_of_state
from deltamirror.pipeline.run.inspection import LocalInspector
from deltamirror.pipeline.service.turns import Turns
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.maintenance import MaintainedTable
from deltamirror.work import Chore
from tests.support.lakes.aging import HEAD, START, age, cleaning, expected_names, lived, log_names, store_of
from tests.support.lakes.lake import add, execute
from tests.support.lakes.vacuums import backdate, contents
from tests.support.mirrors.local import log_of, mirror_of

pytestmark = pytest.mark.default_on("sqlite")

_RECORDS = "dl_table_versions", "dl_commit_chunks", "dl_files", "dl_removes", "dl_file_ends", "dl_mirror_status"
Act = Callable[[MirrorEngine], object]


@pytest.fixture
def engine(lake: Catalog, tmp_path: Path) -> Iterator[MirrorEngine]:
    """Of a catalog in which ``t`` lived, and ``short`` did as well, whose log and history begin later."""
    with cleaning(lake) as found:
        for name in ("t", "short"):
            lived(lake, found, str(tmp_path / name), name=name)
        age(lake, upto=12, table_id=2)
        found.clean("short")
        found.prune("short", keep=0)
        yield found


def exchange(lake: Catalog) -> None:
    """Each table gets the name of the other one."""
    lake.rename_table("t", "neither")
    lake.rename_table("short", "t")
    lake.rename_table("neither", "short")


def after_first(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, happens: Callable[[], object]) -> None:
    """Let something happen once, after the first call of a method."""
    call, todo = getattr(owner, name), [happens]

    def calling(*arguments: Any, **options: Any) -> Any:
        found = call(*arguments, **options)
        if todo:
            todo.pop()()
        return found

    monkeypatch.setattr(owner, name, calling)


def _restored(engine: MirrorEngine) -> None:
    with Logs(engine, LocalInspector(engine.settings)) as logs:
        restore_log(logs, "t")


def _repaired(engine: MirrorEngine) -> None:
    with Logs(engine, LocalInspector(engine.settings)) as logs:
        repair(logs, "t", replace_altered=True)


ACTS: dict[str, Act] = {
    "clean": lambda engine: engine.clean("t"),
    "prune": lambda engine: engine.prune("t", keep=0),
    "restore": _restored,
    "repair": _repaired,
}


@pytest.mark.parametrize("act", ACTS.values(), ids=list(ACTS))
def test_whoever_waited_for_a_turn_goes_by_the_table_that_it_is_of(
    act: Act, lake: Catalog, engine: MirrorEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def records() -> list[str]:
        return [repr(tuple(row)) for name in _RECORDS for row in execute(lake, f"SELECT * FROM {name} ORDER BY 1, 2")]

    before = records()
    after_first(monkeypatch, Turns, "_taken", lambda: exchange(lake))
    act(engine)
    exchange(lake)
    assert log_names(store_of(lake.table("t"))) == expected_names(0)
    assert log_names(store_of(lake.table("short"))) == expected_names(START)
    assert records() == before
    assert {each.name: (each.state, each.published) for each in lake.tables()} == {
        "t": ("active", HEAD),
        "short": ("active", HEAD),
    }


def test_what_is_gone_from_a_log_is_published_there_again(
    lake: Catalog, engine: MirrorEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names are exchanged in the middle of it: each unit is planned for the table that the turn is of."""
    for version in (20, 21):
        (tmp_path / "t" / "_delta_log" / f"{version:020}.json").unlink()
    after_first(monkeypatch, Logs, "examine", lambda: exchange(lake))
    _repaired(engine)
    exchange(lake)
    assert log_names(store_of(lake.table("t"))) == expected_names(0)
    assert lake.table("t").info().published == HEAD


def test_commits_are_compacted_in_the_log_that_they_are_of(
    lake: Catalog, engine: MirrorEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    maintenance = replace(lake.settings.maintenance, compact_commits=2)
    monkeypatch.setattr(Catalog, "settings", replace(lake.settings, maintenance=maintenance))
    lake.table("t").append([add("of-t")])
    engine.mirror("t")
    own = lake.table("t").info()
    table = MaintainedTable(
        table_id=own.id, name="t", location=own.location, head=own.head, head_at=0, metadata_version=0, at=0
    )
    chores = Chores(lake, engine.runner, proceed=lambda: None)
    exchange(lake)
    for chore in (Chore.OPTIMIZE, Chore.VACUUM):
        with pytest.raises(Conflict, match="another table is called 't'"):
            chores.do(chore, table)
    done = chores.do(Chore.COMPACT, table)
    exchange(lake)
    found = sorted(log_of(lake.table("t")).glob("*.compacted.json"))
    assert len(found) == done.num_files > 0
    for path in found:
        first, last = map(int, path.name.split(".")[:2])
        commits = [lake.table("t").commit_file(version) for version in range(first, last + 1)]
        assert paths_named(path.read_bytes()) == paths_named(b"".join(commits)) != set()


def paths_named(data: bytes) -> set[str]:
    """The files that some lines name."""
    return {action.path for action in decode_commit(data) if isinstance(action, Add | Remove)}


def test_foreign_commits_are_adopted_by_the_table_whose_log_holds_them(
    lake: Catalog, engine: MirrorEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delta_log = tmp_path / "t" / "_delta_log"
    info, *others = map(json.loads, (delta_log / f"{HEAD:020}.json").read_text().splitlines())
    info["commitInfo"]["inCommitTimestamp"] += 1
    (delta_log / f"{HEAD + 1:020}.json").write_text("".join(json.dumps(each) + "\n" for each in (info, *others)))
    after_first(monkeypatch, Turns, "_taken", lambda: exchange(lake))
    with Logs(engine, LocalInspector(engine.settings)) as logs:
        assert adopt(logs, "t").adopted == (HEAD + 1,)
    exchange(lake)
    assert [lake.table(name).info().head for name in ("t", "short")] == [HEAD + 1, HEAD]


def test_a_vacuum_deletes_no_files_that_its_own_table_names(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("t", "short"):
        table = catalog.create_table(name, location=tmp_path / name, schema="id long")
        table.append(pa.table({"id": [1, 2]}))
    with mirror_of(catalog) as engine:
        engine.run(once=True)
    backdate(catalog, dict.fromkeys(range(2), 10))
    for key in contents(tmp_path / "t"):
        path = tmp_path / "t" / key
        os.utime(path, (path.stat().st_mtime - 864_000,) * 2)
    before = contents(tmp_path / "t")
    after_first(monkeypatch, Retain, "of", lambda: exchange(catalog))
    catalog.table("t").vacuum()
    exchange(catalog)
    assert before
    assert contents(tmp_path / "t") == before
    assert catalog.table("t").to_arrow().column("id").to_pylist() == [1, 2]


def test_checksums_never_begin_with_the_state_of_another_table(lake: Catalog, engine: MirrorEngine) -> None:
    """It is computed after the table was claimed, which may have another name by then."""
    own, other = (lake.table(name).info().id for name in ("t", "short"))
    found = seed_of_state(lake.database, own, "t", HEAD)
    assert found is not None
    assert found.metadata == lake.table("t").snapshot().metadata
    exchange(lake)
    assert seed_of_state(lake.database, own, "t", HEAD) is None
    assert seed_of_state(lake.database, other, "t", HEAD) is not None


def test_a_state_is_counted_in_the_thread_of_a_job_and_other_tables_are_claimed_meanwhile(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of tables that lie in the same store: the counting is waited for by its own table alone."""
    names = ("counted", "other")
    for name in names:
        catalog.create_table(name, location=tmp_path / name, schema="id long").append(pa.table({"id": [1]}))
    with mirror_of(catalog) as engine:
        engine.run(once=True)
        for name in names:
            catalog.table(name).append(pa.table({"id": [2]}))
        execute(catalog, "DELETE FROM dl_checksums WHERE table_id = 1")  # as after an import, or a huge commit
        seen = list[int | None]()

        def counting(*arguments: Any) -> Any:
            while catalog.table("other").info().published != 2:
                pass
            seen.append(catalog.table("counted").info().published)
            return seed_of_state(*arguments)

        monkeypatch.setattr("deltamirror.pipeline.plan.planning.seed_of_state", counting)
        engine.run(once=True)
    assert seen == [1]
    for name in names:
        assert catalog.table(name).info().published == 2
        assert (tmp_path / name / "_delta_log" / f"{2:020}.crc").is_file()


def test_a_state_that_cannot_be_counted_is_the_failure_of_its_table(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("damaged", "sound"):
        catalog.create_table(name, location=tmp_path / name, schema="id long").append(pa.table({"id": [1]}))
    with mirror_of(catalog) as engine:
        engine.run(once=True)
        for name in ("damaged", "sound"):
            catalog.table(name).append(pa.table({"id": [2]}))
        execute(catalog, "DELETE FROM dl_checksums")
        count = checksum_seeds.seed_of_state

        def counting(database: Database, table_id: int, table: str, version: int) -> Any:
            if table == "damaged":
                raise KeyError(table)
            return count(database, table_id, table, version)

        monkeypatch.setattr("deltamirror.pipeline.plan.planning.seed_of_state", counting)
        summary = engine.run(once=True)
        assert [failure.stage for failure in summary.failures] == ["plan"]
    assert [catalog.table(name).info().published for name in ("damaged", "sound")] == [1, 2]
