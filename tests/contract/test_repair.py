"""Repairing a table over every database: what is lost is there again, and what was changed is kept aside."""

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deltamirror import Catalog, MirrorEngine, Table
from deltamirror.config import Switch
from deltamirror.errors import Diverged, NotFound, Refused
from deltamirror.ops.reconcile.background import BackgroundReconciler
from deltamirror.ops.reconcile.reconciling import Reconciler, Strategy
from deltamirror.ops.reconcile.repair import Repaired, repair
from deltamirror.ops.reconcile.table_logs import Logs
from deltamirror.ops.report import report_on
from deltamirror.pipeline.run.inspection import LocalInspector
from tests.support.lakes.lake import execute, paths
from tests.support.logs.commit_units import commit_key
from tests.support.mirrors.local import append, committed_files, following, log_of, make_table, published_files
from tests.support.mirrors.reconcilers import comparing_every, reconciled, reconciling
from tests.support.readers.reader import Reader

pytestmark = pytest.mark.default_on("sqlite")


@contextmanager
def logs_of(engine: MirrorEngine) -> Iterator[Logs]:
    with Logs(engine, LocalInspector(engine.settings)) as logs:
        yield logs


def repaired(engine: MirrorEngine, **options: bool) -> Repaired:
    with logs_of(engine) as logs:
        return repair(logs, "t", **options)


def file_of(table: Table, version: int) -> Path:
    return log_of(table) / f"{version:020}.json"


