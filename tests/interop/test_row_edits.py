"""Deletes, updates and merges in lock-step: the same texts on a table of ours and on one of Delta Lake on Spark.

Both have row tracking and mapped columns, so that rows keep their ids in columns of the files, and a change data feed.
Rows are equal after every step, and so are the counts in the history and the feed; row ids stay as Delta Spark saw them
first. Every version of ours is
read by Delta Spark, delta-rs and DuckDB.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamirror import Catalog, Delete, Insert, Table, Update
from tests.support.mirrors.local import mirror_of
from tests.support.readers.reader import Reader
from tests.support.readers.rows import row_texts
from tests.support.rows.change_feed import feed
from tests.support.spark.commands import Edits

pytestmark = [pytest.mark.spark, pytest.mark.slow, *(pytest.mark.requirement(row) for row in ("R89", "R90"))]

SCHEMA = "id long, p string, f double, c decimal(10,2), s string, day date"
PROPERTIES = {
    "delta.enableRowTracking": "true",
    "delta.columnMapping.mode": "name",
    "delta.enableChangeDataFeed": "true",
}
WHERE = "f > 1.5 AND NOT (s = 'b') OR coalesce(s, 'none') || p = 'nonex'"
RAISED = {"c": "c * 1.115", "s": "concat(s, '!')", "f": "id / 4", "p": "CASE WHEN p IS NULL THEN 'n' ELSE p END"}
CHANGED = ("Updated", "Deleted")
COUNTS = (
    *("numDeletedRows", "numUpdatedRows", "numSourceRows", "numTargetRowsInserted"),
    *(f"numTargetRows{which}{kind}" for which in ("", "Matched", "NotMatchedBySource") for kind in CHANGED),
)
"""What the rows decide; rows that are copied depend on the files, and Delta Spark rewrites more of them."""
ARROW = pa.schema(
    [
        ("id", pa.int64()),
        ("p", pa.string()),
        ("f", pa.float64()),
        ("c", pa.decimal128(10, 2)),
        ("s", pa.string()),
        ("day", pa.date32()),
    ]
)


@dataclass(frozen=True)
class Step:
    """An edit in both languages; ``{t}`` is the table, ``{s}`` the source."""

    sql: str
    ours: Callable[[Table, pa.Table], object]


STEPS = (
    Step(f"DELETE FROM {{t}} WHERE {WHERE}", lambda table, _: table.delete(WHERE)),
    Step(
        f"UPDATE {{t}} SET {', '.join(f'{name} = {text}' for name, text in RAISED.items())} WHERE id >= 3 OR p IS NULL",
        lambda table, _: table.update(RAISED, "id >= 3 OR p IS NULL"),
    ),
    Step(
        "MERGE INTO {t} target USING {s} source ON target.id = source.id AND target.id > 0 "
        "WHEN MATCHED AND source.s = 'gone' THEN DELETE WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED AND source.f > 0 THEN INSERT * "
        "WHEN NOT MATCHED BY SOURCE AND target.p = 'y' THEN UPDATE SET s = 'orphan' "
        "WHEN NOT MATCHED BY SOURCE AND target.id = 0 THEN DELETE",
        lambda table, source: table.merge(
            source,
            "target.id = source.id AND target.id > 0",
            matched=[Delete("source.s = 'gone'"), Update()],
            not_matched=Insert(where="source.f > 0"),
            not_matched_by_source=[Update({"s": "'orphan'"}, "target.p = 'y'"), Delete("target.id = 0")],
        ),
    ),
    Step("DELETE FROM {t} WHERE p = 'x'", lambda table, _: table.delete("p = 'x'")),
)


def rows(*ids: int) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "id": number,
                "p": ["x", "y", None][number % 3],
                "f": [float("nan"), -0.0, 2.5, None][number % 4],
                "c": None if number == 4 else number,
                "s": ["a", "b", None, "gone"][number % 4],
                "day": None,
            }
            for number in ids
        ],
        ARROW,
    )


def test_edits_run_in_lock_step_with_delta_spark(
    sqlite_lake: str, tmp_path: Path, delta_spark: Reader, delta_rs: Reader, duckdb_delta: Reader
) -> None:
    theirs, source = f"delta.`{tmp_path / 'theirs'}`", rows(2, 5, 7, 9, 10)
    pq.write_table(rows(*range(8)), tmp_path / "given.parquet")
    pq.write_table(source, tmp_path / "source.parquet")
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in PROPERTIES.items())
    delta_spark.sql(f"CREATE TABLE {theirs} ({SCHEMA}) USING delta PARTITIONED BY (p) TBLPROPERTIES ({pairs})")
    delta_spark.sql(f"INSERT INTO {theirs} SELECT /*+ COALESCE(1) */ * FROM parquet.`{tmp_path / 'given.parquet'}`")
    with Catalog(sqlite_lake) as catalog:
        ours = catalog.create_table(
            "t", location=tmp_path / "ours", schema=SCHEMA, partition_by=["p"], properties=PROPERTIES
        )
        ours.append(rows(*range(8)))
        seen = {1: row_texts(ours.to_arrow().to_pylist())}
        for step in STEPS:
            delta_spark.sql(step.sql.format(t=theirs, s=f"parquet.`{tmp_path / 'source.parquet'}`"))
            step.ours(ours, source)
            [wanted] = delta_spark.rows_of([(str(tmp_path / "theirs"), None)])
            seen[ours.info().head] = row_texts(ours.to_arrow().to_pylist())
            assert seen[ours.info().head] == wanted["rows"], step.sql
        with mirror_of(catalog) as engine:
            engine.run(once=True)
        mine = f"delta.`{tmp_path / 'ours'}`"
        for one, other in zip(*(edits(delta_spark, name) for name in (mine, theirs)), strict=True):
            assert one == other
        changes, expected_changes = (feed(delta_spark, tmp_path / name, ARROW.names) for name in ("ours", "theirs"))
        assert changes == expected_changes
        first, last = (row_ids(delta_spark, name) for name in (f"{mine} VERSION AS OF 1", mine))
        assert last == {each: first[each] for each in last}
        for version, expected in seen.items():
            # Delta Spark, which costs most, reads the newest.
            for reader in (delta_spark, delta_rs, duckdb_delta) if version == max(seen) else (delta_rs, duckdb_delta):
                found = reader.snapshot(tmp_path / "ours", version=version, rows=True)
                assert found.row_count == len(expected), (reader.name, version)


@pytest.mark.elsewhere  # test_change_data compares what executors record of the same edits
def test_executors_change_rows_as_this_process_does(sqlite_lake: str, tmp_path: Path, delta_spark: Reader) -> None:
    with Catalog(sqlite_lake) as catalog:
        table = catalog.create_table(
            "t", location=tmp_path / "t", schema=SCHEMA, partition_by=["p"], properties=PROPERTIES
        )
        table.append(rows(*range(8)))
        pq.write_table(rows(2, 9), tmp_path / "source.parquet")
        delta_spark.run(
            Edits(
                catalog=sqlite_lake,
                table="t",
                update=({"s": "'seen'"}, "id >= 4"),
                delete="id = 1 OR id = 5",
                source=f"SELECT * FROM parquet.`{tmp_path / 'source.parquet'}`",
            )
        )
        found = {row["id"]: row["s"] for row in table.to_arrow().to_pylist()}
    assert found == {0: "a", 2: None, 3: "gone", 4: "seen", 6: "seen", 7: "seen", 9: "b"}


def edits(spark: Reader, name: str) -> list[tuple[str, list[str], dict[str, str | None]]]:
    """The edits in the history, with the names of their parameters, and their counts of rows."""
    history = spark.sql(f"DESCRIBE HISTORY {name}")
    return [
        (
            each["operation"],
            sorted(dict(each["operationParameters"])),
            {count: dict(each["operationMetrics"]).get(count) for count in COUNTS},
        )
        for each in history
        if each["operation"] in ("DELETE", "UPDATE", "MERGE")
    ]


def row_ids(spark: Reader, name: str) -> dict[int, int]:
    """The ids of the rows that were there from the beginning."""
    found = spark.sql(f"SELECT id, _metadata.row_id AS number FROM {name} WHERE id < 8")
    return {row["id"]: row["number"] for row in found}
