"""Many versions, and many tables, as rows of a database: copies of one, by a statement for each of its tables."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final

import duckdb
import psycopg

from benchmarks.bare import PROJECTIONS, commit_one, newest_row
from benchmarks.lab import TABLE, Place

_OF_A_TABLE: Final = ("dl_tables", "dl_heads", "dl_table_versions", "dl_metadata", "dl_protocols", "dl_mirror_status")
_NEXT_VERSIONS: Final = {
    "version": "version + n",
    "commit_id": "commit_id + n",
    "txn_id": "'copy-' || n",
    "path": "path || '-' || n",
    "path_hash": "n",
}
_OTHER_TABLES: Final = {
    "table_id": "table_id + n",
    "commit_id": "commit_id + n",
    "txn_id": "'copy-' || n",
    "name": f"'{TABLE}-' || n",
    "location": "location || '-' || n",
}


def add_versions(place: Place, count: int) -> None:
    """Give the table so many versions of one add."""
    commit_one(place)
    with closing(connected(place)) as connection:
        cursor = connection.cursor()
        for table in PROJECTIONS:
            row = newest_row(cursor, table)
            key = "version" if "version" in row else "commit_id"
            cursor.execute(_copies(place.engine, table, row, f"{key} = {row[key]}", _NEXT_VERSIONS, count))
        cursor.execute(f"UPDATE dl_heads SET version = version + {count}")
        connection.commit()


def add_tables(place: Place, count: int) -> list[str]:
    """Add so many empty tables, whose first version is published; their names."""
    with closing(connected(place)) as connection:
        cursor = connection.cursor()
        cursor.execute("UPDATE dl_tables SET published_version = 0")
        cursor.execute("UPDATE dl_mirror_status SET state = 'SUCCESS', published_at = updated_at")
        for table in _OF_A_TABLE:
            found = cursor.execute(f"SELECT * FROM {table} LIMIT 1")
            row = dict.fromkeys(column[0] for column in found.description)
            cursor.execute(_copies(place.engine, table, row, "1 = 1", _OTHER_TABLES, count))
        connection.commit()
        if place.engine == "postgresql":
            connection.execute("ANALYZE")  # its own would come minutes later
            connection.commit()
    return [f"{TABLE}-{number}" for number in range(1, count + 1)]


def connected(place: Place) -> Any:
    """The driver's own connection to a database, in a transaction."""
    match place.engine:
        case "sqlite":
            return sqlite3.connect(place.url.removeprefix("sqlite:///"))
        case "postgresql":
            return psycopg.connect(place.url)
        case _:
            return duckdb.connect(place.url.removeprefix("duckdb:///")).begin()


def _copies(engine: str, table: str, row: Mapping[str, Any], which: str, keys: Mapping[str, str], count: int) -> str:
    """A statement that copies a row so many times, with keys of their own, by the number ``n`` of the copy."""
    if engine == "sqlite":
        numbers = f"SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < {count}"
    else:
        numbers = f"SELECT n FROM generate_series(1, {count}) AS numbers(n)"
    values = ", ".join(keys.get(name, name) for name in row)
    return (
        f"WITH RECURSIVE series(n) AS ({numbers}) INSERT INTO {table} ({', '.join(row)})"
        f" SELECT {values} FROM (SELECT * FROM {table} WHERE {which}) AS copied, series"
    )
