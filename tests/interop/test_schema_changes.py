"""Changes of columns: each is, byte for byte, the commit that Delta Lake on Spark makes of the same ALTER TABLE.

Spark reads the rows of before and after; rows that a DataFrame brings add columns, and widen types.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from deltamirror import Catalog, Table
from tests.support.lakes.lake import info_of
from tests.support.logs.folder import masked, read_log, write_log
from tests.support.readers.reader import Reader
from tests.support.readers.rows import row_texts
from tests.support.spark.commands import DeltaSave, FrameWrite

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.xdist_group("spark"),
    *(pytest.mark.requirement(row) for row in ("R66", "R89")),
]

TIMED = {"delta.enableInCommitTimestamps": "true"}


@dataclass(frozen=True)
class Story:
    """A table, and changes of it in Spark's words and in ours."""

    columns: str
    changes: Mapping[str, Mapping[str, Any]]
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


def change(column: str, clauses: str) -> Mapping[str, Any]:
    return {"change_columns": {column: clauses}}


STORIES = {
    "columns": Story(
        "id INT NOT NULL, a STRING, p INT, s STRUCT<x: INT, y: STRING>, l ARRAY<STRUCT<q: INT>>, v VARCHAR(5)",
        {
            "ADD COLUMNS (b STRING COMMENT 'it''s' AFTER id, s.z DECIMAL(10,2) FIRST, l.element.r DATE)": {
                "columns": "b string COMMENT 'it''s' AFTER id, s.z decimal(10,2) FIRST, l.element.r date"
            },
            "ADD COLUMNS (d STRUCT<e: INT COMMENT 'q'> FIRST)": {"columns": "d struct<e: int COMMENT 'q'> FIRST"},
            "ADD COLUMNS (vc VARCHAR(7) COMMENT 'x')": {"columns": "vc varchar(7) COMMENT 'x'"},
            "ALTER COLUMN id DROP NOT NULL": change("ID", "DROP NOT NULL"),
            "ALTER COLUMN l.element.q COMMENT 'deep'": change("l.element.q", "COMMENT 'deep'"),
            "ALTER COLUMN s.x AFTER Y": change("s.x", "AFTER Y"),
            "ALTER COLUMN p FIRST": change("p", "FIRST"),
            "ALTER COLUMN v TYPE VARCHAR(9)": change("v", "TYPE varchar(9)"),
            "CHANGE COLUMN b b STRING COMMENT 'three' FIRST": change("b", "COMMENT 'three' FIRST"),
            "ALTER COLUMN b SET DEFAULT 'x' || 'y'": change("b", "SET DEFAULT 'x' || 'y'"),
            "ALTER COLUMN b COMMENT 'four'": change("b", "COMMENT 'four'"),
            "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')": {"enable_column_mapping": True},
            "SET TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'id,a,s.x')": {
                "properties": {"delta.dataSkippingStatsColumns": "id,a,s.x"}
            },
            "RENAME COLUMN a TO `a a`": {"rename_columns": {"a": "a a"}},
            "RENAME COLUMN s.x TO `x.x`": {"rename_columns": {"s.x": "x.x"}},
            "RENAME COLUMN p TO part": {"rename_columns": {"p": "part"}},
            "DROP COLUMNS (`a a`, s.y, l.element.r)": {"drop_columns": ["a a", "s.y", "l.element.r"]},
            "ADD COLUMNS (a STRING, s.y STRUCT<u: INT>)": {"columns": ["a string", "s.y struct<u: int>"]},
            "ALTER COLUMN s.y.u COMMENT 'mapped'": change("s.y.u", "COMMENT 'mapped'"),
            "ALTER COLUMN b DROP DEFAULT": change("b", "DROP DEFAULT"),
        },
        partition_by=("p",),
        properties={**TIMED, "delta.feature.allowColumnDefaults": "supported"},
    ),
    "types": Story(
        "b BYTE, f FLOAT, c DECIMAL(5,2), s STRUCT<x: INT, l ARRAY<INT>>, m MAP<INT, ARRAY<FLOAT>>",
        {
            "ALTER COLUMN b TYPE SHORT": change("b", "TYPE short"),
            "ALTER COLUMN b TYPE BIGINT": change("b", "TYPE bigint"),
            "ALTER COLUMN f TYPE DOUBLE": change("f", "TYPE double"),
            "ALTER COLUMN c TYPE DECIMAL(12,4)": change("c", "TYPE decimal(12,4)"),
            "ALTER COLUMN s.x TYPE DOUBLE": change("s.x", "TYPE double"),
            "ALTER COLUMN s.l.element TYPE DECIMAL(12,0)": change("s.l.element", "TYPE decimal(12,0)"),
            "ALTER COLUMN m.key TYPE BIGINT": change("m.key", "TYPE bigint"),
            "ALTER COLUMN m.value.element TYPE DOUBLE": change("m.value.element", "TYPE double"),
        },
        properties={**TIMED, "delta.enableTypeWidening": "true"},
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_a_change_of_columns_has_the_lines_of_the_reference_writer(
    name: str, sqlite_lake: str, tmp_path: Path, delta_spark: Reader
) -> None:
    story, theirs = STORIES[name], f"delta.`{tmp_path / 'theirs'}`"
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in story.properties.items())
    partitioned = f"PARTITIONED BY ({', '.join(story.partition_by)})" if story.partition_by else ""
    delta_spark.sql(f"CREATE TABLE {theirs} ({story.columns}) USING delta {partitioned} TBLPROPERTIES ({properties})")
    for statement in story.changes:
        delta_spark.sql(f"ALTER TABLE {theirs} {statement}")
    log = read_log(tmp_path / "theirs")
    with Catalog(sqlite_lake) as catalog:
        table = catalog.create_table(
            "ours",
            location=tmp_path / "ours",
            schema=story.columns,
            partition_by=story.partition_by,
            properties=story.properties,
        )
        for version, (statement, wishes) in enumerate(story.changes.items(), start=1):
            table.alter(**wishes)
            assert (statement, masked(table.commit_file(version))) == (statement, masked(log[version]))


def test_frames_bring_columns_along_and_delta_spark_reads_all_rows(
    sqlite_lake: str, tmp_path: Path, delta_spark: Reader
) -> None:
    first = "SELECT 1 AS id, named_struct('x', 1, 'y', 'a') AS s, 'gone' AS old"
    nested = "SELECT 2 AS id, named_struct('z', 'b', 'x', 2) AS s, array('n') AS note"
    wide = "SELECT 1099511627776L AS id, 7 AS more"
    with Catalog(sqlite_lake) as catalog:
        schema = "id int, s struct<x: int, y: string>, old string"
        table = catalog.create_table("t", location=tmp_path / "t", schema=schema)
        delta_spark.run(FrameWrite(catalog=sqlite_lake, frames={"t": first}))
        table.alter(rename_columns={"s.y": "why"}, drop_columns="old", enable_column_mapping=True)
        merges = {"t": {"mergeSchema": "true"}}
        delta_spark.run(FrameWrite(catalog=sqlite_lake, frames={"t": nested}, appends=merges, is_saved=True))
        table.alter(properties={"delta.enableTypeWidening": True}, change_columns={"s.x": "TYPE bigint FIRST"})
        merging = {"t": {"merge_schema": True}}
        delta_spark.run(FrameWrite(catalog=sqlite_lake, frames={"t": wide}, appends=merging))
        assert [info_of(table, version)["operationParameters"].get("canMergeSchema") for version in (3, 5)] == [
            True
        ] * 2
        ours = row_texts(table.to_arrow().to_pylist())
        publish(table, tmp_path / "t")
    expected: list[dict[str, object]] = [
        {"id": 1, "s": {"x": 1, "why": "a", "z": None}, "note": None, "more": None},
        {"id": 2, "s": {"x": 2, "why": None, "z": "b"}, "note": ["n"], "more": None},
        {"id": 2**40, "s": None, "note": None, "more": 7},
    ]
    assert ours == row_texts(expected)
    assert delta_spark.rows_of([(str(tmp_path / "t"), None)]) == [{"rows": row_texts(expected)}]


OVERWRITES = {
    "SELECT 1L AS ID, named_struct('x', 1, 'z', 2) AS s, 'thu' AS day, array(named_struct('e', 1)) AS l": "day",
    "SELECT 'x' AS id, named_struct('x', 1, 'z', 2L) AS s, 7 AS day, array(named_struct('e', 1, 'f', 2)) AS l": "",
}
"""Statements, with the column that the table is partitioned by afterwards."""


@pytest.mark.parametrize("mode", ["name", pytest.param("none", marks=pytest.mark.soak)])
def test_an_overwritten_schema_is_the_metadata_of_the_reference_writer(
    mode: str, sqlite_lake: str, tmp_path: Path, delta_spark: Reader
) -> None:
    columns, properties = (
        "id LONG, day STRING, s STRUCT<x: INT, y: STRING>",
        {**TIMED, "delta.columnMapping.mode": mode},
    )
    theirs, pairs = tmp_path / "theirs", ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    clustered = "CLUSTER BY (id)" if mode == "none" else "PARTITIONED BY (day)"
    delta_spark.sql(f"CREATE TABLE delta.`{theirs}` ({columns}) USING delta {clustered} TBLPROPERTIES ({pairs})")
    delta_spark.sql(f"INSERT INTO delta.`{theirs}` VALUES (1, 'mon', NULL)")
    with Catalog(sqlite_lake) as catalog:
        layout = {"cluster_by": "id"} if mode == "none" else {"partition_by": "day"}
        ours = catalog.create_table("t", location=tmp_path / "t", schema=columns, properties=properties, **layout)
        delta_spark.run(FrameWrite(catalog=sqlite_lake, frames={"t": "SELECT 1L AS id, 'mon' AS day"}))
        for number, (statement, column) in enumerate(OVERWRITES.items()):
            by, options = [column] * bool(column), {"overwriteSchema": "true"}
            delta_spark.run(DeltaSave(location=str(theirs), statement=statement, options=options, partition_by=by))
            saved = {**options, **({"partitionBy": column} if by else {})}
            asked = {"t": saved if number else {"overwrite_schema": True, "partition_by": by}}
            write = FrameWrite(catalog=sqlite_lake, frames={"t": statement}, overwrites=asked, is_saved=number > 0)
            assert delta_spark.run(write) == {"t": number + 2}
            assert foundation(ours.commit_file(number + 2)) == foundation(read_log(theirs)[number + 2]), statement
            assert row_texts(ours.to_arrow().to_pylist()) == delta_spark.rows_of([(str(theirs), None)])[0]["rows"]
        publish(ours, tmp_path / "t")
        assert delta_spark.rows_of([(str(tmp_path / "t"), None)]) == delta_spark.rows_of([(str(theirs), None)])


def foundation(commit: bytes) -> list[str]:
    """The lines of a commit that are about the table, and how it describes itself, without its own numbers."""
    found = [line for line in masked(commit) if not line.startswith(('{"add"', '{"remove"', '{"commitInfo"'))]
    info = json.loads(commit.splitlines()[0])["commitInfo"]
    return [*found, str([info[key] for key in ("operation", "operationParameters", "isBlindAppend")])]


def publish(table: Table, folder: Path) -> None:
    write_log(folder, {version: table.commit_file(version) for version in range(table.info().head + 1)})
