"""The reconciler over every database: what a log lacks is found and published again, what is not ours is left alone."""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from msgspec.structs import replace

from deltamirror import Catalog, Table
from deltamirror.config import Settings, StorageSettings, Switch
from deltamirror.delta.lastcheckpoint import decode
from deltamirror.errors import DeltaMirrorError, Diverged, LeaseLost, NotFound, Refused, Throttled, Unavailable
from deltamirror.ops.reconcile.reconciling import Strategy
from deltamirror.ops.reconcile.repair import repair
from deltamirror.ops.report import report_on
from deltamirror.publish import commits
from deltamirror.storage.open import store_at
from deltamirror.txnlog.queue.expected_objects import kept_log
from deltamirror.txnlog.queue.findings import Turn
from deltamirror.txnlog.queue.leases import release, take
from deltamirror.txnlog.queue.status import Attempt, attempts
from deltamirror.work import CommitWork, Lane
from tests.support.imports.adoptions import logs_of
from tests.support.lakes.lake import add, execute, settings_for
from tests.support.logs.commit_units import commit_key
from tests.support.mirrors.claims import claimed, failed, record
from tests.support.mirrors.local import append, committed_files, log_of, make_table, mirror_of, published_files
from tests.support.mirrors.reconcilers import reconciled, reconciler_of, reconciling

pytestmark = pytest.mark.default_on("sqlite")

BOTH = pytest.mark.parametrize("strategy", [Strategy.SMART, Strategy.FULL])


def file_of(table: Table, version: int, suffix: str = "json") -> Path:
    return log_of(table) / f"{version:020}.{suffix}"


def corrupt(path: Path) -> bytes:
    """Other bytes, as many as before; what they are."""
    changed = path.read_bytes().replace(b"commitInfo", b"commitinfO", 1)
    path.write_bytes(changed)
    return changed


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def states(catalog: Catalog, state: str = "SUCCESS") -> list[int]:
    rows = execute(catalog, "SELECT version FROM dl_mirror_status WHERE state = :state ORDER BY version", state=state)
    return [row.version for row in rows]


def attempts_at(catalog: Catalog, version: int) -> list[Attempt]:
    with catalog.database.read() as connection:
        return attempts(connection, 1, version)


def published_table(catalog: Catalog, folder: Path, count: int, name: str = "t", **more: object) -> Table:
    table = make_table(catalog, folder, name, **more)
    append(table, count)
    with mirror_of(catalog) as engine:
        engine.run(once=True)
    return table


@pytest.mark.requirement("R53")
@BOTH
@pytest.mark.default_when(
    parameters=lambda those: (
        those["lake_url"] == "sqlite" or (those["lake_url"], those["strategy"]) == ("postgresql", Strategy.SMART)
    )
)
def test_lost_objects_are_found_set_failed_and_written_again_bit_for_bit(
    catalog: Catalog, tmp_path: Path, strategy: Strategy
) -> None:
    table = published_table(catalog, tmp_path, 40)
    before = published_files(table)
    for version in (3, 17, 40):
        file_of(table, version).unlink()
    with reconciling(catalog) as engine:
        found, _ = reconciled(engine, strategy)
        assert (found.missing, found.altered, found.foreign) == ((3, 17, 40), (), ())
        assert (found.repaired, found.left, found.error) == (3, 0, None)
        assert published_files(table) == before
        assert engine.status("t")[0].lag_versions == 0
        again, _ = reconciled(engine, strategy)
        assert (again.missing, again.repaired, again.left) == ((), 0, 0)
    assert states(catalog) == list(range(41))
    told = [(each.lane, each.outcome, each.error_code, each.error_key) for each in attempts_at(catalog, 17)]
    assert told == [("commits", "FAILED", "not-found", commit_key(17)), ("commits", "SUCCESS", None, None)]


@pytest.mark.requirement("R53")
def test_a_row_turns_success_only_when_the_object_is_there(catalog: Catalog, tmp_path: Path) -> None:
    table = published_table(catalog, tmp_path, 6)
    kept = {version: table.commit_file(version) for version in (2, 4)}
    for version in kept:
        file_of(table, version).unlink()
    (log_of(table) / f"{2:020}.json").mkdir()
    with reconciling(catalog) as engine:
        found, _ = reconciled(engine, Strategy.SMART)
        assert found.missing == (2, 4)
        assert found.error is not None
        assert states(catalog, "FAILED") == [2, 4]
        assert (engine.status("t")[0].published, engine.status("t")[0].failed) == (1, 2)
        assert "is a folder" in str(engine.status("t")[0].quarantine_reason)
        (log_of(table) / f"{2:020}.json").rmdir()
        with logs_of(engine) as logs:
            assert repair(logs, "t").published == 6
    assert {version: file_of(table, version).read_bytes() for version in kept} == kept
    assert states(catalog) == list(range(7))


