"""Stores and databases in trouble: the next runs make good what failed, and nothing comes into the log too early.

This is G1 of the README.
"""

import errno
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from deltamirror import Catalog, Table
from deltamirror.errors import Unavailable
from deltamirror.pipeline.run import execution, lease_guard
from deltamirror.storage import files
from deltamirror.storage.store import Store
from deltamirror.txnlog.queue.claims import Claim
from deltamirror.txnlog.queue.leases import release
from deltamirror.work import Lane
from tests.support.crashes.sightings import is_done, names_of_temporaries, seen, stores_of
from tests.support.faults.transactions import Fault, failing_at
from tests.support.lakes.lake import add, execute
from tests.support.lakes.small_lakes import PARTS, copied, prepared, settings_of
from tests.support.logs.commit_units import watched
from tests.support.mirrors.claims import claimed
from tests.support.mirrors.local import (
    append,
    committed_files,
    following,
    local_settings,
    log_of,
    make_table,
    mirror_of,
    published_files,
)
from tests.support.readers.reader import Reader
from tests.support.servers.postgres_server import prepared_server
from tests.support.stores.faulty import FailingCalls, FailingPut, runner_over
from tests.support.suite.examples import at_some_moments

_MOMENT = 0.2
"""Longer than an answer about a lease is good for."""


@contextmanager
def mirror_over(catalog: Catalog, wrap: Callable[[Store], Store], **changed: Any) -> Iterator[Any]:
    """An engine whose stores are wrapped."""
    with mirror_of(catalog, runner=runner_over(catalog, local_settings(**changed), wrap), **changed) as engine:
        yield engine


@pytest.mark.slow
@pytest.mark.requirement("R29")
@pytest.mark.requirement("R43")
@pytest.mark.parametrize(
    ("part", "lost_reply"),
    [
        pytest.param(PARTS[0], True, id="first-after it happened"),
        pytest.param(PARTS[1], False, id="second-before it happens"),
        pytest.param(PARTS[0], False, id="first-before it happens", marks=pytest.mark.elsewhere),
        pytest.param(PARTS[1], True, id="second-after it happened", marks=pytest.mark.elsewhere),
    ],
)
@at_some_moments
def test_whichever_put_fails_the_next_run_makes_it_good(
    tmp_path: Path, part: str, lost_reply: bool, every: int
) -> None:
    parts = prepared(f"sqlite:///{tmp_path / 'lake.db'}", f"{tmp_path}/lake")

    def mirrored(at: int) -> tuple[dict[str, Any], FailingPut]:
        url, put = f"sqlite:///{tmp_path / f'{at}.db'}", FailingPut(at, lost_reply)
        copied(parts[part], url, f"{tmp_path}/{at}")
        with Catalog(url, settings=settings_of()) as catalog:
            with mirror_over(catalog, put.wrap, checkpoint_interval=5) as engine:
                failures = engine.run(once=True).failures
                assert len(failures) == bool(put.failed and not is_crc(put.failed))
                assert_no_gap(catalog)
            with mirror_of(catalog, checkpoint_interval=5) as engine:
                assert engine.run(once=True).failures == []
            with catalog.database.read() as connection:
                assert is_done(connection)
            assert names_of_temporaries(stores_of(catalog, None)) == []
            return seen(catalog, None), put

    clean, put = mirrored(0)
    assert len(put.keys) > 10
    for at in range(1, len(put.keys) + 1, every):
        found, put = mirrored(at)
        assert put.failed is not None
        objects = {key: told for key, told in clean["objects"].items() if key in found["objects"] or not is_crc(key)}
        assert found["objects"] == objects, put.failed
        # A checksum that could not be put stops nothing, and is not put later.
        missing = [key.partition("/")[2] for key in clean["objects"].keys() - found["objects"].keys()]
        assert missing == ([put.failed] if is_crc(put.failed) and not lost_reply else [])
        assert found["committed"].items() <= found["objects"].items()


def is_crc(key: str) -> bool:
    return key.endswith(".crc")


def assert_no_gap(catalog: Catalog) -> None:
    for info in catalog.tables():
        names = sorted(published_files(catalog.table(info.name)))
        assert names == [f"{version:020d}.json" for version in range(len(names))]


@pytest.mark.requirement("R43")
@pytest.mark.parametrize(
    "error", [errno.ENOSPC, pytest.param(errno.EIO, marks=pytest.mark.elsewhere)], ids=errno.errorcode.get
)
@at_some_moments
def test_a_disk_that_fails_at_any_call_leaves_nothing_torn_and_the_next_run_goes_on(
    sqlite_lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delta_rs: Reader, error: int, every: int
) -> None:
    with Catalog(sqlite_lake) as catalog:
        table = make_table(catalog, tmp_path, properties={"delta.checkpointInterval": "1"})
        runs, failed, calls = 0, 0, None
        while calls is None or calls.called >= failed:
            runs += 1
            failed += every
            append(table, 2)
            calls = FailingCalls(failed, error)
            with mirror_of(catalog) as engine:
                monkeypatch.setattr(files, "os", calls)
                engine.run(once=True)
                monkeypatch.undo()
                assert_whole(table)
                assert engine.run(once=True).failures == []
            assert table.info().published == table.info().head == 2 * runs
            assert published_files(table) == committed_files(table)
            assert names_of_temporaries(stores_of(catalog, None)) == []
            found = delta_rs.snapshot(log_of(table).parent)
            assert (found.version, len(found.files or ())) == (2 * runs, 2 * runs)
        assert failed > 15


