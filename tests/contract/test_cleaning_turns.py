"""A log is cleaned by one at a time, beside those who compare, repair and publish it, and by services now and then."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deltamirror import Catalog, MirrorEngine, Table
from deltamirror.errors import LeaseLost, LogChanged
from deltamirror.ops.rebuild.restoring import restore_log
from deltamirror.ops.reconcile.table_logs import Logs
from deltamirror.pipeline.run.inspection import LocalInspector
from deltamirror.pipeline.service import cleaning as cleaning_module
from deltamirror.storage.disk import DiskStore
from deltamirror.txnlog.queue.cleanups import CleaningTurn
from deltamirror.txnlog.queue.leases import release, take
from deltamirror.work import Lane, Lease
from tests.support.lakes.aging import (
    HEAD,
    START,
    age,
    cleaning,
    expected_names,
    lived,
    log_names,
    recorded,
    store_of,
)
from tests.support.lakes.lake import add, execute
from tests.support.lakes.moved import lake_of_test
from tests.support.mirrors.local import log_of

pytestmark = pytest.mark.default_on("sqlite")


@pytest.fixture
def engine(lake: Catalog) -> Iterator[MirrorEngine]:
    with cleaning(lake) as found:
        yield found


@pytest.fixture
def table(lake: Catalog) -> Table:
    """The table that lived."""
    return lake.table("t")


@pytest.fixture
def sqlite_lake(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a catalog, with the table that lived in it if a test has that."""
    return lake_of_test(request, tmp_path, made="lived_lake")


