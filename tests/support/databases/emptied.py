"""An empty catalog of each engine, made once in a session: creating a database costs more than most tests."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltamirror import Catalog
from deltamirror.txnlog.database.schema import METADATA, catalog
from deltamirror.txnlog.queue.pause import resume_all
from tests.support.databases.catalogs import ENGINES, database_url
from tests.support.servers.postgres import PostgresServer


@pytest.fixture(scope="session")
def shared_postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A PostgreSQL database with a catalog in it, for one test after the other."""
    name = postgres_server.create_database()
    url = postgres_server.url(name)
    with Catalog(url) as made:
        made.init()
    yield url
    postgres_server.ensure_running()
    postgres_server.drop_database(name)


@pytest.fixture(scope="session")
def made_catalogs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an empty catalog in a file of SQLite and of DuckDB, to be copied."""
    folder = tmp_path_factory.mktemp("catalogs")
    for url in (f"sqlite:///{folder / 'lake.db'}", f"duckdb:///{folder / 'lake.duckdb'}"):
        with Catalog(url) as made:
            made.init()
    return folder


@pytest.fixture(
    params=[pytest.param(name, marks=[pytest.mark.postgres] if name == "postgresql" else []) for name in ENGINES],
    ids=str,
)
def lake_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database with an empty catalog, once for each engine."""
    return lake_url_of(request.param, request, tmp_path)


def lake_url_of(engine: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """The address of a database of one engine with an empty catalog; files lie in the folder."""
    if engine == "postgresql":
        url = str(request.getfixturevalue("shared_postgres_url"))
        request.getfixturevalue("postgres_server").ensure_running()
        _empty(url)
        return url
    made: Path = request.getfixturevalue("made_catalogs")
    for file in made.iterdir():
        if file.suffix == {"sqlite": ".db", "duckdb": ".duckdb"}[engine]:
            shutil.copy(file, folder)
    return database_url(engine, request, folder)


_EMPTY = "".join(f"DELETE FROM {table.name};" for table in METADATA.sorted_tables if table is not catalog)


def _empty(url: str) -> None:
    with Catalog(url) as made:
        with made.database.write() as session:
            session.connection.exec_driver_sql(f"DO $$ BEGIN {_EMPTY} END $$")  # in one turn
        resume_all(made.database)


@pytest.fixture
def sqlite_lake(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a SQLite file with an empty catalog, for what concerns no engine in particular."""
    return lake_url_of("sqlite", request, tmp_path)
