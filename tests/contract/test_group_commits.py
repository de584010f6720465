"""Threads of one process whose appends share transactions: each gets what it would have got alone."""

import hashlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from deltamirror import Catalog
from deltamirror.errors import Conflict, DeltaMirrorError, TokenReused
from deltamirror.steps import Moment, Step, observed
from deltamirror.txnlog.commit.request import Committed
from tests.support.lakes.lake import add, create, execute, paths

THREADS = 24
TURNS = 8

pytestmark = [
    pytest.mark.requirement("R36"),
    pytest.mark.requirement("R38"),
    # DuckDB takes each commit by the general path.
    pytest.mark.parametrize(
        "lake_url", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True
    ),
]


@contextmanager
def counted(step: Step) -> Iterator[list[Step]]:
    """The times that this process comes to a step."""
    met: list[Step] = []
    with observed(lambda moment, found: met.append(found) if (moment, found) == (Moment.BEFORE, step) else None):
        yield met


@contextmanager
def held_back(catalog: Catalog) -> Iterator[None]:
    """The first append is under way until the block ends: all that come meanwhile wait for it."""
    begun, going_on = threading.Event(), threading.Event()

    def wait(moment: Moment, step: Step) -> None:
        if (moment, step) == (Moment.BEFORE, Step.APPEND) and not begun.is_set():
            begun.set()
            assert going_on.wait(60)

    with observed(wait), ThreadPoolExecutor(1) as threads:
        first = threads.submit(catalog.table("t").append, [add("first")])
        assert begun.wait(60)
        try:
            yield
        finally:
            going_on.set()
        assert first.result().versions == {"t": 1}


def wait_for(catalog: Catalog, count: int) -> None:
    """Wait until as many appends wait."""
    group = catalog.database._appends  # type: ignore[attr-defined]
    for _ in range(60_000):
        with group._lock:
            if sum(map(len, group._under_way.values())) == count:
                return
        threading.Event().wait(0.001)
    raise AssertionError(f"there never were {count} that wait")


def check_log(catalog: Catalog, name: str) -> None:
    """Versions without gaps, at times that grow, and the bytes that their digests are of."""
    rows = execute(
        catalog,
        "SELECT v.version, v.committed_at, v.digest, c.data FROM dl_table_versions v "
        "JOIN dl_commit_chunks c ON c.commit_id = v.commit_id JOIN dl_tables t ON t.table_id = v.table_id "
        f"WHERE t.name = '{name}' ORDER BY v.version",
    )
    assert [row.version for row in rows] == list(range(catalog.table(name).info().head + 1))
    times = [row.committed_at for row in rows]
    assert times == sorted(set(times))
    assert all(hashlib.sha256(bytes(row.data)).digest() == bytes(row.digest) for row in rows)
    assert all(b'"inCommitTimestamp":%d,' % row.committed_at in bytes(row.data) for row in rows)


def test_each_of_many_threads_gets_a_version_of_its_own(catalog: Catalog) -> None:
    for name in ("t", "u"):
        create(catalog, name)

    def write(thread: int) -> list[tuple[str, int]]:
        name = "tu"[thread % 2]
        sent = (catalog.table(name).append([add(f"{thread}-{turn}")]) for turn in range(TURNS))
        return [(name, committed.versions[name]) for committed in sent]

    with ThreadPoolExecutor(THREADS) as threads:
        told = [answer for answers in threads.map(write, range(THREADS)) for answer in answers]
    each = THREADS * TURNS // 2
    assert sorted(told) == [(name, version) for name in "tu" for version in range(1, each + 1)]
    for number, name in enumerate("tu"):
        check_log(catalog, name)
        assert paths(catalog.table(name)) == sorted(
            f"{thread}-{turn}" for thread in range(number, THREADS, 2) for turn in range(TURNS)
        )


def test_those_of_one_transaction_have_the_answers_that_they_would_have_had_alone(catalog: Catalog) -> None:
    """Among them: the same token twice, with the same content and with another, a path twice, an exact version."""
    table = create(catalog)
    asked: list[Callable[[], Committed]] = [
        lambda: table.append([add("a")], token="one"),
        lambda: table.append([add("a")], token="one"),
        lambda: table.append([add("b")], token="one"),
        lambda: table.append([add("c")]),
        lambda: table.append([add("c", size=7)]),
        lambda: catalog.writer.commit_at("t", 2, [add("exact")]),
        lambda: catalog.writer.commit_at("t", 2, [add("late")]),
    ]
    with counted(Step.APPEND) as transactions, ThreadPoolExecutor(len(asked)) as threads:
        with held_back(catalog):
            sent: list[Future[Committed]] = []
            for number, act in enumerate(asked, 1):
                sent.append(threads.submit(act))
                if number <= 5:
                    wait_for(catalog, number)
        met = [future.exception() or future.result() for future in sent]
    first, second, other = met[:3]
    assert isinstance(first, Committed)
    assert isinstance(second, Committed)
    assert (first.versions, first.already_applied, second.already_applied) == (second.versions, False, True)
    assert isinstance(other, TokenReused)
    assert all(isinstance(answer, Committed) for answer in met[3:5])
    assert sum(isinstance(answer, Conflict) for answer in met[5:]) >= 1
    check_log(catalog, "t")
    assert paths(table).count("c") == 1
    assert len(transactions) < len(asked)


def test_one_that_the_database_refuses_refuses_no_other(catalog: Catalog) -> None:
    """A token that is too long for the index of PostgreSQL; SQLite takes it."""
    table = create(catalog)
    token = "".join(hashlib.sha256(str(number).encode()).hexdigest() for number in range(2_000))

    def send(number: int) -> Committed | DeltaMirrorError:
        try:
            return table.append([add(str(number))], token=token if number == 3 else None)
        except DeltaMirrorError as error:
            return error

    with ThreadPoolExecutor(6) as threads:
        with held_back(catalog):
            sent = [threads.submit(send, number) for number in range(6)]
            wait_for(catalog, 6)
        met = [future.result() for future in sent]
    is_refused = [isinstance(answer, DeltaMirrorError) for answer in met]
    assert is_refused == [number == 3 and catalog.database.name == "postgresql" for number in range(6)]
    check_log(catalog, "t")
