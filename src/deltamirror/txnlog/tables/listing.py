"""The files of one version of a table, all of them, as Arrow data.

File rows name commits, and commits have versions. Arrow puts the two together, which takes a fraction of the time that
SQLite takes; and the rows of a table that never lost a file are not compared with those of files that it lost.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import BindParameter, Connection, bindparam, exists, func, select
from sqlalchemy.sql import Select

from deltamirror.txnlog.content.projection import ended_by
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.database.schema import file_ends, files, versions

FILES_SCHEMA: Final = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("partition_values", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modification_time", pa.int64(), nullable=False),
        pa.field("data_change", pa.bool_(), nullable=False),
        pa.field("stats", pa.string()),
        pa.field("tags", pa.string()),
        pa.field("deletion_vector", pa.string()),
        pa.field("base_row_id", pa.int64()),
        pa.field("default_row_commit_version", pa.int64()),
        pa.field("clustering_provider", pa.string()),
        pa.field("added_version", pa.int64(), nullable=False),
    ]
)
"""The columns of a file listing; ``partition_values``, ``tags`` and ``deletion_vector`` are JSON text."""

_COMMIT_ID: Final = pa.field("commit_id", pa.int64(), nullable=False)
_ROWS_SCHEMA: Final = pa.schema([*list(FILES_SCHEMA)[:-1], _COMMIT_ID])
_VERSIONS_SCHEMA: Final = pa.schema([_COMMIT_ID, pa.field("version", pa.int64(), nullable=False)])
_HASHES: Final = 1 << 32

_TABLE: Final[BindParameter[int]] = bindparam("of_table")
_VERSION: Final[BindParameter[int]] = bindparam("at_version")
_OWN: Final = files.c.table_id == _TABLE
_EXTENT: Final = select(func.count(), exists().where(file_ends.c.table_id == _TABLE)).select_from(files).where(_OWN)
_ROWS: Final = select(*(files.c[name] for name in _ROWS_SCHEMA.names)).where(
    _OWN, files.c.path_hash >= bindparam("low"), files.c.path_hash < bindparam("high")
)
_PARTITIONS: Final = select(files.c.partition_values, func.count()).where(_OWN).group_by(files.c.partition_values)
_LIVE_ROWS: Final = _ROWS.where(~ended_by(_VERSION))
_VERSIONS: Final = select(versions.c.commit_id, versions.c.version).where(
    versions.c.table_id == _TABLE, versions.c.version <= _VERSION
)


def extent(database: Database, connection: Connection, table_id: int) -> tuple[int, bool]:
    """How many files a table has, or had, and whether it lost any."""
    [[count, has_lost_files]] = database.look(connection, _EXTENT, {"of_table": table_id})
    return count, bool(has_lost_files)


def list_files(database: Database, connection: Connection, *, table_id: int, version: int) -> pa.Table:
    """The files of a version."""
    values = {"of_table": table_id, "at_version": version}
    count, has_lost_files = extent(database, connection, table_id)
    query = _LIVE_ROWS if has_lost_files else _ROWS
    parts = [
        database.fetch_arrow(connection, query, _ROWS_SCHEMA, {**values, "low": low, "high": high})
        for low, high in _ranges(count, database.rows_together)
    ]
    commits = database.fetch_arrow(connection, _VERSIONS, _VERSIONS_SCHEMA, values)
    return _with_versions(pa.concat_tables(parts), commits)


def list_matching(database: Database, connection: Connection, query: Select[Any], *, count: int) -> pa.Table:
    """The files that a query finds, which may look at so many of them; it has the columns of ``FILES_SCHEMA``."""
    hashes = files.c.path_hash
    parts = [
        database.fetch_arrow(connection, query.where(hashes >= low, hashes < high), FILES_SCHEMA)
        for low, high in _ranges(count, database.rows_together)
    ]
    return pa.concat_tables(parts)


def partition_sizes(database: Database, connection: Connection, table_id: int) -> dict[str, int]:
    """How many files a table has, or had, by their partition values as the log spells them."""
    return dict(database.look(connection, _PARTITIONS, {"of_table": table_id}))


def _ranges(count: int, together: int | None) -> Iterator[tuple[int, int]]:
    """Ranges of the hashes of paths, each with about so many of the rows: hashes are spread evenly."""
    parts = 1 if together is None else max(1, -(-count // together))
    bounds = [_HASHES * part // parts for part in range(parts + 1)]
    yield from pairwise(bounds)


def _with_versions(rows: pa.Table, commits: pa.Table) -> pa.Table:
    """The rows of commits that have versions, with them: others are of commits that are under way, or of later ones."""
    *columns, commit_ids = rows.columns
    numbers = pc.index_in(commit_ids, value_set=commits["commit_id"])
    if numbers.null_count:
        there = numbers.is_valid()
        columns, numbers = [each.filter(there) for each in columns], numbers.filter(there)
    return pa.table([*columns, commits["version"].take(numbers)], schema=FILES_SCHEMA)