def assert_whole(table: Table) -> None:
    """What is in the log is what SQL has, from the first version on."""
    found, expected = published_files(table), committed_files(table)
    assert found.items() <= expected.items()
    assert sorted(found) == sorted(expected)[: len(found)]


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.requirement("R28")
def test_while_the_database_is_away_nothing_is_put_and_then_the_mirror_goes_on(tmp_path: Path) -> None:
    with prepared_server() as server, heard("the mirror pauses") as pausing:
        server.create_cluster()
        server.start()
        reached, crashed, put, followed = (threading.Event() for _ in range(4))
        begun_while_away = list[str]()

        def before(operation: str, key: str) -> None:
            if operation == "create" and server.process is None:
                begun_while_away.append(key)
            elif operation == "create" and key.endswith("00002.json"):
                reached.set()
                crashed.wait(60)

        def after(operation: str, key: str) -> None:
            if operation == "create" and key.endswith("00002.json"):
                put.set()
            elif operation == "create" and key.endswith("00001.crc"):
                followed.set()

        with Catalog(server.url(server.create_database())) as catalog:
            catalog.init()
            table = make_table(catalog, tmp_path)
            append(table, 5)
            expected = committed_files(table)
            wrap = partial(watched, before=before, after=after)
            with (
                mirror_over(catalog, lambda store: wrap(store)[0], lease=1.0) as engine,
                following(engine) as service,
            ):
                assert reached.wait(60)
                assert followed.wait(60)
                server.crash()
                time.sleep(_MOMENT)
                crashed.set()
                # The put that was under way takes place; no other begins until the database is back.
                assert put.wait(60)
                assert pausing.wait(60)
                assert service.is_alive()
                server.start()
                catalog.wait_until_published({"t": 5}, seconds=60)
            assert begun_while_away == []
            assert published_files(table) == expected
            assert len(list(log_of(table).glob("*.crc"))) == 6
            assert execute(catalog, "SELECT count(*) FROM dl_mirror_status WHERE state <> 'SUCCESS'") == [(0,)]


@pytest.mark.requirement("R58")
@pytest.mark.parametrize(
    ("module", "question", "times"),
    [(lease_guard, "held_together", 2), (execution, "with_chunks", 1)],
    ids=["asked for a lease", "asked for the lines"],
)
@pytest.mark.parametrize("lane", [Lane.COMMITS, Lane.CHECKPOINTS])
def test_a_database_that_is_away_for_a_moment_is_no_failure_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, question: str, times: int, lane: Lane
) -> None:
    asked, failures = getattr(module, question), iter(range(times))

    def away(*arguments: Any, **options: Any) -> Any:
        if next(failures, None) is not None:
            raise Unavailable("the database does not answer")
        return asked(*arguments, **options)

    with Catalog(f"sqlite:///{tmp_path / 'lake.db'}") as catalog:
        catalog.init()
        append(make_table(catalog, tmp_path, properties={"delta.checkpointInterval": "1"}))
        with mirror_of(catalog, checkpoint_enabled=lane is Lane.CHECKPOINTS) as engine:
            if lane is Lane.CHECKPOINTS:
                engine.mirror("t", checkpoint=False)
            monkeypatch.setattr(module, question, away)
            done = engine.run(once=True)
        assert execute(catalog, "SELECT * FROM dl_mirror_attempts") == []
    assert next(failures, None) is None
    assert (done.versions, done.checkpoints) == ((0, 1) if lane is Lane.CHECKPOINTS else (2, 0))
    assert done.failures == []


@pytest.mark.default_on("sqlite", "postgresql")
@pytest.mark.requirement("R29")
def test_who_lost_the_lease_during_a_put_records_nothing_and_leaves_the_lease_to_its_owner(
    catalog: Catalog, tmp_path: Path
) -> None:
    table, others = make_table(catalog, tmp_path), list[Claim]()
    append(table, 3)

    def overslept(operation: str, key: str) -> None:
        if operation == "create" and key.endswith("00001.json") and not others:
            execute(catalog, "UPDATE dl_leases SET expires_at = 1")
            others.extend(claimed(catalog, owner="other"))
            time.sleep(_MOMENT)

    with mirror_over(catalog, lambda store: watched(store, before=overslept)[0]) as engine:
        assert engine.run(once=True).failures == []
        assert sorted(published_files(table)) == sorted(committed_files(table))[:2]
        (status,) = engine.status()
        assert (status.published, status.pending) == (None, 4)
        assert claimed(catalog, owner="third") == []
        (other,) = others
        release(catalog.database, [other.lease])
        assert engine.run(once=True).versions == 4
    assert published_files(table) == committed_files(table)
    assert execute(catalog, "SELECT DISTINCT state, attempts FROM dl_mirror_status") == [("SUCCESS", 1)]


