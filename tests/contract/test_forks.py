"""A process that is forked from one with an open catalog has sessions, locks and files of its own."""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from deltamirror import Catalog
from deltamirror.errors import CatalogMismatch
from deltamirror.txnlog.database.engines.file_uses import FileUses
from tests.contract.test_group_commits import check_log
from tests.support.lakes.lake import add, create, execute, opened, paths

THREADS, TURNS = 2, 25
PATIENCE = 60

pytestmark = pytest.mark.requirement("R36")

POSTGRESQL = pytest.param("postgresql", marks=pytest.mark.postgres)
of_postgresql = pytest.mark.parametrize("lake_url", [POSTGRESQL], indirect=True)
of_servers_and_files = pytest.mark.parametrize("lake_url", ["sqlite", POSTGRESQL], indirect=True)
of_files = pytest.mark.parametrize("lake_url", ["sqlite", "duckdb"], indirect=True)


class Child:
    """A process that is forked at once, acts when told to, and answers with what its act returned."""

    def __init__(self, act: Callable[[], object]) -> None:
        told, self._tell = os.pipe()
        self._answer, answering = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            os.close(self._tell)
            try:
                os.read(told, 1)
                try:
                    answer: object = act()
                except BaseException as error:  # noqa: BLE001 - also of pytest
                    answer = f"{type(error).__name__}: {error}"
                os.write(answering, json.dumps(answer).encode())
            finally:
                os._exit(0)
        os.close(told)
        os.close(answering)

    def go(self) -> None:
        """Let it act."""
        os.close(self._tell)

    def answer(self) -> Any:
        """What its act returned, or the error that it raised."""
        with os.fdopen(self._answer) as stream:
            answer = json.loads(stream.read())
        os.waitpid(self._process, 0)
        return answer


def told_by_child(act: Callable[[], object]) -> Any:
    """What an act returns in a process that is forked for it."""
    child = Child(act)
    child.go()
    return child.answer()


def commit_many(catalog: Catalog, name: str) -> list[int]:
    """The versions that threads got for their commits."""

    def commit(thread: int) -> list[int]:
        table = catalog.table("t")
        return [table.append([add(f"{name}-{thread}-{turn}")]).versions["t"] for turn in range(TURNS)]

    with ThreadPoolExecutor(THREADS) as threads:
        return list(chain.from_iterable(threads.map(commit, range(THREADS))))


@of_servers_and_files
def test_a_process_and_those_forked_from_it_commit_each_of_their_commits_once(catalog: Catalog) -> None:
    table = create(catalog)
    table.append([add("before")])
    children = {name: Child(partial(commit_many, catalog, name)) for name in ("one", "other")}
    for child in children.values():
        child.go()
    told = {"parent": commit_many(catalog, "parent"), **{name: child.answer() for name, child in children.items()}}
    names = [f"{name}-{thread}-{turn}" for name in told for thread in range(THREADS) for turn in range(TURNS)]
    assert sorted(chain(*told.values())) == list(range(2, len(names) + 2)), told
    assert paths(table) == sorted(["before", *names])
    check_log(catalog, "t")


def sessions(catalog: Catalog) -> set[int]:
    """The server's processes of all catalogs' connections."""
    return {
        row.pid for row in execute(catalog, "SELECT pid FROM pg_stat_activity WHERE application_name = 'deltamirror'")
    }


@of_postgresql
def test_a_forked_process_that_closes_the_catalog_ends_no_session_of_its_parent(catalog: Catalog) -> None:
    table = create(catalog)
    table.append([add("a")])
    catalog.database.wait_for_commits(0.01, threading.Event())
    before = sessions(catalog)

    def close_and_commit() -> int:
        catalog.close()
        version = table.append([add("b")]).versions["t"]
        catalog.close()
        return version

    assert told_by_child(close_and_commit) == 2
    assert table.append([add("c")]).versions == {"t": 3}
    assert before <= sessions(catalog)


@of_postgresql
def test_a_forked_process_listens_on_a_connection_of_its_own(catalog: Catalog) -> None:
    """Which comes back at once, since it begins to listen; on its parent's, all notices have been heard."""
    stop = threading.Event()
    for _ in range(3):
        catalog.database.wait_for_commits(1, stop)

    def wait() -> float:
        begun = time.monotonic()
        catalog.database.wait_for_commits(PATIENCE, stop)
        return time.monotonic() - begun

    assert told_by_child(wait) < PATIENCE / 2


