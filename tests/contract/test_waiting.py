"""Waiting for publication, over every database, while commits of somebody else are adopted."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from deltamirror import Catalog, MirrorEngine, Table
from deltamirror.errors import Conflict, Late, NotFound, Unavailable
from deltamirror.pipeline.service import publication_wait
from tests.support.imports.adoptions import PLAIN, add_line, adopted, mirror, mirroring, their_commit
from tests.support.lakes.lake import add, paths
from tests.support.mirrors.local import append, make_table

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


@contextmanager
def waiting_for(
    catalog: Catalog, versions: Mapping[str, int], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Future[dict[str, int]]]:
    """Somebody who waits, and has looked once in vain; who looks again when the block ends."""
    looked, changed = threading.Event(), threading.Event()

    class Clock:
        monotonic: Callable[[], float] = staticmethod(time.monotonic)

        def sleep(self, _: float) -> None:
            looked.set()
            assert changed.wait(60)

    monkeypatch.setattr(publication_wait, "time", Clock())
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(catalog.wait_until_published, versions, seconds=60)
        assert looked.wait(60)
        try:
            yield found
        finally:
            changed.set()


@pytest.mark.default_on("sqlite", "postgresql")
def test_who_waits_for_a_commit_that_is_moved_waits_for_the_version_that_it_has_since(
    catalog: Catalog, engine: MirrorEngine, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed = table.append([add("ours")])
    with waiting_for(catalog, committed.versions, monkeypatch) as found:
        their_commit(table, 3, add_line("theirs"))
        assert adopted(engine).rebased == {3: 4}
        their_commit(table, 4, add_line("theirs-2"))
        assert adopted(engine).rebased == {4: 5}
        assert table.info().published == 4
        mirror(engine)
    assert (committed.versions, found.result(60)) == ({"t": 3}, {"t": 5})


def test_a_commit_that_was_moved_is_not_published_as_long_as_only_its_old_version_is(
    catalog: Catalog, engine: MirrorEngine, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed = table.append([add("ours")])
    with waiting_for(catalog, committed.versions, monkeypatch) as found:
        their_commit(table, 3, add_line("theirs"))
        adopted(engine)
        ends = iter([0.0, 0.0])  # the next look is within the time, and what comes after is not
        monkeypatch.setattr(f"{publication_wait.__name__}.time.monotonic", lambda: next(ends, float("inf")))
    with pytest.raises(Late, match="version 4 of table 't' is committed") as caught:
        found.result(60)
    assert caught.value.version == 4


def test_who_waits_for_a_commit_that_is_dropped_is_told_so(
    catalog: Catalog, engine: MirrorEngine, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed = table.remove([paths(table)[0]])
    with waiting_for(catalog, committed.versions, monkeypatch) as found:
        their_commit(table, 3, add_line("theirs"))
        assert [each.version for each in adopted(engine, drop_conflicting=True).dropped] == [3]
    with pytest.raises(Conflict, match=r"version 3 of table 't' was dropped .* theirs was added") as caught:
        found.result(60)
    assert (caught.value.reason, caught.value.table) == ("log-adopted", "t")


def test_a_wait_returns_the_versions_that_it_was_for(catalog: Catalog, engine: MirrorEngine, table: Table) -> None:
    committed = table.append([add("ours")])
    mirror(engine)
    assert catalog.wait_until_published(committed.versions, seconds=0) == committed.versions
    assert catalog.wait_until_published({"t": 0}, seconds=0) == {"t": 0}
    assert catalog.wait_until_published({}, seconds=0) == {}
    with pytest.raises(Late):
        catalog.wait_until_published({"t": 4}, seconds=0)
    with pytest.raises(NotFound):
        catalog.wait_until_published({"other": 0}, seconds=0)


def test_a_database_that_is_away_is_told_at_once_and_at_the_deadline_as_the_reason_of_being_late(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> object:
        raise Unavailable("the database is away")

    monkeypatch.setattr(publication_wait, "table_info", away)
    with pytest.raises(Unavailable):
        catalog.wait_until_published({"t": 2}, seconds=60)
    with pytest.raises(Late, match=r"version 2 of table 't' .* within 0 s: the database is away"):
        catalog.wait_until_published({"t": 2}, seconds=0)
