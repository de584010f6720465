"""Many writers at once: every commit gets a version of its own, and none is lost."""

import hashlib
from itertools import chain

import pytest

from deltamirror import Catalog
from tests.support.lakes.committers import COMMITS, Told, in_processes, in_threads
from tests.support.lakes.lake import create, execute, opened, paths

WRITERS = 16

pytestmark = pytest.mark.requirement("R36")


@pytest.mark.default_on("sqlite", "postgresql")
def test_sixteen_writers_of_fifty_commits_make_eight_hundred_versions(lake_url: str) -> None:
    with opened(lake_url) as catalog:
        create(catalog)
        told = in_threads(catalog, WRITERS) if lake_url.startswith("duckdb") else in_processes(lake_url, WRITERS)
        versions = chain.from_iterable(answers["versions"] for answers in told)
        assert sorted(versions) == list(range(1, WRITERS * COMMITS + 1))
        check_log(catalog)
        check_conflicts(told)


def check_log(catalog: Catalog) -> None:
    table = catalog.table("t")
    assert table.info().head == WRITERS * COMMITS
    assert paths(table) == sorted(f"{writer}-{turn}" for writer in range(WRITERS) for turn in range(COMMITS))
    rows = execute(
        catalog,
        "SELECT v.version, v.committed_at, v.digest, c.data FROM dl_table_versions v "
        "JOIN dl_commit_chunks c ON c.commit_id = v.commit_id ORDER BY v.version",
    )
    assert [row.version for row in rows] == list(range(WRITERS * COMMITS + 1))
    times = [row.committed_at for row in rows]
    assert times == sorted(set(times))
    assert all(hashlib.sha256(bytes(row.data)).digest() == bytes(row.digest) for row in rows)


def check_conflicts(told: list[Told]) -> None:
    """Whoever lost was told the table, the version it had counted on, and the one that is there."""
    conflicts = list(chain.from_iterable(answers["conflicts"] for answers in told))
    assert conflicts, "nobody met anybody: the writers did not run at once"
    assert all(table == "t" and actual > counted_on for table, counted_on, actual in conflicts)
