"""Rows that we write from Arrow data beside the same rows written by Delta Lake on Spark, and the other way round.

Statistics are the same text for the same rows. What we wrote is read by Delta Spark, delta-rs and DuckDB; what Delta
Spark wrote is read by us: times of 96 bits, deletion vectors, mapped and widened columns.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamirror import Catalog, Table
from deltamirror.delta.lines import decode
from deltamirror.ops.imports.importing import ImportOrder
from deltamirror.wiring import open_importer
from tests.support.mirrors import local_settings, mirror_of
from tests.support.readers import Reader
from tests.support.row_cases import CASES, folders, statistics
from tests.support.rows import fingerprint

pytestmark = [pytest.mark.spark, pytest.mark.slow, *(pytest.mark.requirement(row) for row in ("R89", "R90"))]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog(f"sqlite:///{tmp_path / 'lake.db'}") as catalog:
        catalog.init()
        yield catalog


def spark_table(spark: Reader, folder: Path, schema: str, partitions: list[str], properties: dict[str, str]) -> str:
    name = f"delta.`{folder}`"
    by = f" PARTITIONED BY ({', '.join(partitions)})" if partitions else ""
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    spark.sql(f"CREATE TABLE {name} ({schema}) USING delta{by}" + (f" TBLPROPERTIES ({pairs})" if pairs else ""))
    return name


@contextmanager
def imported(folder: Path, catalog: Catalog, name: str) -> Iterator[Table]:
    with open_importer(catalog, local_settings(), runner="local") as importer:
        importer.run(ImportOrder(location=str(folder), name=name))
    yield catalog.table(name)


@pytest.mark.parametrize("case", CASES)
def test_statistics_and_folders_are_those_of_delta_spark(
    catalog: Catalog, tmp_path: Path, delta_spark: Reader, delta_rs: Reader, duckdb_delta: Reader, case: str
) -> None:
    schema, partitions, properties, rows = CASES[case]
    ours = catalog.create_table(
        "ours", location=tmp_path / "ours", schema=schema, partition_by=partitions, properties=properties
    )
    data = pa.Table.from_pylist(rows, ours.to_arrow().schema)
    ours.append(data)
    pq.write_table(data, tmp_path / "given.parquet", use_deprecated_int96_timestamps=False)
    theirs = spark_table(delta_spark, tmp_path / "theirs", schema, partitions, properties)
    delta_spark.sql(f"INSERT INTO {theirs} SELECT /*+ COALESCE(1) */ * FROM parquet.`{tmp_path / 'given.parquet'}`")
    with imported(tmp_path / "theirs", catalog, "theirs") as table:
        assert statistics(ours) == statistics(table)
        assert folders(ours) == folders(table)
        seen = fingerprint(ours.to_arrow())
        assert fingerprint(table.to_arrow()) == seen
    with mirror_of(catalog) as engine:
        engine.run(once=True)
    for reader in (delta_spark, delta_rs, duckdb_delta):
        found = reader.snapshot(tmp_path / "ours", rows=True)
        assert found.row_count == len(rows), reader.name
    assert (
        delta_spark.snapshot(tmp_path / "ours", rows=True).row_digest
        == delta_spark.snapshot(tmp_path / "theirs", rows=True).row_digest
    )


def test_overwrites_leave_the_rows_and_the_history_that_delta_spark_leaves(
    catalog: Catalog, tmp_path: Path, delta_spark: Reader
) -> None:
    schema, partitions = "id long, p string", ["p"]
    ours = catalog.create_table("ours", location=tmp_path / "ours", schema=schema, partition_by=partitions)
    theirs = spark_table(delta_spark, tmp_path / "theirs", schema, partitions, {})

    def rows(*pairs: tuple[int, str]) -> pa.Table:
        return pa.table({"id": [pair[0] for pair in pairs], "p": [pair[1] for pair in pairs]})

    def values(table: pa.Table) -> str:
        return ", ".join(f"({each['id']}, '{each['p']}')" for each in table.to_pylist())

    first, second, third = rows((1, "a"), (2, "b"), (3, "c")), rows((20, "b")), rows((4, "a"))
    ours.append(first)
    delta_spark.sql(f"INSERT INTO {theirs} VALUES {values(first)}")
    ours.overwrite(second, replace_where="p = 'b'")
    delta_spark.sql(f"INSERT INTO {theirs} REPLACE WHERE p = 'b' VALUES {values(second)}")
    ours.overwrite(third)
    delta_spark.sql(f"INSERT OVERWRITE {theirs} VALUES {values(third)}")
    with mirror_of(catalog) as engine:
        engine.run(once=True)
    for version in (1, 2, 3):
        mine, other = (delta_spark.snapshot(tmp_path / name, version, rows=True) for name in ("ours", "theirs"))
        assert (mine.row_count, mine.row_digest) == (other.row_count, other.row_digest)
        written = [_commit_info(tmp_path / name, version) for name in ("ours", "theirs")]
        assert written[0].operation == written[1].operation
        mode, other_mode = (each.operation_parameters for each in written)
        assert list(mode) == list(other_mode)
        # SQL words its condition anew; ours is the caller's text, as with Spark's option replaceWhere.
        for name in mode.keys() - {"predicate"}:
            assert bytes(mode[name]) == bytes(other_mode[name])


def _commit_info(folder: Path, version: int) -> Any:
    return decode((folder / "_delta_log" / f"{version:020d}.json").read_bytes().splitlines()[0])


def test_what_delta_spark_wrote_is_read_with_vectors_mapping_widening_and_old_versions(
    catalog: Catalog, tmp_path: Path, delta_spark: Reader
) -> None:
    folder = tmp_path / "theirs"
    name = spark_table(
        delta_spark,
        folder,
        "id int, x timestamp, r struct<g: int, h: string>, p string",
        ["p"],
        {
            "delta.enableDeletionVectors": "true",
            "delta.columnMapping.mode": "name",
            "delta.enableTypeWidening": "true",
        },
    )
    given = "int(id), timestamp_micros(id * 1000001), struct(int(id), 'h'), concat('p', id % 3)"
    delta_spark.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ {given} FROM range(3000)")
    delta_spark.sql(f"DELETE FROM {name} WHERE id % 7 = 0")
    delta_spark.sql(f"ALTER TABLE {name} ALTER COLUMN id TYPE long")
    delta_spark.sql(f"ALTER TABLE {name} RENAME COLUMN r TO renamed")
    delta_spark.sql(f"INSERT INTO {name} VALUES ({2**40}, NULL, NULL, NULL)")
    with imported(folder, catalog, "theirs") as table:
        for version in (1, 2, table.info().head):
            wanted = delta_spark.snapshot(folder, version, rows=True)
            found = fingerprint(table.to_arrow(version=version))
            assert (found["count"], found["digest"]) == (wanted.row_count, wanted.row_digest)
        kept = table.to_arrow("id", filter="id BETWEEN 10 AND 15 AND renamed.g <> 12 AND p = 'p1'")
        assert sorted(kept.column("id").to_pylist()) == [10, 13]
        table.append(pa.table({"id": [5], "p": ["p1"]}))
        assert table.to_arrow(filter="id = 5 AND p = 'p1'").num_rows == 1
