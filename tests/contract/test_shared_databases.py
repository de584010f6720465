"""Threads, catalogs and processes that share one database take turns: none sees half a commit, none fails for it."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from deltamirror import Catalog
from deltamirror.errors import Unavailable
from deltamirror.txnlog.database.engines.queue import FileQueue
from deltamirror.txnlog.tables.registry import table_info
from tests.support.lakes.lake import add, create, paths, settings_for

pytestmark = pytest.mark.requirement("R36")

TURNS = 6


def commit_and_read(catalog: Catalog, writer: int) -> None:
    table = catalog.table("t")
    for turn in range(TURNS):
        version = table.append([add(f"{writer}-{turn}")]).versions["t"]
        assert len(paths(table, version=version)) == version


def all_at_once(*catalogs: Catalog) -> None:
    create(catalogs[0])
    with ThreadPoolExecutor(len(catalogs)) as threads:
        list(threads.map(commit_and_read, catalogs, range(len(catalogs))))
    assert catalogs[0].table("t").info().head == len(catalogs) * TURNS


@pytest.mark.parametrize("url", ["sqlite:///:memory:", "duckdb:///:memory:"])
def test_threads_share_a_database_in_memory(url: str) -> None:
    with Catalog(settings=settings_for(url, stage_above=10)) as catalog:
        catalog.init()
        all_at_once(catalog, catalog, catalog)
        assert catalog.table("t").append(add(f"large{n}") for n in range(20)).versions == {"t": 3 * TURNS + 1}


def test_a_glance_at_a_database_in_memory_waits_for_the_transaction_of_its_connection() -> None:
    with Catalog("sqlite:///:memory:") as catalog, ThreadPoolExecutor(1) as threads:
        catalog.init()
        create(catalog)
        with catalog.database.write() as session:
            session.execute(text("UPDATE dl_tables SET name = 'half'"))
            glance = threads.submit(catalog.table, "t")
            done, _ = wait([glance], timeout=0.2)
            assert not done, "it would see a half of the transaction"
            session.execute(text("UPDATE dl_tables SET name = 't'"))
        assert glance.result().name == "t"


def test_two_databases_in_memory_are_two() -> None:
    for engine in ("sqlite", "duckdb"):
        with Catalog(f"{engine}:///:memory:") as one, Catalog(f"{engine}:///:memory:") as other:
            one.init()
            other.init()
            create(one)
            assert other.tables() == []


@pytest.fixture
def twice(lake_url: str) -> Iterator[tuple[Catalog, Catalog]]:
    with Catalog(settings=settings_for(lake_url)) as one, Catalog(settings=settings_for(lake_url)) as other:
        yield one, other


@pytest.mark.default_on("sqlite", "postgresql")
def test_two_catalogs_of_one_database_wait_for_each_other(twice: tuple[Catalog, Catalog]) -> None:
    all_at_once(*twice, *twice)


def test_a_transaction_that_reads_sees_one_state_and_leaves_none_behind(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lake.db"
    with Catalog(settings=settings_for(url)) as one, Catalog(settings=settings_for(url)) as other:
        one.init()
        table = create(other)
        with one.database.read() as connection:
            before = table_info(connection, "t").head
            table.append([add("a")])
            assert table_info(connection, "t").head == before
        assert one.table("t").info().head == before + 1


def test_a_process_that_is_forked_in_the_middle_of_a_commit_does_not_keep_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inherited: list[int] = []
    opening = os.open

    def open_for_two(*arguments: object) -> int:
        descriptor = opening(*arguments)  # type: ignore[arg-type]
        inherited.append(os.dup(descriptor))
        return descriptor

    queue = FileQueue(str(tmp_path / "lake.db"), timeout=0.5)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", open_for_two)
        with queue.turn():
            pass
    try:
        with queue.turn():
            pass
    finally:
        for descriptor in inherited:
            os.close(descriptor)


@contextmanager
def forked() -> Iterator[None]:
    """A child that has whatever this process has open, and lives for as long."""
    ending, held = os.pipe()
    if (child := os.fork()) == 0:
        os.close(held)
        os.read(ending, 1)
        os._exit(0)
    os.close(ending)
    try:
        yield
    finally:
        os.close(held)
        os.waitpid(child, 0)


def test_a_waiter_that_gave_up_and_forked_leaves_no_lock_with_its_child(tmp_path: Path) -> None:
    database = str(tmp_path / "lake.db")
    hasty, patient = FileQueue(database, timeout=0.05), FileQueue(database, timeout=20)
    with ExitStack() as child:
        with patient.turn():
            with pytest.raises(Unavailable, match="has been writing for"), hasty.turn():
                pass
            child.enter_context(forked())
        for _ in range(3):
            with patient.turn():
                pass


def test_a_writer_that_forked_and_was_killed_leaves_no_lock_with_its_child(tmp_path: Path) -> None:
    queue = FileQueue(str(tmp_path / "lake.db"), timeout=20)
    ending, held = os.pipe()
    if (writer := os.fork()) == 0:
        with queue.turn():
            if os.fork() == 0:
                os.close(held)
                os.read(ending, 1)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(writer, 0)
    try:
        with queue.turn():
            pass
    finally:
        os.close(held)
        os.close(ending)


def test_a_child_that_is_forked_inside_of_a_turn_may_take_one_of_its_own(tmp_path: Path) -> None:
    queue = FileQueue(str(tmp_path / "lake.db"), timeout=20)
    with ExitStack() as turn:
        turn.enter_context(queue.turn())
        if (child := os.fork()) == 0:
            try:
                turn.close()  # the parent's turn, and left to it
                with queue.turn():
                    os._exit(0)
            finally:
                os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