def test_the_pointer_is_read_again_before_anything_is_deleted(
    lake: Catalog, engine: MirrorEngine, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    age(lake, upto=12)
    monkeypatch.setattr(cleaning_module, "_BATCH", 4)
    monkeypatch.setattr(DiskStore, "delete", _then(DiskStore.delete, (log_of(table) / "_last_checkpoint").unlink))
    with pytest.raises(LogChanged, match="_last_checkpoint"):
        engine.clean("t")
    monkeypatch.undo()
    assert len(log_names(store_of(table))) == len(expected_names(0)) - 5
    assert recorded(lake) == (START, START, 0, False)


def test_whoever_lost_the_turn_deletes_nothing_more_and_the_next_one_finishes_it(
    lake: Catalog, engine: MirrorEngine, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    age(lake, upto=12)
    monkeypatch.setattr(cleaning_module, "_BATCH", 4)
    stolen = "UPDATE dl_leases SET epoch = epoch + 1 WHERE lane = 'reconciliation'"
    monkeypatch.setattr(DiskStore, "delete", _then(DiskStore.delete, lambda: execute(lake, stolen)))
    with pytest.raises(LeaseLost):
        engine.clean("t")
    monkeypatch.undo()
    assert len(log_names(store_of(table))) == len(expected_names(0)) - 4
    execute(lake, "UPDATE dl_leases SET expires_at = 0")
    engine.clean("t")
    assert log_names(store_of(table)) == expected_names(START)
    assert recorded(lake)[3]


def _then(call: Callable[..., None], act: Callable[[], object]) -> Callable[..., None]:
    """A call of a store, after whose first use something happens."""
    done = list[object]()

    def calling(*arguments: object) -> None:
        call(*arguments)
        if not done:
            done.append(act())

    return calling


@contextmanager
def soon(act: Callable[..., None], *arguments: object) -> Iterator[None]:
    """Something that somebody else does while the block waits for it; it is done when the block ends."""
    timer = threading.Timer(0.2, act, arguments)
    timer.start()
    try:
        yield
    finally:
        timer.join()


def test_it_is_never_done_beside_whoever_compares_or_repairs_the_log(
    lake: Catalog, engine: MirrorEngine, table: Table
) -> None:
    age(lake, upto=12)
    lease = take(lake.database, 1, lane=Lane.RECONCILIATION, owner="another", seconds=60)
    assert lease is not None
    with pytest.raises(LeaseLost, match="compares or cleans"):
        engine._cleaner.clean("t", waits=False)
    with soon(release, lake.database, [lease]):
        assert engine.clean("t").log_start == START


def test_a_log_is_not_rebuilt_in_its_own_place_while_it_is_cleaned(
    lake: Catalog, engine: MirrorEngine, table: Table
) -> None:
    age(lake, upto=12)
    lease = take(lake.database, 1, lane=Lane.RECONCILIATION, owner="a cleaning", seconds=60)
    assert lease is not None
    with soon(_cleaned_by, engine, lake, lease), Logs(engine, LocalInspector(engine.settings)) as logs:
        done = restore_log(logs, "t")
    assert (done.first, done.last) == (START, HEAD)
    assert log_names(store_of(table)) == expected_names(START)


def _cleaned_by(engine: MirrorEngine, catalog: Catalog, lease: Lease) -> None:
    """Clean a log under somebody else's name, who then gives back the turn."""
    cleaner = engine._cleaner
    turn = CleaningTurn(catalog.database, lease, seconds=60)
    log = cleaner._log_of("t")
    store = cleaner._store(log)
    found = cleaner._planned(log, store)
    turn.begin(found.log_start)
    cleaner._delete(found, store, lease)
    turn.end(swept=found.swept, num_objects=len(found.objects), num_bytes=found.num_bytes)


def test_what_a_worker_puts_that_wakes_late_goes_with_the_next_cleaning(
    lake: Catalog, engine: MirrorEngine, table: Table
) -> None:
    late = {path.name: path.read_bytes() for path in log_of(table).iterdir() if path.name.startswith(f"{7:020}")}
    age(lake, upto=12)
    engine.clean("t")
    for name, data in late.items():
        (log_of(table) / name).write_bytes(data)
    done = engine.clean("t")
    assert {each.key.rpartition("/")[2] for each in done.objects} == set(late)
    assert log_names(store_of(table)) == expected_names(START)


def test_a_service_cleans_after_a_checkpoint_once_in_an_interval(lake: Catalog, tmp_path: Path) -> None:
    with cleaning(lake, enabled=True) as engine:
        table = lived(lake, engine, str(tmp_path / "t"))
        age(lake, upto=12)
        _commit_until_checkpoint(engine, table, 25)
        assert table.info().log_start == START
        assert recorded(lake)[3]
        age(lake, upto=17)
        _commit_until_checkpoint(engine, table, 30)
        assert table.info().log_start == START  # not within the hour
        execute(lake, "UPDATE dl_cleanups SET cleaned_at = 1")
        _commit_until_checkpoint(engine, table, 35)
        assert table.info().log_start == 15
        [status] = engine.status("t")
        assert status.cleanup is not None
        assert (status.log_start, status.cleanup.num_objects) == (15, 11)
    with cleaning(lake, enabled=False, interval=0) as engine:
        age(lake, upto=30)
        _commit_until_checkpoint(engine, table, 40)
        assert table.info().log_start == 15
        table.alter(properties={"deltamirror.cleanupEnabled": "true"})
        _commit_until_checkpoint(engine, table, 45)
        assert table.info().log_start == 30


def _commit_until_checkpoint(engine: MirrorEngine, table: Table, version: int) -> None:
    while table.info().head < version:
        table.append([add(f"g-{table.info().head}.parquet")])
    summary = engine.run(once=True)
    assert (summary.failures, summary.checkpoints) == ([], 1)


def test_a_service_goes_on_where_cleaning_fails(
    lake: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with cleaning(lake, enabled=True, interval=0) as engine:
        table = lived(lake, engine, str(tmp_path / "t"))
        age(lake, upto=12)

        def failing(*_: object) -> None:
            raise PermissionError(13, "no")

        monkeypatch.setattr("deltamirror.storage.files.remove", failing)
        _commit_until_checkpoint(engine, table, 25)
        assert "the log of table 't' is not cleaned" in caplog.text
        assert recorded(lake) == (START, START, 0, False)
        monkeypatch.undo()
        _commit_until_checkpoint(engine, table, 30)
        assert recorded(lake)[3]
        assert min(log_names(store_of(table))).startswith(f"{START:020}")
