"""The bare cost of a database: the rows of a commit, inserted by the driver alone, with the durability we ask for.

The rows are those that deltamirror wrote for one add, with keys of their own, in the tables that it made. Head read,
path looked up, four rows inserted, head moved: on SQLite and DuckDB a statement each, on PostgreSQL one statement.
"""

import secrets
import sqlite3
import threading
import time
import uuid
import zlib
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import duckdb
import psycopg

from benchmarks.adds import adds
from benchmarks.lab import TABLE, Place
from deltamirror import Add, Catalog

PROJECTIONS = ("dl_commit_chunks", "dl_table_versions", "dl_files", "dl_mirror_status")
_WAIT_SECONDS = 60


class _Cursor(Protocol):
    def execute(self, statement: str, values: Any = ..., /) -> Any: ...


@dataclass(frozen=True, slots=True)
class Template:
    """The rows of one commit, table by table, by column."""

    table_id: int
    rows: dict[str, dict[str, Any]]

    def filled(self, table: str, **keys: Any) -> dict[str, Any]:
        """The row of a table with keys of its own."""
        row = self.rows[table]
        return {**row, **{name: value for name, value in keys.items() if name in row}}


def open_bare(place: Place) -> "BareSqlite | BarePostgresql | BareDuckdb":
    """A writer that uses nothing but the driver."""
    match place.engine:
        case "sqlite":
            return BareSqlite(place)
        case "postgresql":
            return BarePostgresql(place)
        case _:
            return BareDuckdb(place)


def _template(place: Place, cursor: _Cursor) -> Template:
    (table_id,) = cursor.execute("SELECT table_id FROM dl_tables").fetchone()
    return Template(table_id, {table: newest_row(cursor, table) for table in PROJECTIONS})


def newest_row(cursor: _Cursor, table: str) -> dict[str, Any]:
    """The row that a table has of the newest commit, by column."""
    key = "version" if table in {"dl_table_versions", "dl_mirror_status"} else "commit_id"
    found = cursor.execute(f"SELECT * FROM {table} ORDER BY {key} DESC LIMIT 1")
    return dict(zip([column[0] for column in found.description], found.fetchone(), strict=True))


def commit_one(place: Place) -> None:
    """A commit of one add, by deltamirror."""
    with Catalog(place.url) as catalog:
        catalog.table(TABLE).append(list(islice(adds(seed=secrets.randbits(32)), 1)))


def _keys(add: Add) -> dict[str, Any]:
    commit_id = time.time_ns()  # one writer of these does not commit twice in a nanosecond; two hardly ever
    path_hash = zlib.crc32(add.path.encode())
    return {"commit_id": commit_id, "txn_id": str(uuid.uuid4()), "path": add.path, "path_hash": path_hash}


def _insert(table: str, row: dict[str, Any], mark: str = "?") -> str:
    return f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join([mark] * len(row))})"


class _Statements:
    """One commit, statement by statement."""

    def __init__(self, template: Template) -> None:
        self._template = template
        self._inserts = {table: _insert(table, row) for table, row in template.rows.items()}

    def commit(self, cursor: _Cursor, add: Add) -> None:
        template, keys = self._template, _keys(add)
        head = cursor.execute("SELECT * FROM dl_heads WHERE table_id = ?", [template.table_id]).fetchone()
        version = head[1] + 1
        seen = "SELECT commit_id FROM dl_files WHERE table_id = ? AND path_hash = ?"
        cursor.execute(seen, [template.table_id, keys["path_hash"]]).fetchall()
        for table, statement in self._inserts.items():
            cursor.execute(statement, list(template.filled(table, version=version, **keys).values()))
        cursor.execute("UPDATE dl_heads SET version = ? WHERE table_id = ?", [version, template.table_id])


class BareSqlite:
    """``BEGIN IMMEDIATE`` and SQLite's own waiting, write-ahead log, synced at every commit."""

    def __init__(self, place: Place) -> None:
        path = place.url.removeprefix("sqlite:///")
        commit_one(place)
        self._connection = sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None)
        self._cursor = self._connection.cursor()
        self._cursor.execute("PRAGMA journal_mode=WAL")
        self._cursor.execute("PRAGMA synchronous=FULL")
        self._statements = _Statements(_template(place, self._cursor))

    def commit(self, add: Add) -> None:
        self._cursor.execute("BEGIN IMMEDIATE")
        self._statements.commit(self._cursor, add)
        self._cursor.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


class BareDuckdb:
    """One connection; threads take turns, since concurrent updates of a row fail in DuckDB."""

    def __init__(self, place: Place) -> None:
        commit_one(place)
        self._connection = duckdb.connect(place.url.removeprefix("duckdb:///"))
        self._statements = _Statements(_template(place, self._connection))
        self._turn = threading.Lock()

    def commit(self, add: Add) -> None:
        with self._turn:
            self._connection.begin()
            self._statements.commit(self._connection, add)
            self._connection.commit()

    def close(self) -> None:
        self._connection.close()


class BarePostgresql:
    """One statement in one round trip: the head is updated first, so that writers queue for it."""

    def __init__(self, place: Place) -> None:
        commit_one(place)
        self._connection = psycopg.connect(place.url, autocommit=True)
        self._template = _template(place, self._connection)
        self._statement = self._one_statement()

    def commit(self, add: Add) -> None:
        template, keys = self._template, _keys(add)
        values = [template.table_id, template.table_id, keys["path_hash"]]
        for table in template.rows:
            row = template.filled(table, **keys)
            values += [value for name, value in row.items() if name != "version"]
        self._connection.execute(self._statement, values, prepare=True)

    def close(self) -> None:
        self._connection.close()

    def _one_statement(self) -> str:
        seen = "SELECT 1 FROM dl_files WHERE table_id = %s AND path_hash = %s"
        head = f"UPDATE dl_heads SET version = version + 1 WHERE table_id = %s AND NOT EXISTS ({seen})"
        parts = [f"head AS ({head} RETURNING version)"]
        for table, row in self._template.rows.items():
            marks = ["(SELECT version FROM head)" if name == "version" else "%s" for name in row]
            parts.append(f"{table}_rows AS (INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join(marks)}))")
        return f"WITH {', '.join(parts)} SELECT version FROM head"
