"""What a service asks at every poll costs by the tables that there are, and not by the versions that they had."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event

from deltamirror import Catalog
from deltamirror.config import Switch
from deltamirror.txnlog.queue import claims
from deltamirror.txnlog.queue.claims import claim, overdue
from deltamirror.work import Lane
from tests.support.databases.catalogs import ENGINES
from tests.support.lakes.lake import add, create, execute
from tests.support.mirrors.claims import HOUR, claimed, work_on

pytestmark = [pytest.mark.requirement("R91"), pytest.mark.default_on(*ENGINES)]

OF_VERSIONS = ("dl_table_versions", "dl_mirror_status", "dl_commit_chunks")


@contextmanager
def statements(catalog: Catalog) -> Iterator[list[str]]:
    """Those that are executed inside."""
    found: list[str] = []

    def told(_: Any, __: Any, statement: str, *___: Any) -> None:
        found.append(statement)

    event.listen(catalog.database.engine, "before_cursor_execute", told)
    yield found
    event.remove(catalog.database.engine, "before_cursor_execute", told)


def published_table(catalog: Catalog, name: str) -> None:
    create(catalog, name).append([add("a")])
    work_on(catalog, name, upto=1)


def test_where_all_is_published_no_version_is_looked_at(catalog: Catalog) -> None:
    published_table(catalog, "t")
    with statements(catalog) as asked:
        assert claimed(catalog) == []
        assert claimed(catalog, lane=Lane.CHECKPOINTS) == []
        with catalog.database.read() as connection:
            assert overdue(connection, Switch(), seconds=0, limit=5) == []
    assert len(asked) >= 3
    assert [each for each in asked if any(name in each for name in OF_VERSIONS)] == []


def test_where_all_checkpoints_are_written_only_the_index_of_others_is_looked_at(lake: Catalog) -> None:
    published_table(lake, "t")
    with statements(lake) as asked:
        assert claimed(lake, lane=Lane.CHECKPOINTS) == []
    [question] = [each for each in asked if "dl_checkpoints" in each]
    [step] = execute(lake, f"EXPLAIN QUERY PLAN {question}")
    assert step[-1].endswith("INDEX dl_checkpoints_unwritten")


@pytest.mark.parametrize("most", [0, 1, 2, 5])
def test_the_same_tables_are_claimed_whether_few_or_many_wait(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(claims, "_MOST_CANDIDATES", most)
    for name in ("t", "u", "v"):
        published_table(catalog, name)
    for name in ("v", "t"):
        catalog.table(name).append([add("b")])
        execute(catalog, "UPDATE dl_table_versions SET committed_at = committed_at - 1000")
    assert [each.name for each in claimed(catalog, limit=1)] == ["v"]
    assert [each.name for each in claimed(catalog)] == ["t"]


def test_tables_that_are_held_back_are_no_candidates(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else many of them would make each poll look at the versions of all."""
    monkeypatch.setattr(claims, "_MOST_CANDIDATES", 0)
    for name in ("paused", "off"):
        create(catalog, name)
    execute(catalog, "UPDATE dl_tables SET mirror_paused = true WHERE name = 'paused'")
    switch = Switch(patterns=(("off", False),))
    with statements(catalog) as asked:
        assert claim(catalog.database, lane=Lane.COMMITS, owner="me", seconds=HOUR, limit=5, switch=switch) == []
    assert [each for each in asked if any(name in each for name in OF_VERSIONS)] == []