@contextmanager
def heard(message: str) -> Iterator[threading.Event]:
    """Set when the service says something."""
    found = threading.Event()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if message in record.getMessage():
                found.set()

    logger, listener = logging.getLogger("deltamirror.pipeline.service.service"), Listener()
    logger.addHandler(listener)
    try:
        yield found
    finally:
        logger.removeHandler(listener)


@pytest.mark.default_on("sqlite", "postgresql")
@pytest.mark.requirement("R28")
def test_while_a_transaction_is_open_nothing_of_it_is_in_the_log(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(catalog, tmp_path)
    append(table, 2)
    (path, *_) = table.snapshot().files().column("path").to_pylist()
    with mirror_of(catalog) as engine:
        engine.run(once=True)
        before, real, looked = published_files(table), catalog.database.commit_by, []

        def commit_by(commit: Callable[[], object]) -> object:
            monkeypatch.undo()
            looked.append(engine.mirror("t").published)
            assert published_files(table) == before
            return real(commit)

        monkeypatch.setattr(catalog.database, "commit_by", commit_by)
        table.remove([path])
        assert looked == [2]
        assert engine.mirror("t").versions == 1
    assert published_files(table) == committed_files(table)
    assert len(published_files(table)) == 4


@pytest.mark.default_on("sqlite")
@pytest.mark.requirement("R28")
def test_a_rollback_at_any_statement_leaves_nothing_in_the_log(catalog: Catalog, tmp_path: Path) -> None:
    table = make_table(catalog, tmp_path)
    append(table, 1)
    with mirror_of(catalog) as engine:
        engine.run(once=True)
        before = {path.name: path.read_bytes() for path in log_of(table).iterdir()}
        with failing_at(catalog.database, None) as counter:
            commit_something(catalog)
        engine.run(once=True)
        before = {path.name: path.read_bytes() for path in log_of(table).iterdir()}
        for number in range(1, counter.seen + 1):
            with failing_at(catalog.database, number), pytest.raises(Fault):
                commit_something(catalog)
            assert engine.run(once=True).versions == 0
            assert {path.name: path.read_bytes() for path in log_of(table).iterdir()} == before
    assert counter.seen > 5


def commit_something(catalog: Catalog) -> None:
    with catalog.transaction() as tx:
        head = catalog.table("t").info().head
        tx.read("t", all=True)
        tx.append("t", [add(f"{head}.parquet")])
        tx.set_transaction("t", "app", head)


@pytest.mark.requirement("R28")
def test_a_commit_succeeds_while_an_object_of_its_table_is_being_put(catalog: Catalog, tmp_path: Path) -> None:
    table = make_table(catalog, tmp_path, properties={"delta.checkpointInterval": "1"})
    during: list[str] = []

    def commit(operation: str, key: str) -> None:
        if operation in ("create", "replace"):
            append(table, prefix=f"during-{len(during)}")
            during.append(key.rpartition("/")[2])

    def wrap(store: Store) -> Store:
        return watched(store, before=commit)[0]

    with mirror_over(catalog, wrap) as engine:
        engine.mirror("t", 0)
        append(table)
        engine.mirror("t", 1)
    assert during == [
        "00000000000000000000.json",
        "00000000000000000000.crc",
        "00000000000000000001.json",
        "00000000000000000001.crc",
        "00000000000000000001.checkpoint.parquet",
        "_last_checkpoint",
    ]
    assert table.info().head == 1 + len(during)


@pytest.mark.postgres
@pytest.mark.requirement("R28")
def test_no_lock_is_held_while_an_object_is_being_put(postgres_url: str, tmp_path: Path) -> None:
    held: list[tuple[str, list[Any]]] = []
    with psycopg.connect(postgres_url, autocommit=True) as watching, Catalog(postgres_url) as catalog:
        catalog.init()
        table = make_table(catalog, tmp_path, properties={"delta.checkpointInterval": "1"})
        append(table, 3)

        def look(operation: str, key: str) -> None:
            if operation in ("create", "replace"):
                held.append((key, watching.execute(_LOCKS).fetchall()))

        # One thread is at work, so that whatever is locked is locked by the one that puts.
        with mirror_over(catalog, lambda store: watched(store, before=look)[0], checksums=False) as engine:
            engine.mirror("t")
        with catalog.database.write() as session:
            session.lock_tables()
            assert watching.execute(_LOCKS).fetchall() != []
    assert [locks for _, locks in held] == [[]] * 6


_LOCKS = """
SELECT a.pid, a.state, a.query, l.mode, l.relation::regclass::text
FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.backend_type = 'client backend'
"""
