"""Threads, catalogs and processes that share one database take turns: none sees half a commit, none fails for it."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deltamirror import Catalog
from deltamirror.txnlog.engines.queue import FileQueue
from tests.support.lake import add, create, paths, settings_for

pytestmark = pytest.mark.requirement("R36")

TURNS = 15


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


@pytest.mark.parametrize("url", ["sqlite://", "duckdb://", "duckdb:///:memory:"])
def test_threads_share_a_database_in_memory(url: str) -> None:
    with Catalog(settings=settings_for(url, stage_above=10)) as catalog:
        catalog.init()
        all_at_once(catalog, catalog, catalog)
        assert catalog.table("t").append(add(f"large{n}") for n in range(20)).versions == {"t": 3 * TURNS + 1}


def test_two_databases_in_memory_are_two() -> None:
    for engine in ("sqlite", "duckdb"):
        with Catalog(f"{engine}://") as one, Catalog(f"{engine}://") as other:
            one.init()
            other.init()
            create(one)
            assert other.tables() == []


@pytest.fixture
def twice(lake_url: str) -> Iterator[tuple[Catalog, Catalog]]:
    with Catalog(settings=settings_for(lake_url)) as one, Catalog(settings=settings_for(lake_url)) as other:
        yield one, other


def test_two_catalogs_of_one_database_wait_for_each_other(twice: tuple[Catalog, Catalog]) -> None:
    all_at_once(*twice, *twice)


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
