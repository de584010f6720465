"""An empty database of each supported engine, for suites that have to pass on all of them."""

import sqlite3
from pathlib import Path

import duckdb
import pytest

from tests.support.suite.inventory import record

ENGINES = ("sqlite", "duckdb", "postgresql")


def database_url(engine: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """The address of an empty database of one engine; files lie in the folder, PostgreSQL is started when asked for."""
    match engine:
        case "sqlite":
            record("engine", f"SQLite {sqlite3.sqlite_version}")
            return f"sqlite:///{folder / 'lake.db'}"
        case "duckdb":
            record("engine", f"DuckDB {duckdb.__version__}")
            return f"duckdb:///{folder / 'lake.duckdb'}"
        case "postgresql":
            return str(request.getfixturevalue("postgres_url"))
        case _:
            raise ValueError(f"no such engine: {engine}")


@pytest.fixture(
    params=[pytest.param(name, marks=[pytest.mark.postgres] if name == "postgresql" else []) for name in ENGINES],
    ids=str,
)
def catalog_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database, once for each engine."""
    return database_url(request.param, request, tmp_path)
