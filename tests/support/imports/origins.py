"""Tables that other writers made, with the rows that each of their versions has, and how they go on through us."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from deltamirror import Add
from deltamirror.delta.paths import decode_path
from tests.support.lakes.stories import Life
from tests.support.readers.reader import Reader

Rows = list[dict[str, Any]]
"""Rows as mappings, one a row, with all columns of their version."""

_QUIET: Final = deltalake.PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


@dataclass(frozen=True, slots=True)
class Origin:
    """A table in a folder that nobody writes to any more."""

    folder: Path
    rows: Mapping[int, Rows]
    """By version, of all that can still be read."""
    leaving: int
    """The id of a row in the file that is to be removed."""


def by_spark(spark: Reader, folder: Path) -> Origin:
    """Appends, an overwrite, a deletion vector, another column; checkpoints at 3 and 6."""
    table = f"delta.`{folder}`"
    spark.sql(
        f"CREATE TABLE {table} (id LONG, place STRING) USING delta PARTITIONED BY (place)"
        " TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '3')"
    )
    into = "SELECT /*+ COALESCE(1) */ id,"
    spark.sql(f"INSERT INTO {table} {into} 'north' FROM range(0, 10)")
    spark.sql(f"INSERT INTO {table} {into} 'south' FROM range(10, 20)")
    spark.sql(f"INSERT OVERWRITE {table} {into} 'north' FROM range(20, 30)")
    spark.sql(f"INSERT INTO {table} {into} CAST(NULL AS STRING) FROM range(30, 40)")
    spark.sql(f"DELETE FROM {table} WHERE id = 25")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN (note STRING)")
    spark.sql(f"INSERT INTO {table} VALUES (50, 'south', 'ä')")
    north, south = _rows(range(10), "north"), _rows(range(10, 20), "south")
    over, after = _rows(range(20, 30), "north"), _rows(range(30, 40), None)
    deleted = [row for row in [*over, *after] if row["id"] != 25]
    noted = [{**row, "note": None} for row in deleted]
    versions = [[], north, [*north, *south], over, [*over, *after], deleted, noted]
    last = [*noted, {"id": 50, "place": "south", "note": "ä"}]
    return Origin(folder, dict(enumerate([*versions, last])), leaving=20)


def by_delta_rs(folder: Path) -> Origin:
    """Appends and a delete; the log begins with the checkpoint of version 3: what was before it is cleaned up."""
    parts = [_rows(range(10), "north"), _rows(range(10, 20), "south"), _rows(range(20, 30), None)]
    configuration = {"delta.checkpointInterval": "4", "delta.logRetentionDuration": "interval 0 days"}
    for rows in parts:
        _append(folder, rows, configuration)
    deltalake.DeltaTable(folder).delete("id = 5", post_commithook_properties=_QUIET)
    deltalake.DeltaTable(folder).create_checkpoint()
    deleted = [row for rows in parts for row in rows if row["id"] != 5]
    more = [_rows(range(30, 40), "east"), _rows(range(40, 50), "north")]
    for rows in more:
        _append(folder, rows, configuration)
    deltalake.DeltaTable(folder).cleanup_metadata()
    return Origin(folder, {3: deleted, 4: deleted + more[0], 5: deleted + more[0] + more[1]}, leaving=10)


def continued(life: Life, rows: Rows, *, leaving: int) -> Iterator[Rows]:
    """A commit a step: append, remove, another column, append with it, overwrite, two appends, merge, optimise."""
    rows = [*rows, *_appended(life, [{"id": 100, "place": "north"}, {"id": 101, "place": "north"}])]
    yield rows
    gone = _file_with(life, leaving)
    life.table.remove([gone])
    rows = [row for row in rows if row["id"] not in _ids(life.folder / decode_path(gone))]
    yield rows
    life.table.alter(columns=["extra string"])
    rows = [{**row, "extra": None} for row in rows]
    yield rows
    rows = [*rows, *_appended(life, [{"id": 200, "place": None, "extra": "日本"}])]
    yield rows
    with life.catalog.transaction(operation="WRITE") as tx:
        tx.remove(life.table.name, life.table.snapshot().files().column("path").to_pylist())
        rows, file = _written(life, [{"id": 300, "place": "west", "extra": '"'}])
        tx.append(life.table.name, [file])
    yield rows
    for number in (400, 401):
        rows = [*rows, *_appended(life, [{"id": number, "place": "north", "extra": None}])]
        yield rows
    kept = [row for row in rows if row["id"] != 300]
    merged = [{"id": 300, "place": "west", "extra": "merged"}, {"id": 500, "place": "west", "extra": None}]
    rows = [*kept, *_rewritten(life, [300], merged, operation="MERGE")]
    yield rows
    _rewritten(life, [400, 401], [row for row in rows if row["place"] == "north"], operation="OPTIMIZE")
    yield rows


def _rows(ids: range, place: str | None) -> Rows:
    return [{"id": each, "place": place} for each in ids]


def _append(folder: Path, rows: Rows, configuration: Mapping[str, str | None]) -> None:
    schema = pa.schema([("id", pa.int64()), ("place", pa.string())])
    deltalake.write_deltalake(
        folder,
        pa.Table.from_pylist(rows, schema),
        mode="append",
        partition_by=["place"],
        configuration=configuration,
        post_commithook_properties=_QUIET,
    )


def _appended(life: Life, rows: Rows) -> Rows:
    whole, file = _written(life, rows)
    life.table.append([file])
    return whole


def _rewritten(life: Life, leaving: Sequence[int], rows: Rows, *, operation: str) -> Rows:
    """One file in the place of those that have these ids; an optimise changes no data."""
    changes = operation != "OPTIMIZE"
    whole, file = _written(life, rows)
    with life.catalog.transaction(operation=operation) as tx:
        tx.remove(life.table.name, [_file_with(life, number) for number in leaving], data_change=changes)
        tx.append(life.table.name, [replace(file, data_change=changes)])
    return whole


def _written(life: Life, rows: Rows) -> tuple[Rows, Add]:
    """The rows, all of one place, with every column that the table has, and the file that holds them."""
    names = [field.name for field in life.table.snapshot().schema.fields]
    whole = [{name: row.get(name) for name in names} for row in rows]
    columns = {name: [row[name] for row in whole] for name in names if name != "place"}
    return whole, life.file(columns, {"place": rows[0]["place"]})


def _file_with(life: Life, number: int) -> str:
    """The path of the file that has the row of an id."""
    paths = life.table.snapshot().files().column("path").to_pylist()
    [found] = [path for path in paths if number in _ids(life.folder / decode_path(path))]
    return str(found)


def _ids(path: Path) -> set[int]:
    """Those of a data file, deleted ones, too."""
    return set(pq.ParquetFile(path).read(columns=["id"]).column("id").to_pylist())
