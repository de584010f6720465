"""``init`` makes a catalog where none is, leaves one that is there alone, and touches nothing of anybody else's."""

import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, text

from deltamirror import Catalog
from deltamirror.errors import CatalogMismatch, InvalidSettings
from deltamirror.txnlog.database.migrations import SCHEMA_VERSION
from deltamirror.txnlog.database.schema import METADATA
from tests.support.lakes.lake import add, create, execute, opened, paths, row_counts

pytestmark = pytest.mark.requirement("R107")

INIT = "import sys; from deltamirror import Catalog; print(Catalog(sys.argv[1]).init())"


def run(url: str, *statements: str) -> list[str]:
    """Run SQL in a database that has no catalog; the names of its tables."""
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
        names = inspect(connection).get_table_names()
    engine.dispose()
    return sorted(names)


def test_init_makes_a_catalog_and_does_nothing_the_second_time(catalog_url: str) -> None:
    with Catalog(catalog_url) as catalog:
        assert catalog.init() == SCHEMA_VERSION
        create(catalog).append([add("a")])
        before = row_counts(catalog)
        assert catalog.init() == SCHEMA_VERSION
        assert row_counts(catalog) == before
        assert paths(catalog.table("t")) == ["a"]
    assert set(METADATA.tables) <= set(run(catalog_url))


def test_other_tables_of_the_database_are_left_alone(catalog_url: str) -> None:
    run(catalog_url, "CREATE TABLE orders (id integer)", "INSERT INTO orders VALUES (7)")
    with Catalog(catalog_url) as catalog:
        catalog.init()
        assert [tuple(row) for row in execute(catalog, "SELECT id FROM orders")] == [(7,)]


@pytest.mark.parametrize(
    "foreign",
    [
        "CREATE TABLE dl_files (id integer)",
        "CREATE TABLE dl_catalog (id integer)",
        "CREATE TABLE dl_catalog (key text, value text)",
    ],
)
def test_a_database_with_foreign_tables_of_our_names_is_refused(catalog_url: str, foreign: str) -> None:
    before = run(catalog_url, foreign)
    with Catalog(catalog_url) as catalog:
        for act in (catalog.init, catalog.check):
            with pytest.raises(CatalogMismatch, match="not ours"):
                act()
    assert run(catalog_url) == before


def test_a_database_without_a_catalog_is_refused(catalog_url: str) -> None:
    run(catalog_url, "CREATE TABLE orders (id integer)")
    with Catalog(catalog_url) as catalog:
        for act in (catalog.check, catalog.tables, lambda: catalog.table("t"), lambda: create(catalog)):
            with pytest.raises(CatalogMismatch) as caught:
                act()
            assert "deltamirror init" in caught.value.hint
    assert run(catalog_url) == ["orders"]


def test_a_catalog_of_a_later_release_is_refused(lake_url: str) -> None:
    later = "UPDATE dl_catalog SET value = :version WHERE key = 'schema_version'"
    with opened(lake_url) as catalog:
        create(catalog)
        execute(catalog, later, version=str(SCHEMA_VERSION + 1))
    with opened(lake_url) as catalog:
        try:
            for act in (
                catalog.init,
                catalog.check,
                catalog.tables,
                lambda: catalog.table("t"),
                lambda: create(catalog),
                lambda: catalog.drop_table("t", unpublished=True),
                lambda: catalog.pause("t", unpublished=True),
                lambda: catalog.resume("t"),
            ):
                with pytest.raises(CatalogMismatch, match="schema version") as caught:
                    act()
                assert "upgrade" in caught.value.hint
        finally:
            execute(catalog, later, version=str(SCHEMA_VERSION))


@pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def test_two_processes_may_init_at_once(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """DuckDB lets one process in at a time."""
    url = f"sqlite:///{tmp_path / 'lake.db'}" if engine == "sqlite" else request.getfixturevalue("postgres_url")
    command = [sys.executable, "-c", INIT, url]
    pipe = subprocess.PIPE
    running = [subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) for _ in range(2)]
    answers = [(*process.communicate(timeout=60), process.returncode) for process in running]
    assert answers == [(f"{SCHEMA_VERSION}\n", "", 0)] * 2
    with Catalog(url) as catalog:
        create(catalog)


def test_a_port_that_is_no_number_is_a_wrong_address_without_its_password() -> None:
    with pytest.raises(InvalidSettings) as caught:
        Catalog("postgresql://me:hunter2@db:port/lake")
    assert "hunter2" not in caught.value.message


@pytest.mark.postgres
def test_options_of_the_address_are_heeded(postgres_url: str) -> None:
    run(postgres_url, "CREATE SCHEMA lake")
    with Catalog(f"{postgres_url}?options=-csearch_path%3Dlake") as catalog:
        catalog.init()
        create(catalog)
    assert run(postgres_url) == []


@pytest.mark.postgres
def test_a_database_that_is_not_there_is_no_failing_server(postgres_url: str) -> None:
    with Catalog(f"{postgres_url}-other") as catalog, pytest.raises(CatalogMismatch, match="does not exist"):
        catalog.tables()
