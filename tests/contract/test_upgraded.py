"""A process of this release that has the catalog open while a later one upgrades it stops at its next commit."""

from collections.abc import Callable, Iterator

import pytest

from deltamirror import Catalog
from deltamirror.errors import CatalogMismatch
from deltamirror.txnlog.database.migrations import _MIGRATIONS, SCHEMA_VERSION
from deltamirror.txnlog.queue.leases import take
from deltamirror.work import Lane
from tests.support.lakes.lake import add, create, execute, opened, paths, row_counts

pytestmark = pytest.mark.requirement("R107")

UPGRADE = "UPDATE dl_catalog SET value = :version WHERE key = 'schema_version'"


@pytest.fixture
def upgrade(lake_url: str) -> Iterator[Callable[[Catalog], object]]:
    """Do what a later release's `init` does to the version of the schema; undone at the end."""
    yield lambda catalog: execute(catalog, UPGRADE, version=str(SCHEMA_VERSION + 1))
    with opened(lake_url) as catalog:
        execute(catalog, UPGRADE, version=str(SCHEMA_VERSION))


def test_an_old_release_is_stopped_at_its_next_commit(lake_url: str, upgrade: Callable[[Catalog], None]) -> None:
    with opened(lake_url, stage_above=3) as catalog:
        table = create(catalog)
        for number in range(7):
            table.append([add(f"before{number}")])
        before = row_counts(catalog)
        upgrade(catalog)
        for act in (
            lambda: table.append([add("small")]),
            lambda: table.append([add("token")], token="once"),
            lambda: table.append(add(f"large{number}") for number in range(9)),
            lambda: create(catalog, "u"),
            lambda: catalog.drop_table("t", unpublished=True),
            lambda: take(catalog.database, table.info().id, lane=Lane.COMMITS, owner="old", seconds=10),
        ):
            with pytest.raises(CatalogMismatch, match=f"schema version {SCHEMA_VERSION + 1}") as caught:
                act()
            assert "upgrade" in caught.value.hint
        assert row_counts(catalog) == before
        assert len(paths(table)) == 7


def test_the_version_of_the_schema_counts_its_migrations() -> None:
    assert 1 + len(_MIGRATIONS) == SCHEMA_VERSION
