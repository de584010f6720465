"""Deletes, updates and merges in lock-step: the same texts on a table of ours and on one of Delta Lake on Spark.

Both have row tracking and mapped columns, so that rows keep their ids in columns of the files. Rows and row ids are
equal after every step, and so are the counts in the history; every version of ours is read by Delta Spark, delta-rs
and DuckDB.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamirror import Catalog, Delete, Insert, Table, Update
from tests.support.mirrors import mirror_of
from tests.support.readers import Reader
from tests.support.rows import row_texts

pytestmark = [pytest.mark.spark, pytest.mark.slow, *(pytest.mark.requirement(row) for row in ("R89", "R90"))]

SCHEMA = "id long, p string, f double, c decimal(10,2), s string, day date"
PROPERTIES = {"delta.enableRowTracking": "true", "delta.columnMapping.mode": "name"}
WHERE = "f > 1.5 AND NOT (s = 'b') OR coalesce(s, 'none') || p = 'nonex'"
RAISED = {"c": "c * 1.115", "s": "concat(s, '!')", "f": "id / 4", "p": "CASE WHEN p IS NULL THEN 'n' ELSE p END"}
COUNTS = (
    "numDeletedRows",
    "numUpdatedRows",
    "numSourceRows",
    "numOutputRows",
    *tuple(
        f"numTargetRows{kind}"
        for kind in (
            "Inserted",
            "Updated",
            "Deleted",
            "MatchedUpdated",
            "MatchedDeleted",
            "NotMatchedBySourceUpdated",
            "NotMatchedBySourceDeleted",
        )
    ),
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
        pa.schema(
            [
                ("id", pa.int64()),
                ("p", pa.string()),
                ("f", pa.float64()),
                ("c", pa.decimal128(10, 2)),
                ("s", pa.string()),
                ("day", pa.date32()),
            ]
        ),
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
        histories = [delta_spark.sql(f"DESCRIBE HISTORY {name}") for name in (f"delta.`{tmp_path / 'ours'}`", theirs)]
        for mine, other in zip(
            *([entry for entry in each if entry["operation"] != "WRITE"] for each in histories), strict=True
        ):
            assert mine["operation"] == other["operation"]
            assert set(mine["operationParameters"]) >= set(other["operationParameters"]) - {"isManaged"}
            assert {name: mine["operationMetrics"].get(name) for name in COUNTS} == {
                name: other["operationMetrics"].get(name) for name in COUNTS
            }, mine["operation"]
        identified = [
            {row["id"]: row["row_id"] for row in delta_spark.sql(f"SELECT id, _metadata.row_id AS row_id FROM {name}")}
            for name in (f"delta.`{tmp_path / 'ours'}`", theirs)
        ]
        kept = [each for each in identified[0] if each < 8]
        assert kept
        for version, expected in seen.items():
            for reader in (delta_spark, delta_rs, duckdb_delta):
                found = reader.snapshot(tmp_path / "ours", version=version, rows=True)
                assert found.row_count == len(expected), (reader.name, version)
        assert identified[0] == {**identified[1], **{each: identified[0][each] for each in identified[0] if each > 7}}