def test_a_process_keeps_its_commits_though_the_one_it_was_forked_from_closes_the_file(sqlite_lake: str) -> None:
    """SQLite takes locks that a child inherits for its own: it would go on with a write-ahead log that is removed."""
    with opened(sqlite_lake) as catalog:
        table = create(catalog)
        table.append([add("a")])
        closed, close = os.pipe()

        def commit() -> list[int]:
            versions = [table.append([add("b")]).versions["t"]]
            os.write(begun, b"!")
            os.read(closed, 1)
            return [*versions, table.append([add("c")]).versions["t"]]

        has_begun, begun = os.pipe()
        child = Child(commit)
        child.go()
        os.read(has_begun, 1)
        catalog.close()
        os.write(close, b"!")
        assert child.answer() == [2, 3]
        assert paths(table) == ["a", "b", "c"]


@of_files
def test_a_forked_process_has_the_file_once_its_parent_let_go(catalog: Catalog) -> None:
    table = create(catalog)
    table.append([add("a")])
    assert told_by_child(lambda: table.append([add("b")]).versions["t"]) == 2
    assert table.append([add("c")]).versions == {"t": 3}
    assert paths(table) == ["a", "b", "c"]


@contextmanager
def in_use(catalog: Catalog) -> Iterator[None]:
    """Another thread is in the middle of reading."""
    begun, ended = threading.Event(), threading.Event()

    def read() -> None:
        with catalog.database.read():
            begun.set()
            assert ended.wait(PATIENCE)

    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(read)
        assert begun.wait(PATIENCE)
        try:
            yield
        finally:
            ended.set()
        reading.result()


@of_files
def test_a_process_that_is_forked_while_a_thread_uses_the_file_is_refused(catalog: Catalog, lake_url: str) -> None:
    """The catalog that it inherited, and one that it opens by itself."""
    table = create(catalog)
    table.append([add("a")])

    def commit() -> list[str]:
        refused = []
        for _ in range(2):
            with pytest.raises(CatalogMismatch, match="forked") as inherited:
                table.append([add("b")])
            refused.append(inherited.value.hint)
        with Catalog(lake_url) as own, pytest.raises(CatalogMismatch, match="forked"):
            own.table("t")
        return refused

    with in_use(catalog):
        refused = told_by_child(commit)
        assert ["spawn" in hint for hint in refused] == [True, True], refused
        assert table.append([add("c")]).versions == {"t": 2}
    assert told_by_child(lambda: table.append([add("d")]).versions["t"]) == 3
    assert paths(table) == ["a", "c", "d"]


@of_files
def test_a_file_that_is_opened_again_just_before_the_fork_is_refused_as_well(catalog: Catalog) -> None:
    table = create(catalog)
    uses: FileUses = catalog.database._uses  # type: ignore[attr-defined]

    def commit() -> int:
        uses.before_fork()
        table.info()
        uses.in_child()
        return table.append([add("a")]).versions["t"]

    assert "forked" in str(told_by_child(commit))


def test_a_process_forked_by_one_that_was_refused_is_refused(sqlite_lake: str) -> None:
    with opened(sqlite_lake) as catalog:
        table = create(catalog)
        with in_use(catalog):
            told = told_by_child(lambda: told_by_child(lambda: table.append([add("a")]).versions["t"]))
        assert "CatalogMismatch" in str(told)


def test_a_database_in_memory_is_copied_by_a_fork() -> None:
    with Catalog("sqlite:///:memory:") as catalog:
        catalog.init()
        table = create(catalog)
        table.append([add("a")])
        assert told_by_child(lambda: table.append([add("b")]).versions["t"]) == 2
        assert paths(table) == ["a"]


def test_catalogs_are_opened_and_used_while_processes_are_forked(tmp_path: Path) -> None:
    over = threading.Event()

    def open_and_commit(number: int) -> int:
        count = 0
        while not over.is_set():
            with opened(f"sqlite:///{tmp_path}/{number}.db") as catalog:
                catalog.init()
                if not catalog.tables():
                    create(catalog)
                count = catalog.table("t").append([add(str(count))]).versions["t"]
        return count

    with ThreadPoolExecutor(2) as threads:
        working = [threads.submit(open_and_commit, number) for number in range(2)]
        try:
            assert [told_by_child(lambda: 1) for _ in range(20)] == [1] * 20
        finally:
            over.set()
        assert all(each.result(PATIENCE) for each in working)
