"""The engine over every database: what is committed is published, in order, by one engine or by many (G7)."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest
from sqlalchemy import Connection

from deltamirror import Catalog, Table
from deltamirror.delta.lastcheckpoint import decode
from deltamirror.errors import Diverged, Late, NotFound, Refused, Unavailable
from deltamirror.pipeline.plan.planning import plan_commits, read_waiting
from deltamirror.pipeline.run import execution
from deltamirror.pipeline.run.local.runner import InProcessRunner
from deltamirror.pipeline.service import lanes
from deltamirror.txnlog.queue.backlog import with_chunks
from deltamirror.txnlog.queue.pause import pause_all, resume_all
from deltamirror.work import CheckpointOutcome, CheckpointUnit, CommitWork, Failure, Outcome, Stage, Unit
from tests.support.databases.catalogs import ENGINES
from tests.support.lakes.lake import add, execute
from tests.support.mirrors.claims import claimed
from tests.support.mirrors.local import (
    ScriptedRunner,
    append,
    committed_files,
    following,
    local_settings,
    log_of,
    make_table,
    mirror_of,
    published_files,
)

pytestmark = pytest.mark.default_on("sqlite")


def checkpoints(table: Table) -> list[int]:
    return sorted(int(path.name[:20]) for path in log_of(table).glob("*.checkpoint.parquet"))


@pytest.mark.requirement("R1")
@pytest.mark.requirement("R2")
def test_every_commit_becomes_one_file_with_the_bytes_that_sql_has(catalog: Catalog, tmp_path: Path) -> None:
    tables = [make_table(catalog, tmp_path, name) for name in ("a", "b.c")]
    for table in tables:
        append(table, 11)
    with mirror_of(catalog) as engine:
        summary = engine.run(once=True)
    assert (summary.versions, summary.failures) == (24, [])
    for table in tables:
        assert published_files(table) == committed_files(table)
        assert len(published_files(table)) == 12
        assert table.info().published == 11


@pytest.mark.parametrize(("is_away", "questions"), [(False, [4]), (True, [4, 2, 2])])
def test_the_commits_of_all_tables_of_a_job_are_read_at_once_or_else_by_each(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_away: bool, questions: list[int]
) -> None:
    tables, asked = [make_table(catalog, tmp_path, name) for name in "ab"], list[int]()
    for table in tables:
        append(table)

    def watched(connection: Connection, work: Sequence[CommitWork]) -> list[CommitWork]:
        asked.append(len(work))
        if is_away and len(asked) == 1:
            raise Unavailable("the database does not answer")
        return with_chunks(connection, work)

    monkeypatch.setattr(execution, "with_chunks", watched)
    with mirror_of(catalog) as engine:
        summary = engine.run(once=True)
    assert (summary.versions, summary.failures, asked) == (4, [], questions)
    assert [published_files(table) for table in tables] == [committed_files(table) for table in tables]


def test_nothing_is_published_twice_and_a_second_run_does_nothing(catalog: Catalog, tmp_path: Path) -> None:
    table = make_table(catalog, tmp_path)
    append(table, 3)
    with mirror_of(catalog) as engine:
        assert engine.run(once=True).versions == 4
        before = {path: path.stat().st_mtime_ns for path in log_of(table).iterdir()}
        assert engine.run(once=True).versions == 0
    assert {path: path.stat().st_mtime_ns for path in log_of(table).iterdir()} == before


@pytest.mark.requirement("R8")
def test_checkpoints_are_at_the_interval_and_nowhere_else_while_passes_keep_up(
    catalog: Catalog, tmp_path: Path
) -> None:
    table = make_table(catalog, tmp_path)
    with mirror_of(catalog) as engine:
        for _ in range(21):
            append(table)
            engine.mirror(table.name)
        assert checkpoints(table) == [10, 20]
        pointer = decode((log_of(table) / "_last_checkpoint").read_bytes()).pointer
        assert pointer is not None
        assert (pointer.version, pointer.num_of_add_files) == (20, 20)


@pytest.mark.requirement("R8")
@pytest.mark.parametrize(("interval", "expected"), [("1", [1, 2, 3, 4, 5]), ("3", [3]), ("1000", [])])
def test_the_tables_own_interval_goes_before_the_setting(
    catalog: Catalog, tmp_path: Path, interval: str, expected: list[int]
) -> None:
    table = make_table(catalog, tmp_path, properties={"delta.checkpointInterval": interval})
    with mirror_of(catalog, checkpoint_interval=2) as engine:
        for _ in range(5):
            append(table)
            engine.mirror(table.name)
    assert checkpoints(table) == expected


@pytest.mark.requirement("R8")
def test_a_backlog_gets_its_newest_checkpoint_only(catalog: Catalog, tmp_path: Path) -> None:
    table = make_table(catalog, tmp_path)
    append(table, 25)
    with mirror_of(catalog, batch_versions=7) as engine:
        engine.run(once=True)
    assert checkpoints(table) == [20]


@pytest.mark.default_on("sqlite")
@pytest.mark.requirement("R16")
def test_a_writer_that_is_always_ahead_does_not_keep_checkpoints_from_being_written(
    catalog: Catalog, tmp_path: Path
) -> None:
    table, written = make_table(catalog, tmp_path, properties={"delta.checkpointInterval": "2"}), list[int]()
    append(table, 20)

    def keep_ahead(outcome: Outcome) -> None:
        if isinstance(outcome, CheckpointOutcome):
            written.append(table.info().head - outcome.version)
        elif not written and table.info().head < 1_000:
            append(table, 2 * len(outcome.published))

    with mirror_of(catalog, batch_versions=10) as engine:
        engine.run(once=True, observe=keep_ahead)
    assert written[0] > 10
    assert checkpoints(table)[-1] == table.info().head - table.info().head % 2


@pytest.mark.requirement("R16")
def test_many_bytes_of_commits_make_a_checkpoint_due_before_the_interval(catalog: Catalog, tmp_path: Path) -> None:
    table = make_table(catalog, tmp_path, properties={"delta.checkpointInterval": "1000"})
    with mirror_of(catalog, checkpoint_bytes=20_000) as engine:
        for number in range(8):
            table.append([add(f"{number}.parquet", stats=f'{{"numRecords":1,"x":"{"y" * 6_000}"}}')])
            engine.mirror(table.name)
        assert checkpoints(table) == [3, 7]


@pytest.mark.requirement("R16")
@pytest.mark.requirement("R75")
@pytest.mark.parametrize(("asked", "expected"), [("20000", [3, 7]), ("0", [])])
def test_the_tables_own_bytes_go_before_the_setting_and_count_over_restarts(
    sqlite_lake: str, tmp_path: Path, asked: str, expected: list[int]
) -> None:
    properties = {"delta.checkpointInterval": "1000", "deltamirror.checkpointBytes": asked}
    with Catalog(sqlite_lake) as catalog:
        table = make_table(catalog, tmp_path, properties=properties)
        for number in range(8):
            table.append([add(f"{number}.parquet", stats=f'{{"numRecords":1,"x":"{"y" * 6_000}"}}')])
            with mirror_of(catalog, checkpoint_bytes=10_000) as engine:
                engine.mirror(table.name)
        assert checkpoints(table) == expected


@pytest.mark.requirement("R16")
def test_many_bytes_never_delay_the_interval(sqlite_lake: str, tmp_path: Path) -> None:
    properties = {"delta.checkpointInterval": "4", "deltamirror.checkpointBytes": "1000000"}
    with Catalog(sqlite_lake) as catalog, mirror_of(catalog) as engine:
        table = make_table(catalog, tmp_path, properties=properties)
        for _ in range(9):
            append(table)
            engine.mirror(table.name)
        assert checkpoints(table) == [4, 8]


@pytest.mark.requirement("R21")
def test_small_checkpoints_share_a_job_and_of_large_ones_one_is_taken_at_a_time(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("large", "larger", "small", "smaller", "smallest")
    tables = [make_table(catalog, tmp_path, name, properties={"delta.checkpointInterval": "2"}) for name in names]
    for table in tables:
        append(table, 9 if table.name.startswith("large") else 2)
    held = list[int]()

    def script(unit: Unit) -> None:
        if isinstance(unit, CheckpointUnit) and unit.num_files == 8:
            large = "SELECT count(*) FROM dl_leases JOIN dl_tables USING (table_id) WHERE name LIKE 'large%'"
            held.append(execute(catalog, f"{large} AND expires_at > {time.time_ns() // 1_000_000}")[0][0])

    monkeypatch.setattr(lanes, "_SMALL_FILES", 7)
    runner = ScriptedRunner(InProcessRunner(catalog.database, local_settings()), script)
    with mirror_of(catalog, runner=runner) as engine:
        engine.run(once=True)
    jobs = [sorted(unit.table for unit in job) for job in runner.jobs if isinstance(job[0], CheckpointUnit)]
    assert sorted(jobs) == [["large"], ["larger"], ["small", "smaller", "smallest"]]
    assert [checkpoints(table) for table in tables] == [[8], [8], [2], [2], [2]]
    assert held == [1, 1]  # what is not begun is left to other services


@pytest.mark.requirement("R21")
def test_a_checkpoint_that_fails_holds_up_no_commit_and_is_tried_again_alone(catalog: Catalog, tmp_path: Path) -> None:
    table = make_table(catalog, tmp_path, properties={"delta.checkpointInterval": "2"})
    broken = threading.Event()
    broken.set()

    def script(unit: Unit) -> Outcome | None:
        if isinstance(unit, CheckpointUnit) and broken.is_set():
            failure = Failure(error=Unavailable("no space for Parquet"), stage=Stage.BUILD, version=unit.version)
            return CheckpointOutcome(table_id=unit.table_id, lease=unit.lease, version=unit.version, failure=failure)
        return None

    runner = ScriptedRunner(InProcessRunner(catalog.database, local_settings()), script)
    with mirror_of(catalog, runner=runner, retry_base=3600.0, retry_max=3600.0) as engine:
        append(table, 3)
        engine.run(once=True)
        (status,) = engine.status(table.name)
        assert (status.published, status.error, status.checkpoint) == (3, None, None)
        assert status.checkpoint_error is not None
        assert (status.checkpoint_error.version, status.checkpoint_error.code) == (2, "unavailable")
        broken.clear()
        engine.run(once=True)
        (status,) = engine.status(table.name)
        assert (status.checkpoint_error, checkpoints(table)) == (None, [2])


@pytest.mark.requirement("R33")
def test_a_paused_table_waits_while_others_go_on_and_catches_up_when_resumed(catalog: Catalog, tmp_path: Path) -> None:
    paused, active = make_table(catalog, tmp_path, "paused"), make_table(catalog, tmp_path, "active")
    with mirror_of(catalog) as engine, following(engine):
        catalog.wait_until_published({"paused": 0, "active": 0}, seconds=60)
        catalog.pause("paused")
        append(paused, 2)
        append(active, 2)
        catalog.wait_until_published({"active": 2}, seconds=60)
        assert len(published_files(paused)) == 1
        with pytest.raises(Refused, match="paused"):
            engine.mirror("paused")
        catalog.resume("paused")
        catalog.wait_until_published({"paused": 2}, seconds=60)
    assert published_files(paused) == committed_files(paused)


@pytest.mark.requirement("R33")
def test_switched_off_for_all_nothing_is_published_until_it_is_switched_on(catalog: Catalog, tmp_path: Path) -> None:
    table = make_table(catalog, tmp_path)
    pause_all(catalog.database)
    append(table, 2)
    with mirror_of(catalog) as engine:
        assert engine.run(once=True).versions == 0
        (status,) = engine.status()
        assert (status.state, status.pending, published_files(table)) == ("paused", 3, {})
        with following(engine):
            resume_all(catalog.database)
            catalog.wait_until_published({"t": 2}, seconds=60)


@pytest.mark.requirement("R23")
def test_a_following_service_publishes_commits_and_checkpoints_with_no_other_call(
    catalog: Catalog, tmp_path: Path
) -> None:
    table = make_table(catalog, tmp_path, properties={"delta.checkpointInterval": "5"})
    with mirror_of(catalog) as engine:
        with following(engine):
            append(table, 5)
            catalog.wait_until_published({"t": 5}, seconds=60)
        engine_again = engine.status("t")[0]
        assert engine_again.lag_versions == 0
    with mirror_of(catalog) as engine:
        engine.run(once=True)  # the checkpoint, if the service was stopped before it
    assert checkpoints(table) == [5]


def test_engines_share_the_tables_and_none_is_published_by_two(catalog: Catalog, tmp_path: Path) -> None:
    tables = [make_table(catalog, tmp_path, f"t{number}") for number in range(6)]
    for table in tables:
        append(table, 10)
    with mirror_of(catalog, batch_tables=1, batch_versions=3) as one, mirror_of(catalog, batch_tables=1) as other:
        summaries = []
        threads = [
            threading.Thread(target=lambda engine=engine: summaries.append(engine.run(once=True)))
            for engine in (one, other)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        one.run(once=True)
    assert sum(summary.versions for summary in summaries) <= 66
    assert all(published_files(table) == committed_files(table) for table in tables)
    attempts = execute(catalog, "SELECT DISTINCT state, attempts FROM dl_mirror_status")
    assert [tuple(row) for row in attempts] == [("SUCCESS", 1)]


@pytest.mark.requirement("R30")
def test_batches_have_the_same_bytes_and_need_far_fewer_transactions(tmp_path: Path) -> None:
    contents, transactions = [], []
    for batch in (1, 100):
        folder = tmp_path / str(batch)
        folder.mkdir()
        with Catalog(f"sqlite:///{folder / 'lake.db'}") as catalog:
            catalog.init()
            table = make_table(catalog, folder)
            append(table, 40)
            with mirror_of(catalog, batch_versions=batch) as engine, counted_writes(catalog) as count:
                engine.run(once=True)
            contents.append(list(published_files(table)))
            assert published_files(table) == committed_files(table)
            transactions.append(count())
    assert contents[0] == contents[1]
    assert transactions[0] > 5 * transactions[1]


@contextmanager
def counted_writes(catalog: Catalog) -> Iterator[Callable[[], int]]:
    """How many transactions wrote since the block began."""
    with mock.patch.object(catalog.database, "begun", wraps=catalog.database.begun) as begun:
        yield lambda: begun.call_count


def test_an_object_of_somebody_else_stops_its_table_only_and_is_never_replaced(
    catalog: Catalog, tmp_path: Path
) -> None:
    foreign, fine = make_table(catalog, tmp_path, "foreign"), make_table(catalog, tmp_path, "fine")
    with mirror_of(catalog) as engine:
        engine.run(once=True)
        append(foreign, 2)
        append(fine, 2)
        theirs = log_of(foreign) / "00000000000000000001.json"
        theirs.write_bytes(b'{"commitInfo":{"operation":"WRITE"}}\n')
        summary = engine.run(once=True)
        assert [type(failure.error) for failure in summary.failures] == [Diverged]
        assert theirs.read_bytes() == b'{"commitInfo":{"operation":"WRITE"}}\n'
        assert published_files(fine) == committed_files(fine)
        (status,) = engine.status("foreign")
        assert (status.published, status.failed, status.pending) == (0, 1, 1)
        assert status.error is not None
        assert (status.error.version, status.error.code) == (1, "diverged")
        assert status.state == "quarantined"
        with pytest.raises(Refused, match="in quarantine"):
            engine.mirror("foreign")


def test_a_lost_reply_is_not_a_divergence(catalog: Catalog, tmp_path: Path) -> None:
    table = make_table(catalog, tmp_path)
    append(table, 2)
    with mirror_of(catalog) as engine:
        engine.run(once=True)
        execute(catalog, "UPDATE dl_mirror_status SET state = 'PENDING', attempts = 0")
        execute(catalog, "UPDATE dl_tables SET published_version = -1")
        summary = engine.run(once=True)
    assert (summary.versions, summary.failures, table.info().published) == (3, [], 2)


def test_a_store_that_hangs_delays_its_own_tables_only(catalog: Catalog, tmp_path: Path) -> None:
    hanging, fine = make_table(catalog, tmp_path, "hanging"), make_table(catalog, tmp_path, "fine")
    release, entered = threading.Event(), threading.Event()

    def script(unit: Unit) -> Outcome | None:
        if unit.table == "hanging":
            entered.set()
            release.wait(120)
        return None

    runner = ScriptedRunner(InProcessRunner(catalog.database, local_settings()), script)
    with mirror_of(catalog, runner=runner, batch_tables=1) as engine, following(engine):
        assert entered.wait(60)
        append(fine, 3)
        catalog.wait_until_published({"fine": 3}, seconds=60)
        assert published_files(hanging) == {}
        release.set()
        catalog.wait_until_published({"hanging": 0}, seconds=60)


def test_a_job_that_fails_as_a_whole_counts_against_no_table_and_is_repeated(catalog: Catalog, tmp_path: Path) -> None:
    make_table(catalog, tmp_path)
    fails = iter([True])

    def script(unit: Unit) -> Outcome | None:
        if next(fails, False):
            raise Unavailable("Spark is away")
        return None

    runner = ScriptedRunner(InProcessRunner(catalog.database, local_settings()), script)
    with mirror_of(catalog, runner=runner) as engine:
        with pytest.raises(Unavailable, match="Spark is away"):
            engine.run(once=True)
        (status,) = engine.status("t")
        assert (status.failed, status.pending, status.error) == (0, 1, None)
        with following(engine):
            catalog.wait_until_published({"t": 0}, seconds=60)


def test_a_version_that_there_is_not_is_refused(catalog: Catalog, tmp_path: Path) -> None:
    make_table(catalog, tmp_path)
    with mirror_of(catalog) as engine:
        with pytest.raises(NotFound, match="no version 7"):
            engine.mirror("t", 7)
        with pytest.raises(NotFound):
            engine.mirror("missing")
        with pytest.raises(Refused, match="published"):
            engine.checkpoint("t")


def test_one_version_can_be_asked_for_and_those_after_it_wait(catalog: Catalog, tmp_path: Path) -> None:
    table = make_table(catalog, tmp_path)
    append(table, 4)
    with mirror_of(catalog) as engine:
        assert engine.mirror("t", 2).versions == 3
        assert len(published_files(table)) == 3
        assert engine.checkpoint("t") == 2
        assert engine.checkpoint("t") == 2
        assert checkpoints(table) == [2]
        assert engine.mirror("t").published == 4


@pytest.mark.default_on(*ENGINES)
@pytest.mark.requirement("R58")
def test_what_somebody_else_published_between_claim_and_plan_is_no_work(catalog: Catalog, tmp_path: Path) -> None:
    """A service that stood still for longer than its lease finds nothing to do, and goes on."""
    table = make_table(catalog, tmp_path)
    append(table, 2)
    with mirror_of(catalog) as engine:
        late = claimed(catalog, owner="a service that stands still", seconds=0.0)
        engine.run(once=True)
        assert [claim.head for claim in late] == [2]
        waiting = read_waiting(catalog.database, late, settings=engine.settings)
        assert [plan_commits(catalog.database, each, waiting, settings=engine.settings) for each in late] == [None]
        assert published_files(table) == committed_files(table)


def test_a_version_that_was_published_since_it_was_asked_for_is_no_work_and_keeps_no_lease(
    catalog: Catalog, tmp_path: Path
) -> None:
    table = make_table(catalog, tmp_path)
    append(table, 1)
    with mirror_of(catalog) as engine:
        engine.mirror("t", 0)
        assert engine._commits.job_of(table.info().id, upto=0) is None
        assert engine.mirror("t").versions == 1


def test_waiting_for_a_version_that_nobody_publishes_ends_late(catalog: Catalog, tmp_path: Path) -> None:
    make_table(catalog, tmp_path)
    with pytest.raises(Late, match="version 0 of table 't'"):
        catalog.wait_until_published({"t": 0}, seconds=0.01)


@pytest.mark.requirement("R32")
def test_the_next_checkpoint_starts_from_the_last_one_unless_that_was_changed(catalog: Catalog, tmp_path: Path) -> None:
    table = make_table(catalog, tmp_path, properties={"delta.checkpointInterval": "3"})
    runner = ScriptedRunner(InProcessRunner(catalog.database, local_settings()), lambda unit: None)
    with mirror_of(catalog, runner=runner) as engine:
        for _ in range(3):
            append(table, 3)
            engine.mirror("t")
            if table.info().head == 6:
                (log_of(table) / "00000000000000000006.checkpoint.parquet").write_bytes(b"PAR1 something else PAR1")
        (status,) = engine.status("t")
    units = [unit for job in runner.jobs for unit in job if isinstance(unit, CheckpointUnit)]
    read = [(unit.base and unit.base.version, [work.version for work in unit.commits]) for unit in units]
    # What is not the file that was recorded is not believed; the one before it is.
    assert read == [(None, [0, 1, 2, 3]), (3, [4, 5, 6]), (6, [7, 8, 9]), (3, [4, 5, 6, 7, 8, 9])]
    assert (status.checkpoint and status.checkpoint.version, status.checkpoint_error) == (9, None)
