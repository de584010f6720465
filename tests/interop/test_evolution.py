"""Changes that a table with files may make: readers find the same rows, and Delta Lake on Spark makes no others."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from deltamirror import Add, Catalog, Table
from deltamirror.delta.schema import StructType, from_ddl, schema_string
from deltamirror.delta.schema.arrow import to_arrow
from tests.support.imports.parts import import_files
from tests.support.lakes.lake import remove_of
from tests.support.logs.folder import read_log, write_log
from tests.support.readers.reader import Reader
from tests.support.readers.rows import fingerprint, row_texts
from tests.support.reference_logs.files import committed_verbatim
from tests.support.rows.datafiles import data_file

pytestmark = [pytest.mark.spark, pytest.mark.requirement("R119"), pytest.mark.requirement("R5")]

Row = dict[str, Any]


@dataclass(frozen=True)
class Evolving:
    """A table that changes."""

    catalog: Catalog
    table: Table
    folder: Path

    def file(self, rows: Sequence[Row], schema: StructType | None = None, partition_by: Sequence[str] = ()) -> Add:
        """A data file with these rows, all of one partition."""
        schema = self.table.snapshot().schema if schema is None else schema
        columns = [each for each in to_arrow(schema) if each.name in rows[0] and each.name not in partition_by]
        stored = pa.Table.from_pylist([dict(row) for row in rows], pa.schema(columns))
        return data_file(self.folder, stored, schema=schema, partition={name: rows[0][name] for name in partition_by})

    def append(self, rows: Sequence[Row]) -> None:
        self.table.append([self.file(rows, partition_by=self.table.snapshot().metadata.partition_columns)])

    def set_schema(self, schema: str | StructType) -> None:
        with self.catalog.transaction() as tx:
            tx.set_metadata(self.table.name, schema=schema)

    def rename(self, old: str, new: str) -> None:
        schema = self.table.snapshot().schema
        fields = [replace(each, name=new) if each.name == old else each for each in schema.fields]
        self.set_schema(StructType(tuple(fields)))

    def publish(self) -> None:
        versions = range(self.table.info().head + 1)
        write_log(self.folder, {version: self.table.commit_file(version) for version in versions})


@dataclass(frozen=True)
class Story:
    """A table with rows, a change of it, more rows, and all of them as they are to be read afterwards."""

    schema: str
    rows: Sequence[Row]
    change: Callable[[Evolving], None]
    more: Sequence[Row]
    expected: Sequence[Row]
    definition: Mapping[str, Any] = field(default_factory=dict)


def to(schema: str) -> Callable[[Evolving], None]:
    return lambda evolving: evolving.set_schema(schema)


def map_columns(evolving: Evolving) -> None:
    """Begin to map columns; then rename one, drop one, and add one by the name of that."""
    evolving.table.alter(properties={"delta.columnMapping.mode": "name"})
    evolving.rename("a", "renamed")
    evolving.set_schema("id long, renamed string")
    evolving.set_schema("id long, renamed string, b string")


def overwrite(evolving: Evolving) -> None:
    """Another type and other partitions, with rewritten files."""
    table, schema = evolving.table, from_ddl("id string, day date")
    metadata = msgspec.structs.replace(
        table.snapshot().metadata, schema_string=schema_string(schema), partition_columns=["day"]
    )
    removes = [remove_of(each) for each in table.snapshot().adds()]
    added = evolving.file([{"id": "one", "day": date(2024, 1, 1)}], schema, partition_by=["day"])
    with evolving.catalog.transaction() as tx:
        tx.stage(table.name, [metadata, *removes, added])


STORIES = {
    "columns and fields added, in any order": Story(
        schema="id long not null, s struct<a: int>, l array<struct<a: int>>",
        rows=[{"id": 1, "s": {"a": 1}, "l": [{"a": 1}]}, {"id": 2, "s": None, "l": None}],
        change=to("b string, l array<struct<b: int, a: int>>, s struct<b: string, a: int>, id long"),
        more=[{"id": None, "b": "x", "s": {"b": "y", "a": 2}, "l": [{"b": 3, "a": 4}]}],
        expected=[
            {"id": 1, "b": None, "s": {"b": None, "a": 1}, "l": [{"b": None, "a": 1}]},
            {"id": 2, "b": None, "s": None, "l": None},
            {"id": None, "b": "x", "s": {"b": "y", "a": 2}, "l": [{"b": 3, "a": 4}]},
        ],
    ),
    "columns mapped, renamed, dropped and added": Story(
        schema="id long, a string, b string",
        rows=[{"id": 1, "a": "x", "b": "gone"}],
        change=map_columns,
        more=[{"id": 2, "renamed": "y", "b": "new"}],
        expected=[{"id": 1, "renamed": "x", "b": None}, {"id": 2, "renamed": "y", "b": "new"}],
    ),
    "overwritten": Story(
        schema="id long, day string, p string",
        rows=[{"id": 1, "day": "monday", "p": "x"}],
        change=overwrite,
        more=[{"id": "two", "day": date(2024, 1, 2)}],
        expected=[{"id": "one", "day": date(2024, 1, 1)}, {"id": "two", "day": date(2024, 1, 2)}],
        definition={"partition_by": ["p"]},
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_readers_find_the_same_rows_after_a_change(
    name: str, sqlite_lake: str, tmp_path: Path, delta_rs: Reader, duckdb_delta: Reader, delta_spark: Reader
) -> None:
    story = STORIES[name]
    with Catalog(sqlite_lake) as catalog:
        folder = tmp_path / "t"
        table = catalog.create_table("t", location=str(folder), schema=story.schema, **story.definition)
        evolving = Evolving(catalog, table, folder)
        evolving.append(story.rows)
        story.change(evolving)
        evolving.append(story.more)
        evolving.publish()
    expected, before = (pa.Table.from_pylist(list(rows)) for rows in (story.expected, story.rows))
    for reader in (delta_rs, duckdb_delta):
        for version, rows in ((None, expected), (1, before)):
            seen = reader.snapshot(folder, version, rows=True)
            assert (reader.name, seen.row_digest) == (reader.name, fingerprint(rows)["digest"])
    answers = delta_spark.rows_of([(str(folder), None), (f"{folder}@v1", None)])
    assert answers == [{"rows": row_texts(rows.to_pylist())} for rows in (expected, before)]


CHANGES_BY_SPARK = [
    "CREATE TABLE {t} (id INT NOT NULL, a STRING, s STRUCT<x: INT>, v VARCHAR(5)) USING delta",
    "INSERT INTO {t} VALUES (1, 'x', named_struct('x', 1), 'v')",
    "ALTER TABLE {t} ADD COLUMNS (b STRING AFTER id, s.y STRING FIRST)",
    "ALTER TABLE {t} ALTER COLUMN id DROP NOT NULL",
    "ALTER TABLE {t} ALTER COLUMN a COMMENT 'text'",
    "ALTER TABLE {t} ALTER COLUMN v TYPE VARCHAR(9)",
    "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (id > 0)",
    "ALTER TABLE {t} DROP CONSTRAINT positive",
    "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableTypeWidening' = 'true')",
    "ALTER TABLE {t} RENAME COLUMN a TO renamed",
    "ALTER TABLE {t} DROP COLUMN b",
    "ALTER TABLE {t} ADD COLUMNS (b STRING)",
    "ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT",
    "INSERT INTO {t} VALUES (2, 'y', named_struct('y', 'z', 'x', 2), 'w', 'b')",
    "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
    "INSERT OVERWRITE {t} VALUES (3, 'y', named_struct('y', 'z', 'x', 2), 'w', 'b')",
    "CREATE OR REPLACE TABLE {t} (id STRING, p DATE) USING delta PARTITIONED BY (p)",
    "INSERT INTO {t} VALUES ('3', DATE '2024-01-01')",
    "CREATE OR REPLACE TABLE {t} USING delta PARTITIONED BY (id) AS SELECT 7 AS id, 'x' AS a",
]


@pytest.mark.elsewhere  # the reference logs have such changes, which tests/contract/test_reference_logs.py commits
def test_every_change_that_delta_spark_makes_is_taken(sqlite_lake: str, tmp_path: Path, delta_spark: Reader) -> None:
    folder = tmp_path / "spark"
    name = f"t{uuid.uuid4().hex}"
    delta_spark.sql(CHANGES_BY_SPARK[0].format(t=name) + f" LOCATION '{folder}'")
    for statement in CHANGES_BY_SPARK[1:]:
        delta_spark.sql(statement.format(t=name))
    log = read_log(folder)
    first = {0: log.pop(0)}
    with Catalog(sqlite_lake) as catalog:
        import_files(catalog, first)
        assert list(committed_verbatim(catalog, "t", log)) == sorted(log)
        assert catalog.table("t").info().head == max(log) >= len(CHANGES_BY_SPARK) - 1
