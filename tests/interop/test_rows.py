"""Rows that we write from Arrow data beside the same rows written by Delta Lake on Spark, and the other way round.

Statistics are the same text for the same rows. What we wrote is read by Delta Spark, delta-rs and DuckDB; what Delta
Spark wrote is read by us: times of 96 bits, deletion vectors, mapped and widened columns.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamirror import Catalog, Table
from deltamirror.delta.lines import decode
from deltamirror.ops.imports.importing import ImportOrder
from deltamirror.wiring import open_importer
from tests.support.mirrors.local import local_settings, mirror_of
from tests.support.readers.reader import Reader
from tests.support.readers.rows import fingerprint, row_texts
from tests.support.rows.cases import CASES, folders, statistics

pytestmark = [pytest.mark.spark, pytest.mark.slow, *(pytest.mark.requirement(row) for row in ("R89", "R90"))]


@pytest.fixture
def catalog(lake: Catalog) -> Catalog:
    return lake


def spark_table(spark: Reader, folder: Path, schema: str, partitions: list[str], properties: dict[str, str]) -> str:
    name = f"delta.`{folder}`"
    by = f" PARTITIONED BY ({', '.join(partitions)})" if partitions else ""
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    spark.sql(f"CREATE TABLE {name} ({schema}) USING delta{by}" + (f" TBLPROPERTIES ({pairs})" if pairs else ""))
    return name


def imported(folder: Path, catalog: Catalog, name: str) -> Table:
    with open_importer(catalog, local_settings(), runner="local") as importer:
        importer.run(ImportOrder(location=str(folder), name=name))
    return catalog.table(name)


@dataclass(frozen=True)
class Pair:
    """The same rows in a table of ours, mirrored, and in one of Delta Spark, imported."""

    ours: Table
    theirs: Table

    @property
    def folders(self) -> tuple[Path, Path]:
        """Where they lie."""
        ours, theirs = (Path(each.location.removeprefix("file://")) for each in (self.ours, self.theirs))
        return ours, theirs


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory, delta_spark: Reader) -> Iterator[dict[str, Pair]]:
    """Every case, written both ways."""
    lake = tmp_path_factory.mktemp("lake")
    with Catalog(f"sqlite:///{lake / 'lake.db'}") as catalog:
        catalog.init()
        made = {case: written_twice(catalog, lake / case, delta_spark, case) for case in CASES}
        with mirror_of(catalog) as engine:
            engine.run(once=True)
        yield made


def written_twice(catalog: Catalog, folder: Path, delta_spark: Reader, case: str) -> Pair:
    schema, partitions, properties, rows = CASES[case]
    ours = catalog.create_table(
        f"ours_{case}", location=folder / "ours", schema=schema, partition_by=partitions, properties=properties
    )
    data = pa.Table.from_pylist(rows, ours.to_arrow().schema)
    ours.append(data)
    pq.write_table(data, folder / "given.parquet", use_deprecated_int96_timestamps=False)
    name = spark_table(delta_spark, folder / "theirs", schema, partitions, properties)
    delta_spark.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ * FROM parquet.`{folder / 'given.parquet'}`")
    return Pair(ours, imported(folder / "theirs", catalog, f"theirs_{case}"))


@pytest.mark.parametrize("case", CASES)
def test_statistics_and_folders_are_those_of_delta_spark(pairs: dict[str, Pair], case: str) -> None:
    ours, theirs = pairs[case].ours, pairs[case].theirs
    assert statistics(ours) == statistics(theirs)
    assert folders(ours) == folders(theirs)
    assert fingerprint(theirs.to_arrow()) == fingerprint(ours.to_arrow())


def test_what_we_wrote_is_read_as_what_delta_spark_wrote(
    pairs: dict[str, Pair], delta_spark: Reader, delta_rs: Reader, duckdb_delta: Reader
) -> None:
    for reader in (delta_rs, duckdb_delta):
        for case, pair in pairs.items():
            found = reader.snapshot(pair.folders[0], rows=True)
            assert found.row_count == len(CASES[case][-1]), (reader.name, case)
    # What Delta Spark wrote we read as ours: test_statistics_and_folders_are_those_of_delta_spark.
    answers = delta_spark.rows_of([(str(pair.folders[0]), None) for pair in pairs.values()])
    for case, pair, answer in zip(pairs, pairs.values(), answers, strict=True):
        assert answer["rows"] == row_texts(pair.ours.to_arrow().to_pylist()), case
        assert len(answer["rows"]) == len(CASES[case][-1]), case


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
    answers = delta_spark.rows_of([at(tmp_path / name, version) for version in (2, 3) for name in ("ours", "theirs")])
    assert [len(answer["rows"]) for answer in answers[::2]] == [3, 1]
    assert answers[::2] == answers[1::2]
    for version in (1, 2, 3):
        written = [_commit_info(tmp_path / name, version) for name in ("ours", "theirs")]
        assert written[0].operation == written[1].operation
        mode, other_mode = (each.operation_parameters for each in written)
        assert list(mode) == list(other_mode)
        # SQL words its condition anew; ours is the caller's text, as with Spark's option replaceWhere.
        for name in mode.keys() - {"predicate"}:
            assert bytes(mode[name]) == bytes(other_mode[name])


def at(folder: Path, version: int) -> tuple[str, None]:
    """A version, as Delta Spark is asked for the rows of all of it."""
    return f"{folder}@v{version}", None


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
    delta_spark.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ {given} FROM range(300)")
    delta_spark.sql(f"DELETE FROM {name} WHERE id % 7 = 0")
    delta_spark.sql(f"ALTER TABLE {name} ALTER COLUMN id TYPE long")
    delta_spark.sql(f"ALTER TABLE {name} RENAME COLUMN r TO renamed")
    delta_spark.sql(f"INSERT INTO {name} VALUES ({2**40}, NULL, NULL, NULL)")
    table = imported(folder, catalog, "theirs")
    versions = (1, 2, table.info().head)
    for version, wanted in zip(versions, delta_spark.rows_of([at(folder, each) for each in versions]), strict=True):
        assert row_texts(table.to_arrow(version=version).to_pylist()) == wanted["rows"]
    kept = table.to_arrow("id", filter="id BETWEEN 10 AND 15 AND renamed.g <> 12 AND p = 'p1'")
    assert sorted(kept.column("id").to_pylist()) == [10, 13]
    table.append(pa.table({"id": [5], "p": ["p1"]}))
    assert table.to_arrow(filter="id = 5 AND p = 'p1'").num_rows == 1
