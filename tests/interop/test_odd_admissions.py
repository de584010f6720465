"""Odd paths and odd spellings of partition values that are admitted: every reader finds the same rows."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamirror import Add, Catalog
from deltamirror.delta.paths import decode_path
from tests.support.mirrors.local import mirror_of
from tests.support.readers.reader import Reader

pytestmark = [pytest.mark.requirement("R5"), pytest.mark.spark]

PATHS = [
    "a%20b.parquet",
    "d/ts=10%3A00/a.parquet",
    "ts=10%3A00/b.parquet",
    "p=a%20b%252Fc%2525é/c.parquet",
    "a;b@c&d'(e)*f!g$h😀+,~.parquet",
    "a%3Fb%23c%5Bd%5D%7Be%7D%7Cf%5Eg%60h%22i%3Cj%3E%5C.parquet",
    ".hidden/_under/noext",
    "a..b/....parquet",
    "%25.parquet",
    "a%C2%A0%E2%80%A8b.parquet",
    "x=" + "a" * 250 + "/y.parquet",
]
COLUMNS = {
    "i": ("int", ["07", "+7", "-0"]),
    "b": ("boolean", ["TRUE", "False"]),
    "d": ("date", ["2024-1-1", "0001-01-01", "9999-12-31"]),
    "m": ("decimal(5,2)", ["1.5", "1", "-5", "15e-1"]),
    "f": ("double", ["1", "1e3", "inf", "-Infinity", ".5"]),
    "t": ("timestamp", ["2024-01-01T00:00:00", "2024-01-01 02:00:00+02:00", "2024-01-01", "2024-01-01 00:00:00.1"]),
    "n": ("timestamp_ntz", ["2024-01-01T00:00:00.5", "2024-01-01", "9999-12-31 23:59:59.999999"]),
    "s": ("string", ["", " ", "a\u0000b", "%20", "__HIVE_DEFAULT_PARTITION__", "😀\n"]),
    "x": ("binary", ["\u0001\u0002", "é"]),
}


def written(folder: Path, path: str, number: int, values: dict[str, str | None]) -> Add:
    """A file with one row."""
    place = folder / decode_path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array([number], pa.int64())}), place)
    size = place.stat().st_size
    return Add(path=path, partition_values=values, size=size, modification_time=1_714_521_600_000, data_change=True)


def test_odd_paths_and_values_are_read_alike(
    lake: Catalog, tmp_path: Path, delta_rs: Reader, duckdb_delta: Reader, delta_spark: Reader
) -> None:
    folder = tmp_path / "lake"
    schema = ", ".join(["id long", *(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())])
    table = lake.create_table("t", location=str(folder), schema=schema, partition_by=list(COLUMNS))
    none: dict[str, str | None] = dict.fromkeys(COLUMNS)
    odd = [{**none, name: value} for name, (_, values) in COLUMNS.items() for value in values]
    files = [written(folder, path, number, none) for number, path in enumerate(PATHS)]
    files += [written(folder, f"v{number}.parquet", 100 + number, values) for number, values in enumerate(odd)]
    table.append(files, verify_files=True)
    with mirror_of(lake) as engine:
        engine.mirror("t")
    seen = [reader.snapshot(folder, rows=True) for reader in (delta_rs, duckdb_delta, delta_spark)]
    # Readers show partition values in words of their own; in rows they are values.
    assert {table.reader: table.row_count for table in seen} == {table.reader: len(files) for table in seen}
    assert len({table.row_digest for table in seen}) == 1
