"""The bare cost of a large commit: its rows, inserted by the fastest way that each driver has."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, TypeAlias

import duckdb
import psycopg
import pyarrow as pa

from benchmarks.lab import Place

TABLES = ("dl_commit_chunks", "dl_files")
_ROWS_AT_ONCE = 50_000

Rows: TypeAlias = dict[str, Any]
"""The rows of each table: tuples, or Arrow data for DuckDB."""


def rows_of(place: Place) -> Rows:
    """All rows of the tables that a large commit fills."""
    match place.engine:
        case "sqlite":
            with sqlite3.connect(place.url.removeprefix("sqlite:///")) as connection:
                return {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES}
        case "postgresql":
            with psycopg.connect(place.url) as server:
                return {table: server.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES}
        case _:
            with duckdb.connect(place.url.removeprefix("duckdb:///")) as database:
                return {table: database.execute(f"SELECT * FROM {table}").to_arrow_table() for table in TABLES}


@contextmanager
def loader(place: Place) -> Iterator[Callable[[Rows], None]]:
    """Inserts rows, some ten thousand in a transaction, as a large commit does."""
    match place.engine:
        case "sqlite":
            with closing(sqlite3.connect(place.url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
                yield partial(_load_sqlite, connection)
        case "postgresql":
            with psycopg.connect(place.url, autocommit=True) as server:
                yield partial(_load_postgresql, server)
        case _:
            with duckdb.connect(place.url.removeprefix("duckdb:///")) as database:
                yield partial(_load_duckdb, database)


def _parts(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (rows[start : start + _ROWS_AT_ONCE] for start in range(0, len(rows), _ROWS_AT_ONCE))


def _load_sqlite(connection: sqlite3.Connection, rows: Rows) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    for table, all_rows in rows.items():
        marks = ", ".join("?" * len(all_rows[0]))
        for some in _parts(all_rows):
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", some)
            connection.execute("COMMIT")


def _load_postgresql(connection: psycopg.Connection, rows: Rows) -> None:
    for table, all_rows in rows.items():
        described = connection.execute(f"SELECT * FROM {table} LIMIT 0").description or []
        for some in _parts(all_rows):
            with connection.cursor().copy(f"COPY {table} FROM STDIN (FORMAT BINARY)") as copy:
                copy.set_types([column.type_code for column in described])
                for row in some:
                    copy.write_row(row)


def _load_duckdb(connection: duckdb.DuckDBPyConnection, rows: Rows) -> None:
    for table, all_rows in rows.items():
        incoming: pa.Table = all_rows
        for start in range(0, incoming.num_rows, _ROWS_AT_ONCE):
            connection.register("incoming", incoming.slice(start, _ROWS_AT_ONCE))
            connection.execute(f"INSERT INTO {table} SELECT * FROM incoming")
            connection.unregister("incoming")
