"""Rows that we write from Arrow data beside the same rows written by Delta Lake on Spark, and the other way round.

Statistics are the same text for the same rows. What we wrote is read by Delta Spark, delta-rs and DuckDB; what Delta
Spark wrote is read by us: times of 96 bits, deletion vectors, mapped and widened columns.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
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
from tests.support.rows import fingerprint, row_texts

pytestmark = [pytest.mark.spark, pytest.mark.slow, *(pytest.mark.requirement(row) for row in ("R89", "R90"))]

MANY = ", ".join(f"c{number} int" for number in range(40))
TYPES = (
    "b byte, s short, i int, l long, f float, d double, z double, q double, c decimal(20,4), k decimal(38,20), "
    "o boolean, t string, u string, w string, v string, y binary, e date, x timestamp, n timestamp_ntz, a array<int>, "
    "m map<string,int>, r struct<p: long, q: struct<g: string, h: array<int>>>, nothing string"
)
EMOJI = "\U0001f600"


def row(number: int) -> dict[str, Any]:
    late = timedelta(microseconds=123456 + number)
    return {
        "b": number - 2,
        "s": -number,
        "i": 7 * number,
        "l": 2**53 + number,
        "f": [1.1, 3.4028235e38, -0.0, 1e-5][number],
        "d": [123456789.125, -1e-300, 0.1, 5e-324][number],
        "z": [0.0, 2.5, 0.0, -2.5][number],
        "q": [math.nan, 1.0, -math.inf, 2.5][number],
        "c": Decimal("12.3400") - number,
        "k": Decimal("1E-20") * number,
        "o": bool(number % 2),
        "t": "a" * 40 + str(number),
        "u": ["é" * 33, "ü" * 31 + EMOJI + "tail", "\U0010ffff" * 20, ""][number],
        "w": ['quote" \\ \n', "\x7f" * 35, "ctrl\x01", "z" * 32][number],
        "v": ["y" * 32 + EMOJI, "y" * 31 + EMOJI + "b", "y", "x"][number],
        "y": bytes([number]),
        "e": date(1960, 1, 1) + timedelta(days=number),
        "x": datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC) + late,
        "n": datetime.fromisoformat("2024-07-01T00:00:00") + late,
        "a": [number, None],
        "m": [("k", number)],
        "r": {"p": number, "q": None if number % 2 else {"g": f"g{number}", "h": [1]}},
        "nothing": None,
    }


def typed() -> list[dict[str, Any]]:
    nulls = dict.fromkeys(row(0))
    return [nulls, *(row(number) for number in range(4)), {**row(1), "r": None}]


def many() -> list[dict[str, Any]]:
    return [{f"c{number}": each * number for number in range(40)} for each in (1, -2)]


def days() -> list[dict[str, Any]]:
    odd = ["a b/c=d%", "ünï:#?", "", None, "x'y\"{}[]^\\", "plain"]
    return [{"id": n, "p": odd[n % 6], "d": date(2024, 1, 1 + n % 2), "t": "t" * n} for n in range(24)]


CASES: dict[str, tuple[str, list[str], dict[str, str], list[dict[str, Any]]]] = {
    "types": (TYPES, [], {}, typed()),
    "vectors": (TYPES, [], {"delta.enableDeletionVectors": "true"}, typed()),
    "chosen": (TYPES, [], {"delta.dataSkippingStatsColumns": "r.q, l, u"}, typed()),
    "few": (TYPES, [], {"delta.dataSkippingNumIndexedCols": "3"}, typed()),
    "many": (MANY, [], {}, many()),
    "partitions": ("id long, p string, d date, t string", ["p", "d"], {}, days()),
}


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


def imported(folder: Path, catalog: Catalog, name: str) -> Table:
    with open_importer(catalog, local_settings(), runner="local") as importer:
        importer.run(ImportOrder(location=str(folder), name=name))
    return catalog.table(name)


def statistics(table: Table) -> list[tuple[tuple[tuple[str, str | None], ...], str]]:
    names = {each.physical_name: each.name for each in table.snapshot().schema.fields}
    found = []
    for add in table.snapshot().adds():
        values = {names[column]: value for column, value in add.partition_values.items()}
        found.append((tuple(sorted(values.items())), str(add.stats)))
    return sorted(found, key=str)


def folders(table: Table) -> set[str]:
    return {add.path.rpartition("/")[0] for add in table.snapshot().adds()}


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
    asked = [(str(folder), None) for pair in pairs.values() for folder in pair.folders]
    answers = delta_spark.rows_of(asked)
    for case, ours, theirs in zip(pairs, answers[::2], answers[1::2], strict=True):
        assert len(ours["rows"]) == len(CASES[case][-1]), case
        assert ours == theirs, case


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
    answers = delta_spark.rows_of(
        [at(tmp_path / name, version) for version in (1, 2, 3) for name in ("ours", "theirs")]
    )
    assert [len(answer["rows"]) for answer in answers[::2]] == [3, 3, 1]
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
    delta_spark.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ {given} FROM range(3000)")
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