def until(happened: Callable[[], bool], *, seconds: float = 60) -> None:
    """Wait for what another thread does; it has a minute."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def engine(catalog: Catalog) -> Iterator[MirrorEngine]:
    with reconciling(catalog) as found:
        yield found


@pytest.fixture
def table(catalog: Catalog, tmp_path: Path, engine: MirrorEngine) -> Table:
    """A table at version 12, published."""
    made = make_table(catalog, tmp_path)
    append(made, 12)
    engine.run(once=True)
    return made


def altered(table: Table, version: int) -> bytes:
    """Change a commit, in a way that readers do not notice; what it is."""
    data = file_of(table, version).read_bytes() + b"\n"
    file_of(table, version).write_bytes(data)
    return data


@pytest.mark.requirement("R51")
def test_an_altered_commit_is_replaced_when_asked_for_after_it_was_saved_aside(
    catalog: Catalog, engine: MirrorEngine, table: Table, delta_rs: Reader, duckdb_delta: Reader
) -> None:
    theirs = altered(table, 4)
    file_of(table, 7).unlink()
    assert reconciled(engine, Strategy.SMART)[0].altered == (4,)
    append(table, 2)
    with pytest.raises(Diverged, match="changed after they were published") as caught:
        repaired(engine)
    assert "--replace-altered" in caught.value.hint
    assert engine.status("t")[0].state == "quarantined"
    done = repaired(engine, replace_altered=True)
    aside = f"_delta_log/_deltamirror/{file_of(table, 4).name}.{hashlib.sha256(theirs).hexdigest()[:12]}"
    assert (done.replaced, done.saved, done.published) == ((4,), (aside,), 14)
    assert (log_of(table).parent / aside).read_bytes() == theirs
    assert published_files(table) == committed_files(table)
    (status,) = engine.status("t")
    assert (status.state, status.lag_versions, status.failed, status.escalations) == ("active", 0, 0, 0)
    states = execute(catalog, "SELECT DISTINCT state FROM dl_mirror_status")
    assert [row.state for row in states] == ["SUCCESS"]
    for reader in (delta_rs, duckdb_delta):
        assert reader.snapshot(log_of(table).parent).paths == paths(table)
    assert reconciled(engine, Strategy.FULL)[0].left == 0


def test_what_is_lost_above_a_version_that_was_altered_is_written_again_too(engine: MirrorEngine, table: Table) -> None:
    altered(table, 4)
    assert reconciled(engine, Strategy.SMART)[0].altered == (4,)
    for version in (2, 9):
        file_of(table, version).unlink()
    done = repaired(engine, replace_altered=True)
    assert (done.missing, done.replaced) == ((2, 9), (4,))
    assert published_files(table) == committed_files(table)


@pytest.mark.requirement("R39")
@pytest.mark.parametrize("replace_altered", [False, True])
def test_commits_of_another_writer_are_refused_whatever_was_asked_for(
    engine: MirrorEngine, table: Table, replace_altered: bool
) -> None:
    theirs = b'{"commitInfo":{"operation":"WRITE"}}\n'
    for version in (13, 14):
        file_of(table, version).write_bytes(theirs)
    assert reconciled(engine, Strategy.SMART)[0].foreign == (13, 14)
    for found in (13, 14):
        with pytest.raises(Diverged, match="put there by another writer") as caught:
            repaired(engine, replace_altered=replace_altered)
        assert "deltamirror adopt t" in caught.value.hint
        assert file_of(table, found).read_bytes() == theirs
        assert engine.status("t")[0].state == "quarantined"
        file_of(table, found).unlink()
    assert repaired(engine).published == 12
    append(table)
    assert engine.mirror("t").published == 13
    assert engine.status("t")[0].escalations == 0
    assert published_files(table) == committed_files(table)


def test_an_object_without_bytes_is_replaced_and_nothing_is_kept_of_it(engine: MirrorEngine, table: Table) -> None:
    os.truncate(file_of(table, 3), 0)
    done = repaired(engine, replace_altered=True)
    assert (done.replaced, done.saved) == ((3,), ())
    assert published_files(table) == committed_files(table)


def test_a_table_that_is_as_it_should_be_is_left_as_it_is(engine: MirrorEngine, table: Table) -> None:
    before = {path: path.stat().st_mtime_ns for path in log_of(table).iterdir()}
    done = repaired(engine)
    assert (done.missing, done.replaced, done.saved, done.checkpoints, done.published) == ((), (), (), (), 12)
    assert done.checksums == 0
    assert done.checked == 2 * 13 + 2  # commits and checksums, a checkpoint and the pointer
    assert {path: path.stat().st_mtime_ns for path in log_of(table).iterdir()} == before


def test_checksums_that_are_gone_or_say_something_else_are_written_again(engine: MirrorEngine, table: Table) -> None:
    lost, wrong = (log_of(table) / f"{version:020}.crc" for version in (11, 4))
    before = {path.name: path.read_bytes() for path in log_of(table).iterdir()}
    lost.unlink()
    wrong.write_bytes(wrong.read_bytes().replace(b'"numFiles":', b'"numFiles":1', 1))
    assert repaired(engine).checksums == 2
    assert {path.name: path.read_bytes() for path in log_of(table).iterdir()} == before


def test_a_paused_table_is_not_repaired(catalog: Catalog, engine: MirrorEngine, table: Table) -> None:
    file_of(table, 3).unlink()
    catalog.pause("t")
    with pytest.raises(Refused, match="paused"):
        repaired(engine)
    assert not file_of(table, 3).exists()
    catalog.resume("t")
    engine.run(once=True)
    assert published_files(table) == committed_files(table)


@pytest.mark.default_on("sqlite", "postgresql")
@pytest.mark.requirement("R84")
def test_a_report_has_every_attempt_with_what_was_expected_and_found(engine: MirrorEngine, table: Table) -> None:
    theirs = altered(table, 4)
    reconciled(engine, Strategy.SMART)
    repaired(engine, replace_altered=True)
    found = report_on(engine.database, "t", 4, switch=Switch.of(engine.settings))
    assert [each.outcome for each in found.attempts] == ["FAILED", "FAILED", "SUCCESS"]
    first = found.attempts[0]
    assert (first.version, first.lane, first.error_code, first.error_key) == (4, "commits", "diverged", commit_key(4))
    assert first.expected_digest == hashlib.sha256(table.commit_file(4)).hexdigest()
    assert first.found_digest == hashlib.sha256(theirs).hexdigest()
    assert report_on(engine.database, "t", 5, switch=Switch.of(engine.settings)).attempts == ()
    assert report_on(engine.database, "t", switch=Switch.of(engine.settings)).attempts == found.attempts
    with pytest.raises(NotFound, match="no version 99"):
        report_on(engine.database, "t", 99, switch=Switch.of(engine.settings))


@pytest.mark.requirement("R52")
def test_a_service_finds_and_mends_what_is_lost_beside_its_other_work(
    catalog: Catalog, engine: MirrorEngine, table: Table
) -> None:
    other = make_table(catalog, log_of(table).parent.parent, "other")
    for version in (3, 8):
        file_of(table, version).unlink()
    with (
        following(engine),
        logs_of(engine) as logs,
        BackgroundReconciler(engine.database, Reconciler(logs), live=comparing_every(0.2), ending=engine.ending),
    ):
        append(other, 3)
        catalog.wait_until_published({"other": 3}, seconds=60)
        until(lambda: file_of(table, 3).exists() and file_of(table, 8).exists())
        theirs = altered(table, 5)
        until(lambda: engine.status("t")[0].state == "quarantined")
    assert file_of(table, 5).read_bytes() == theirs
    assert {**published_files(table), file_of(table, 5).name: table.commit_file(5)} == committed_files(table)
    assert engine.status("other")[0].state == "active"


def test_nothing_is_compared_in_the_background_where_the_interval_is_0(
    catalog: Catalog, engine: MirrorEngine, table: Table
) -> None:
    with (
        logs_of(engine) as logs,
        BackgroundReconciler(engine.database, Reconciler(logs), live=comparing_every(0), ending=engine.ending),
    ):
        until(lambda: any(thread.name == "deltamirror-reconciler" for thread in threading.enumerate()))
    assert execute(catalog, "SELECT * FROM dl_reconciliations") == []