@pytest.mark.requirement("R53")
def test_what_was_lost_is_read_back_before_its_row_turns_success(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, back = published_table(catalog, tmp_path, 6), list[int]()
    read_back = commits._Publisher._read_back

    def noted(publisher: commits._Publisher, work: CommitWork, key: str, data: bytes) -> None:
        back.append(work.version)
        assert work.version in states(catalog, "FAILED")
        read_back(publisher, work, key, data)

    monkeypatch.setattr(commits._Publisher, "_read_back", noted)
    for version in (2, 4):
        file_of(table, version).unlink()
    with reconciling(catalog) as engine:
        assert reconciled(engine, Strategy.SMART)[0].repaired == 2
        append(table)
        engine.run(once=True)
    assert back == [2, 4]


@pytest.mark.requirement("R56")
def test_smart_finds_three_lost_and_one_altered_object_with_far_fewer_reads_than_full(
    catalog: Catalog, tmp_path: Path
) -> None:
    table = published_table(catalog, tmp_path, 60)
    with reconciling(catalog) as engine:
        _, every_read = reconciled(engine, Strategy.FULL)
        for version in (7, 21, 55):
            file_of(table, version).unlink()
        theirs = corrupt(file_of(table, 33))
        found, reads = reconciled(engine, Strategy.SMART)
    assert (found.missing, found.altered, found.foreign) == ((7, 21, 55), (33,), ())
    assert (found.repaired, found.left) == (3, 1)
    assert every_read > 60
    assert reads < every_read / 3
    assert file_of(table, 33).read_bytes() == theirs
    assert {**published_files(table), file_of(table, 33).name: table.commit_file(33)} == committed_files(table)


@pytest.fixture
def s3_catalog(lake_url: str, s3_settings: StorageSettings) -> Iterator[Catalog]:
    with Catalog(settings=replace(settings_for(lake_url), storage=s3_settings)) as found:
        yield found


@pytest.mark.requirement("R56")
def test_the_same_holds_on_s3(s3_catalog: Catalog, s3_bucket: str, s3_settings: StorageSettings) -> None:
    catalog, settings = s3_catalog, replace(Settings(), storage=s3_settings)
    table = catalog.create_table("t", location=f"s3://{s3_bucket}/t", schema="id long")
    append(table, 30)
    store = store_at(table.location, s3_settings)
    with reconciling(catalog, settings) as engine:
        engine.run(once=True)
        _, every_read = reconciled(engine, Strategy.FULL)
        store.delete([commit_key(version) for version in (0, 11, 29)])
        store.put(commit_key(20), b'{"commitInfo":{}}\n')
        found, reads = reconciled(engine, Strategy.SMART)
        assert (found.missing, found.altered, found.foreign) == ((0, 11, 29), (20,), ())
        assert (found.repaired, found.left) == (3, 1)
        assert reads < every_read / 2
    for version in (0, 11, 29):
        put_again = store.read(commit_key(version))
        assert put_again is not None
        assert put_again.data == table.commit_file(version)


@pytest.mark.default_on("sqlite", "postgresql")
def test_what_a_listing_does_not_show_is_found_when_the_samples_come_round(catalog: Catalog, tmp_path: Path) -> None:
    table = published_table(catalog, tmp_path, 11)
    before = file_of(table, 8).stat()
    corrupt(file_of(table, 8))
    os.utime(file_of(table, 8), ns=(before.st_atime_ns, before.st_mtime_ns))
    with reconciling(catalog, sample=4) as engine:
        altered = [reconciled(engine, Strategy.SMART)[0].altered for _ in range(3)]
    assert altered == [(), (), (8,)]


def test_an_object_that_was_touched_is_read_until_it_was_looked_at(catalog: Catalog, tmp_path: Path) -> None:
    table = published_table(catalog, tmp_path, 20)
    for version in range(21):
        os.utime(file_of(table, version))
    with reconciling(catalog, sample=0) as engine:
        first, _ = reconciled(engine, Strategy.SMART)
        assert (first.checked, first.altered) == (22, ())  # the commits, and the pointer
        execute(catalog, "UPDATE dl_reconciliations SET reconciled_at = reconciled_at + 400000")
        second, _ = reconciled(engine, Strategy.SMART)
        assert second.checked == 1


@pytest.mark.requirement("R39")
@BOTH
def test_an_altered_commit_is_never_overwritten_and_stops_its_table_only(
    catalog: Catalog, tmp_path: Path, strategy: Strategy, caplog: pytest.LogCaptureFixture
) -> None:
    table = published_table(catalog, tmp_path, 5)
    other = make_table(catalog, tmp_path, "other")
    theirs = corrupt(file_of(table, 2))
    with reconciling(catalog) as engine:
        found, _ = reconciled(engine, strategy)
        assert (found.altered, found.left) == ((2,), 1)
        assert caplog.text.count("is in quarantine") == 1
        append(table)
        append(other)
        engine.run(once=True)
        (status,) = engine.status("t")
        assert (status.state, status.published, status.failed, status.pending) == ("quarantined", 1, 1, 1)
        assert status.quarantine_reason is not None
        assert commit_key(2) in status.quarantine_reason
        assert file_of(table, 2).read_bytes() == theirs
        assert not file_of(table, 6).exists()
        assert published_files(other) == committed_files(other)
        with pytest.raises(Refused, match="quarantine"):
            engine.mirror("t")
        with pytest.raises(Refused, match="not mirrored"):
            reconciled(engine, strategy)
        with reconciler_of(engine) as (reconciler, _):
            assert [each.table for each in reconciler.run(strategy).tables] == ["other"]
    [attempt] = attempts_at(catalog, 2)
    assert (attempt.error_code, attempt.error_stage, attempt.error_key) == ("diverged", "verify", commit_key(2))
    assert (attempt.expected_digest, attempt.found_digest) == (digest(table.commit_file(2)), digest(theirs))
    told = report_on(catalog.database, "t", 2, switch=Switch()).escalations
    assert [(each.error_code, each.closed_at) for each in told] == [("diverged", None)]


@pytest.mark.requirement("R39")
@BOTH
def test_a_commit_that_delta_rs_put_above_the_head_is_found_and_left_where_it_is(
    catalog: Catalog, tmp_path: Path, strategy: Strategy
) -> None:
    plain = {"delta.enableInCommitTimestamps": "false"}
    table = published_table(catalog, tmp_path, 0, properties=plain)
    deltalake.write_deltalake(log_of(table).parent, pa.table({"id": [1, 2]}), mode="append")
    theirs = file_of(table, 1).read_bytes()
    with reconciling(catalog) as engine:
        found, _ = reconciled(engine, strategy)
        assert (found.foreign, found.missing, found.altered, found.left) == ((1,), (), (), 1)
        with pytest.raises(Diverged, match="another writer wrote version 1"):
            append(table)
        engine.run(once=True)
        assert engine.status("t")[0].state == "quarantined"
        assert file_of(table, 1).read_bytes() == theirs
        assert not file_of(table, 2).exists()
    told = report_on(catalog.database, "t", 1, switch=Switch())
    assert [each.version for each in told.escalations] == [1]
    [attempt] = told.attempts
    assert (attempt.error_code, attempt.expected_digest, attempt.found_digest) == ("diverged", None, digest(theirs))
    with pytest.raises(NotFound):
        report_on(catalog.database, "t", 2, switch=Switch())


@pytest.mark.requirement("R39")
def test_a_commit_in_the_place_of_one_that_waits_is_found(catalog: Catalog, tmp_path: Path) -> None:
    table = published_table(catalog, tmp_path, 1)
    append(table, 2)
    theirs = b'{"commitInfo":{"operation":"WRITE"}}\n'
    file_of(table, 2).write_bytes(theirs)
    with reconciling(catalog) as engine:
        found, _ = reconciled(engine, Strategy.SMART)
        assert (found.foreign, found.left) == ((2,), 1)
        assert file_of(table, 2).read_bytes() == theirs
        [attempt] = attempts_at(catalog, 2)
        assert (attempt.expected_digest, attempt.found_digest) == (digest(table.commit_file(2)), digest(theirs))


def test_what_is_being_published_is_taken_for_nobody_elses(catalog: Catalog, tmp_path: Path) -> None:
    table = published_table(catalog, tmp_path, 1)
    append(table, 3)
    for version in (2, 3):
        file_of(table, version).write_bytes(table.commit_file(version))
    with reconciling(catalog) as engine:
        found, _ = reconciled(engine, Strategy.SMART)
        assert (found.foreign, found.missing, found.left) == ((), (), 0)
        assert engine.status("t")[0].published == 4


@pytest.mark.elsewhere  # tests/fault/test_failed_versions.py has as many of as many tables, and another process
@pytest.mark.requirement("R52")
@pytest.mark.default_on("postgresql")
def test_200_failed_versions_of_20_tables_are_published_in_order_by_somebody_else(
    catalog: Catalog, tmp_path: Path
) -> None:
    tables = [make_table(catalog, tmp_path, f"t{number:02}") for number in range(20)]
    for table in tables:
        append(table, 9)
    for found in claimed(catalog, owner="who failed"):
        record(catalog, failed(found.lease, 0, error=Unavailable("away")))
    execute(catalog, "UPDATE dl_mirror_status SET state = 'FAILED', error_code = 'unavailable', error_message = 'x'")
    with reconciling(catalog) as engine, reconciler_of(engine) as (reconciler, _):
        done = reconciler.run(Strategy.INCREMENTAL)
    assert [(each.repaired, each.left, each.error) for each in done.tables] == [(10, 0, None)] * 20
    assert all(published_files(table) == committed_files(table) for table in tables)
    for table in tables:
        times = [file_of(table, version).stat().st_mtime_ns for version in range(10)]
        assert times == sorted(times)


@pytest.mark.parametrize(("error", "is_due"), [(Unavailable("away"), True), (Throttled("slow down"), False)])
def test_a_store_that_answers_is_tried_again_at_once_unless_it_asked_for_a_pause(
    catalog: Catalog, tmp_path: Path, error: DeltaMirrorError, is_due: bool
) -> None:
    table = published_table(catalog, tmp_path, 1)
    append(table)
    [found] = claimed(catalog, owner="who failed")
    record(catalog, failed(found.lease, 2, error=error))
    with reconciling(catalog) as engine, reconciler_of(engine) as (reconciler, _):
        with catalog.database.read() as connection:
            log = kept_log(connection, "t")
        reconciler.look(log)
    [row] = execute(catalog, "SELECT next_attempt_at FROM dl_mirror_status WHERE state = 'FAILED'")
    assert (row.next_attempt_at is None) == is_due


@BOTH
def test_a_log_that_is_gone_as_a_whole_is_there_again(catalog: Catalog, tmp_path: Path, strategy: Strategy) -> None:
    table = published_table(catalog, tmp_path, 25)
    for path in log_of(table).iterdir():
        path.unlink()
    log_of(table).rmdir()
    with reconciling(catalog) as engine:
        found, _ = reconciled(engine, strategy)
        assert (found.missing, found.left, found.error) == (tuple(range(26)), 0, None)
        assert published_files(table) == committed_files(table)
        assert file_of(table, 20, "checkpoint.parquet").exists()
        assert file_of(table, 25, "crc").exists()
        pointer = decode((log_of(table) / "_last_checkpoint").read_bytes()).pointer
        assert pointer is not None
        assert pointer.version == 20
    assert deltalake.DeltaTable(log_of(table).parent).version() == 25


@BOTH
@pytest.mark.parametrize("damage", ["gone", "other bytes"])
def test_a_checkpoint_that_is_lost_or_damaged_is_written_again(
    catalog: Catalog, tmp_path: Path, strategy: Strategy, damage: str
) -> None:
    table = published_table(catalog, tmp_path, 12)
    checkpoint = file_of(table, 10, "checkpoint.parquet")
    rows = len(deltalake.DeltaTable(log_of(table).parent, version=10).file_uris())
    checkpoint.unlink() if damage == "gone" else checkpoint.write_bytes(b"PAR1 is not all of it PAR1")
    with reconciling(catalog) as engine:
        found, _ = reconciled(engine, strategy)
        assert (found.checkpoints, found.missing, found.repaired, found.left) == ((10,), (), 1, 0)
        status = engine.status("t")[0]
        assert (status.checkpoint_error, status.published) == (None, 12)
        assert reconciled(engine, strategy)[0].checkpoints == ()
    assert len(deltalake.DeltaTable(log_of(table).parent, version=10).file_uris()) == rows


def test_a_large_commit_is_compared_piece_by_piece(catalog: Catalog, tmp_path: Path) -> None:
    table = make_table(catalog, tmp_path)
    table.append([add(f"{number}.parquet", stats='{"numRecords":1}') for number in range(9_000)])
    with reconciling(catalog) as engine:
        engine.run(once=True)
        [row] = execute(catalog, "SELECT num_chunks FROM dl_table_versions WHERE version = 1")
        assert row.num_chunks > 2
        assert reconciled(engine, Strategy.FULL)[0].altered == ()
        file_of(table, 1).write_bytes(file_of(table, 1).read_bytes()[:-1] + b" ")
        theirs = file_of(table, 1).read_bytes()
        assert reconciled(engine, Strategy.FULL)[0].altered == (1,)
    [attempt] = attempts_at(catalog, 1)
    assert (attempt.expected_digest, attempt.found_digest) == (digest(table.commit_file(1)), digest(theirs))


@contextmanager
def somebodys_turn(catalog: Catalog) -> Iterator[None]:
    lease = take(catalog.database, 1, lane=Lane.RECONCILIATION, owner="another", seconds=3600)
    assert lease is not None
    try:
        yield
    finally:
        release(catalog.database, [lease])


@pytest.mark.default_on("sqlite", "postgresql")
def test_services_take_turns_and_nobody_waits_for_a_turn_beside_its_work(catalog: Catalog, tmp_path: Path) -> None:
    table = published_table(catalog, tmp_path, 2)
    file_of(table, 1).unlink()
    with reconciling(catalog) as engine, reconciler_of(engine) as (reconciler, inspector):
        with catalog.database.read() as connection:
            log = kept_log(connection, "t")
        with somebodys_turn(catalog), pytest.raises(LeaseLost):
            reconciler.look(log)
        assert inspector.calls == []
        assert reconciler.look(log).missing == (1,)
    assert published_files(table) == committed_files(table)


def test_what_a_service_writes_again_first_counts_as_written_again(
    lake: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = published_table(lake, tmp_path, 10)
    file_of(table, 7).unlink()
    file_of(table, 10, "checkpoint.parquet").unlink()

    def overtaken(take_back: Callable[..., None]) -> Callable[..., None]:
        def take(*arguments: object) -> None:
            take_back(*arguments)
            with mirror_of(lake) as service:
                service.run(once=True)

        return take

    for name in ("take_back", "take_checkpoint_back"):
        monkeypatch.setattr(Turn, name, overtaken(getattr(Turn, name)))
    with reconciling(lake) as engine:
        found, _ = reconciled(engine, Strategy.FULL)
    assert (found.missing, found.checkpoints) == ((7,), (10,))
    assert (found.repaired, found.left, found.error) == (2, 0, None)


def test_a_table_that_is_not_there_is_not_found(catalog: Catalog) -> None:
    with reconciling(catalog) as engine, pytest.raises(NotFound):
        reconciled(engine, Strategy.SMART, "missing")


@pytest.mark.requirement("R55")
def test_a_store_that_is_left_alone_is_not_asked(catalog: Catalog, tmp_path: Path) -> None:
    table = published_table(catalog, tmp_path, 2)
    file_of(table, 1).unlink()
    with reconciling(catalog) as engine, reconciler_of(engine) as (reconciler, inspector):
        values = "('file:///', 'open', 5, 0, 0, 4000000000000)"
        columns = "store, state, failures, successes, changed_at, retry_at"
        execute(catalog, f"INSERT INTO dl_breakers ({columns}) VALUES {values}")
        with catalog.database.read() as connection:
            log = kept_log(connection, "t")
        assert reconciler.look(log).missing == ()
        [found] = reconciler.run(Strategy.SMART).tables
        assert isinstance(found.error, Unavailable)
        assert inspector.calls == []
        execute(catalog, "DELETE FROM dl_breakers")
        assert reconciler.look(log).missing == (1,)


@pytest.mark.requirement("R55")
def test_a_store_where_nothing_is_to_be_published_is_tried_by_looking_at_its_logs(
    catalog: Catalog, tmp_path: Path
) -> None:
    """Otherwise it would be left alone until the next commit, and what is gone from its logs would stay gone."""
    table = published_table(catalog, tmp_path, 2)
    with reconciling(catalog) as engine, reconciler_of(engine) as (reconciler, _):
        values = "('file:///', 'open', 5, 0, 0, 1)"
        columns = "store, state, failures, successes, changed_at, retry_at"
        execute(catalog, f"INSERT INTO dl_breakers ({columns}) VALUES {values}")
        with catalog.database.read() as connection:
            log = kept_log(connection, "t")
        for version in (2, 1, 0):
            file_of(table, version).unlink()
            assert reconciler.look(log).missing == (version,)
    assert [row.state for row in execute(catalog, "SELECT state FROM dl_breakers")] == ["closed"]
    assert published_files(table) == committed_files(table)
