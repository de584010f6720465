"""Adopting what somebody else wrote to a log, over every database: it comes in as it is, and ours goes after it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deltalake
import msgspec
import pyarrow as pa
import pytest
from msgspec.structs import replace

from deltamirror import Catalog, MirrorEngine, Table
from deltamirror.config import Settings, StorageSettings, WriterSettings
from deltamirror.errors import Conflict, Diverged, InvalidAction, NotFound, Refused
from deltamirror.ops.adopt.adoption import adopt_all
from deltamirror.ops.reconcile.repair import repair
from deltamirror.storage import files
from deltamirror.txnlog.content.superseded import superseded_of
from tests.support.imports.adoptions import (
    PLAIN,
    add_line,
    adopted,
    assert_same,
    delta_rs_appends,
    dump,
    logs_of,
    mirror,
    mirroring,
    their_commit,
)
from tests.support.lakes.lake import add, execute, info_of, opened, paths, settings_for
from tests.support.mirrors.local import append, committed_files, log_of, make_table, published_files
from tests.support.readers.reader import Reader
from tests.support.readers.s3_access import S3Access

pytestmark = [pytest.mark.requirement("R39"), pytest.mark.default_on("sqlite")]


@pytest.fixture
def catalog(accepting: Catalog) -> Catalog:
    return accepting


@pytest.fixture
def engine(catalog: Catalog) -> Iterator[MirrorEngine]:
    with mirroring(catalog) as found:
        yield found


@pytest.fixture
def table(catalog: Catalog, tmp_path: Path, engine: MirrorEngine) -> Table:
    """A table at version 2, published."""
    made = make_table(catalog, tmp_path, properties=PLAIN)
    append(made, 2)
    mirror(engine)
    return made


@pytest.mark.default_on("sqlite", "postgresql")
def test_versions_that_sql_lacks_come_in_as_they_are(
    catalog: Catalog, engine: MirrorEngine, table: Table, delta_rs: Reader
) -> None:
    delta_rs_appends(table, 1, 2)
    delta_rs_appends(table, 3)
    theirs = {version: (log_of(table) / f"{version:020}.json").read_bytes() for version in (3, 4)}
    found = adopted(engine)
    assert (found.adopted, found.rebased, found.dropped) == ((3, 4), {}, ())
    assert {version: table.commit_file(version) for version in theirs} == theirs
    info = table.info()
    assert (info.head, info.published, info.state) == (4, 4, "active")
    assert [entry.kind for entry in table.history()][:3] == ["verbatim", "verbatim", "authored"]
    assert_same(table, delta_rs)
    append(table, 8)
    mirror(engine)
    assert published_files(table) == committed_files(table)
    assert_same(table, delta_rs)
    assert adopted(engine).adopted == ()


@pytest.mark.default_on("sqlite", "postgresql")
def test_what_waits_goes_after_what_somebody_else_wrote(
    catalog: Catalog, engine: MirrorEngine, table: Table, delta_rs: Reader
) -> None:
    ours = table.append([add("ours-1"), add("ours-2")], token="mine")
    append(table)
    old = {version: (info_of(table, version), table.commit_file(version)) for version in (3, 4)}
    delta_rs_appends(table, 1)
    assert [type(failure.error) for failure in engine.run(once=True).failures] == [Diverged]
    assert table.info().state == "quarantined"
    found = adopted(engine)
    assert (found.adopted, found.rebased, found.dropped) == ((3,), {3: 4, 4: 5}, ())
    for before, after in found.rebased.items():
        told, (was, data) = info_of(table, after), old[before]
        assert (told["txnId"], told["operation"], told["operationMetrics"]) == (
            was["txnId"], was["operation"], was["operationMetrics"]
        )  # fmt: skip
        assert told["readVersion"] == after - 1
        assert told["isBlindAppend"] is True
        assert table.commit_file(after).partition(b"\n")[2] == data.partition(b"\n")[2]
    again = table.append([add("ours-1"), add("ours-2")], token="mine")
    assert (ours.versions, again.versions, again.already_applied) == ({"t": 3}, {"t": 4}, True)
    times = [entry.timestamp for entry in table.history()]
    assert times == sorted(times, reverse=True)
    assert len(set(times)) == len(times)
    mirror(engine)
    (status,) = engine.status("t")
    assert (status.state, status.lag_versions, status.escalations) == ("active", 0, 0)
    assert published_files(table) == committed_files(table)
    assert_same(table, delta_rs)


@pytest.mark.default_on("sqlite", "postgresql")
def test_what_was_superseded_is_kept_with_the_versions_that_it_has_since(
    catalog: Catalog, engine: MirrorEngine, table: Table
) -> None:
    append(table, 2)
    txns = [entry.txn_id for entry in table.history()][:2]
    their_commit(table, 3, add_line("theirs"))
    adopted(engine)
    their_commit(table, 4, add_line("theirs-2"))
    assert adopted(engine).rebased == {4: 5, 5: 6}
    with catalog.database.read() as connection:
        kept = superseded_of(connection, 1)
        [moved] = superseded_of(connection, 1, 6)
    assert [(each.lineage, each.version, each.new_version) for each in kept] == [
        (0, 3, 4), (0, 4, 5), (1, 4, 5), (1, 5, 6)
    ]  # fmt: skip
    assert [each.txn_id for each in kept[2:]] == txns[::-1]
    assert (moved.version, moved.reason) == (5, None)


@pytest.mark.default_on("sqlite", "postgresql")
def test_a_transaction_over_several_tables_is_rebased_in_the_one_that_diverged(
    catalog: Catalog, engine: MirrorEngine, table: Table, tmp_path: Path
) -> None:
    make_table(catalog, tmp_path, "other")
    with catalog.transaction(token="both") as tx:
        tx.append("t", [add("x")])
        tx.append("other", [add("x")])
    their_commit(table, 3, add_line("theirs"))
    assert adopted(engine).rebased == {3: 4}
    with catalog.transaction(token="both") as tx:
        tx.append("t", [add("x")])
        tx.append("other", [add("x")])
    assert (tx.result.versions, tx.result.already_applied) == ({"t": 4, "other": 1}, True)
    assert info_of(table, 4)["txnId"] == info_of(catalog.table("other"), 1)["txnId"]


def test_a_transaction_that_is_in_the_log_already_is_not_applied_twice(
    catalog: Catalog, engine: MirrorEngine, table: Table, delta_rs: Reader
) -> None:
    table.append([add("x")], token="mine")
    append(table)
    data = table.commit_file(3)
    txn_id = info_of(table, 3)["txnId"]
    their_commit(table, 3, add_line("theirs"))
    (log_of(table) / f"{4:020}.json").write_bytes(data)
    found = adopted(engine)
    assert (found.adopted, found.rebased) == ((3, 4), {3: 4, 4: 5})
    assert [entry.txn_id for entry in table.history()].count(txn_id) == 1
    assert table.append([add("x")], token="mine").versions == {"t": 4}
    mirror(engine)
    assert paths(table).count("x") == 1
    assert_same(table, delta_rs)


@pytest.mark.default_on("sqlite", "postgresql")
def test_a_token_is_found_by_the_transaction_that_came_back_from_the_log(
    catalog: Catalog, engine: MirrorEngine, table: Table, tmp_path: Path
) -> None:
    other = make_table(catalog, tmp_path, "other", properties=PLAIN)
    mirror(engine)
    with catalog.transaction(token="both") as tx:
        tx.append("t", [add("x")])
        tx.append("other", [add("x")])
    mirror(engine)
    for each, head in ((table, 2), (other, 0)):  # as a backup of the database would have it
        _forget_above(catalog, each, head)
    execute(catalog, "DELETE FROM dl_commit_tokens")

    def retried() -> Any:
        again = catalog.transaction(token="both")
        again.append("t", [add("x")])
        again.append("other", [add("x")])
        return again.commit()

    assert adopted(engine, "t").adopted == (3,)
    with pytest.raises(Conflict, match="but not of other") as caught:
        retried()
    assert caught.value.reason == "partly-applied"
    assert adopted(engine, "other").adopted == (1,)
    found = retried()
    assert (found.versions, found.already_applied) == ({"t": 3, "other": 1}, True)


def test_every_log_is_adopted_at_once(catalog: Catalog, engine: MirrorEngine, table: Table, tmp_path: Path) -> None:
    fine, gap = make_table(catalog, tmp_path, "fine"), make_table(catalog, tmp_path, "gap", properties=PLAIN)
    mirror(engine)
    append(fine)
    their_commit(table, 3, add_line("theirs"))
    their_commit(gap, 2, add_line("theirs"))
    with logs_of(engine) as logs:
        done = adopt_all(logs, drop_conflicting=False, split_transactions=False, dry_run=False)
    assert [(each.table, each.adopted) for each in done.adopted] == [("t", (3,))]
    assert [(name, type(error)) for name, error in done.failed.items()] == [("gap", Refused)]
    mirror(engine)
    assert published_files(fine) == committed_files(fine)


def test_in_commit_timestamps_stay_in_order(catalog: Catalog, engine: MirrorEngine, tmp_path: Path) -> None:
    table = make_table(catalog, tmp_path)
    mirror(engine)
    append(table)
    their_commit(table, 1, add_line("theirs"))
    with pytest.raises(InvalidAction, match=r"version 1 in the log .*inCommitTimestamp"):
        adopted(engine)
    (log_of(table) / f"{1:020}.json").unlink()
    late = table.info().head_timestamp + 10_000_000
    their_commit(table, 1, add_line("theirs"), inCommitTimestamp=late)
    assert adopted(engine).rebased == {1: 2}
    assert [entry.timestamp for entry in table.history()][:2] == [late + 1, late]
    assert info_of(table, 2)["inCommitTimestamp"] == late + 1


def test_row_ids_are_given_anew(catalog: Catalog, engine: MirrorEngine, tmp_path: Path) -> None:
    tracked = {"delta.enableRowTracking": "true"}
    table = make_table(catalog, tmp_path, properties={**PLAIN, **tracked})
    table.append([add("a", stats='{"numRecords":10}')])
    mirror(engine)
    table.append([add("b", stats='{"numRecords":10}')])
    table.append([add("c", stats='{"numRecords":10}')])
    ids = {"baseRowId": 10, "defaultRowCommitVersion": 2}
    mark = {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":10}', "removed": False}
    their_commit(table, 2, add_line("theirs", **ids), {"domainMetadata": mark})
    assert adopted(engine).rebased == {2: 3, 3: 4}
    files = {each.path: (each.base_row_id, each.default_row_commit_version) for each in table.snapshot().adds()}
    assert files == {"a": (0, 1), "theirs": (10, 2), "b": (11, 3), "c": (21, 4)}
    [domain] = table.snapshot().domain_metadata().values()
    assert msgspec.json.decode(domain.configuration)["rowIdHighWaterMark"] == 30


def test_a_verbatim_commit_of_ours_is_put_in_again_as_it_is(
    catalog: Catalog, engine: MirrorEngine, table: Table
) -> None:
    told = {"commitInfo": {"operation": "WRITE", "isBlindAppend": True, "odd": 1}}
    data = b"".join(msgspec.json.encode(each) + b"\n" for each in (told, add_line("verbatim")))
    with catalog.transaction() as tx:
        tx.stage_lines("t", data, at_version=3)
    their_commit(table, 3, add_line("theirs"))
    assert adopted(engine).rebased == {3: 4}
    assert table.commit_file(4) == data


@pytest.mark.default_on("sqlite", "postgresql")
def test_a_large_commit_of_ours_follows_too(lake_url: str, tmp_path: Path, delta_rs: Reader) -> None:
    accepting = WriterSettings(on_divergence="accept")
    with opened(lake_url, writer=accepting, stage_above=10, chunk_lines=7) as catalog, mirroring(catalog) as engine:
        table = make_table(catalog, tmp_path, properties=PLAIN)
        mirror(engine)
        table.append([add(f"large-{number}") for number in range(50)])
        their_commit(table, 1, add_line("theirs"))
        assert adopted(engine).rebased == {1: 2}
        mirror(engine)
        assert table.snapshot().count_files() == 51
        assert_same(table, delta_rs)


def test_writers_that_know_the_table_from_before_go_on(
    catalog: Catalog, engine: MirrorEngine, table: Table, lake_url: str
) -> None:
    before = catalog.transaction()
    before.remove("t", [paths(table)[0]])
    append(table)
    their_commit(table, 3, add_line("theirs"))
    adopted(engine)
    append(table)
    with pytest.raises(Conflict, match="adopted since it was read"):
        before.commit()
    assert paths(table)[-1] == "theirs"
    mirror(engine)
    assert published_files(table) == committed_files(table)


def test_the_bytes_of_a_superseded_version_are_recognised_in_the_log(
    catalog: Catalog, engine: MirrorEngine, table: Table, delta_rs: Reader
) -> None:
    append(table, 2)
    late = table.commit_file(4)
    their_commit(table, 3, add_line("theirs"))
    adopted(engine)
    (log_of(table) / f"{4:020}.json").write_bytes(late)  # by a worker that slept through the adoption
    with pytest.raises(Diverged, match="superseded") as caught:
        engine.mirror("t")
    assert (caught.value.superseded, "--replace-altered" in caught.value.hint) == (True, True)
    assert table.info().state == "quarantined"
    [row] = execute(catalog, "SELECT diverged_version FROM dl_heads")
    assert row.diverged_version is None
    with pytest.raises(Diverged, match="superseded"):
        adopted(engine)
    with logs_of(engine) as logs:
        with pytest.raises(Diverged, match="superseded"):
            repair(logs, "t")
        assert repair(logs, "t", replace_altered=True).replaced == (4,)
    assert published_files(table) == committed_files(table)
    assert_same(table, delta_rs)


def test_checkpoints_and_checksums_follow_the_adopted_history(
    catalog: Catalog, engine: MirrorEngine, table: Table, delta_rs: Reader, duckdb_delta: Reader
) -> None:
    append(table, 3)
    delta_rs_appends(table, 1)
    adopted(engine)
    append(table, 8)
    mirror(engine)
    assert engine.status("t")[0].checkpoint is not None
    for reader in (delta_rs, duckdb_delta):
        assert_same(table, reader)


def test_a_table_that_nobody_else_wrote_to_has_nothing_to_adopt(
    catalog: Catalog, engine: MirrorEngine, table: Table
) -> None:
    append(table)
    (log_of(table) / f"{3:020}.json").write_bytes(table.commit_file(3))
    before = dump(catalog)
    assert adopted(engine).adopted == ()
    assert dump(catalog) == before
    with pytest.raises(NotFound):
        adopted(engine, "no")


def test_what_is_ours_before_it_is_recorded_as_published_once_its_name_is_synced(
    catalog: Catalog, engine: MirrorEngine, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(table, 2)
    (log_of(table) / f"{3:020}.json").write_bytes(table.commit_file(3))
    their_commit(table, 4, add_line("theirs"))
    synced = list[tuple[Path, int | None]]()
    monkeypatch.setattr(files, "sync_folder", lambda folder: synced.append((folder, table.info().published)))
    found = adopted(engine)
    assert synced == [(log_of(table), 2)]
    assert (found.adopted, found.rebased, table.info().published) == ((4,), {4: 5}, 4)
    states = execute(catalog, "SELECT version, state FROM dl_mirror_status ORDER BY version")
    assert [row.state for row in states] == ["SUCCESS"] * 5 + ["PENDING"]


def _forget_above(catalog: Catalog, table: Table, head: int) -> None:
    """Let a database be as it was when a table was at this version."""
    known = {"id": table.info().id, "head": head}
    for name in ("dl_table_versions", "dl_mirror_status"):
        execute(catalog, f"DELETE FROM {name} WHERE table_id = :id AND version > :head", **known)
    execute(catalog, "UPDATE dl_heads SET version = :head WHERE table_id = :id", **known)
    execute(catalog, "UPDATE dl_tables SET published_version = :head WHERE table_id = :id", **known)


def test_what_is_lost_of_ours_is_written_again_after_the_adoption(
    catalog: Catalog, engine: MirrorEngine, table: Table, delta_rs: Reader
) -> None:
    append(table, 2)
    mirror(engine)
    delta_rs_appends(table, 1)
    (log_of(table) / f"{3:020}.json").unlink()
    execute(catalog, "UPDATE dl_mirror_status SET state = 'FAILED' WHERE version = 3")
    execute(catalog, "UPDATE dl_tables SET published_version = 2")
    append(table)
    assert adopted(engine).rebased == {5: 6}
    assert table.info().published == 2
    mirror(engine)
    assert published_files(table) == committed_files(table)
    assert_same(table, delta_rs)


@pytest.fixture
def s3_catalog(lake_url: str, s3_settings: StorageSettings) -> Iterator[Catalog]:
    accepting = settings_for(lake_url, writer=WriterSettings(on_divergence="accept"))
    with Catalog(settings=replace(accepting, storage=s3_settings)) as found:
        yield found


def test_a_log_on_s3_is_adopted(s3_catalog: Catalog, s3_bucket: str, s3_settings: StorageSettings) -> None:
    table = s3_catalog.create_table("t", location=f"s3://{s3_bucket}/t", schema="id long", properties=PLAIN)
    with mirroring(s3_catalog, replace(Settings(), storage=s3_settings)) as engine:
        mirror(engine)
        append(table, 2)
        delta_rs_appends(table, 1, storage=S3Access.of(s3_settings).environment())
        assert adopted(engine).rebased == {1: 2, 2: 3}
        mirror(engine)
    options = S3Access.of(s3_settings).environment()
    found = deltalake.DeltaTable(f"s3://{s3_bucket}/t", storage_options=options)
    listed = sorted(pa.table(found.get_add_actions()).column("path").to_pylist())
    assert (found.version(), listed) == (3, paths(table))
