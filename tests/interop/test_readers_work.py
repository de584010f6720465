"""The independent readers that other tests rely on agree on tables that other writers made."""

import shutil
from datetime import date
from decimal import Decimal
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from deltamirror.config import StorageSettings
from deltamirror.delta.names import LOG_DIRECTORY, listing_prefix, parse
from tests.support.faults.s3_proxy import S3Proxy
from tests.support.lakes.copies import Place, copy_table
from tests.support.logs.folder import read_log, write_log
from tests.support.readers.reader import Reader, RequestFailed, assert_same_table
from tests.support.suite.worker import Worker, WorkerDied

DATA = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "day": pa.array([date(2024, 1, 1), date(2024, 1, 2), None], pa.date32()),
        "city": ["São Paulo", "a/b %20", "x=y"],
        "price": pa.array([Decimal("1.50"), None, Decimal("0.00")], pa.decimal128(10, 2)),
    }
)


@pytest.fixture
def delta_rs_table(tmp_path: Path) -> Path:
    deltalake.write_deltalake(tmp_path / "t", DATA, partition_by=["day", "city"], description="trips")
    deltalake.write_deltalake(tmp_path / "t", DATA, mode="append")
    return tmp_path / "t"


@pytest.fixture(scope="module")
def spark_table(tmp_path_factory: pytest.TempPathFactory, delta_spark: Reader) -> Path:
    folder = tmp_path_factory.mktemp("spark") / "t"
    table = f"delta.`{folder}`"
    delta_spark.sql(
        f"CREATE TABLE {table} (id LONG, day DATE, city STRING, at TIMESTAMP, tags ARRAY<STRING>) USING delta"
        " PARTITIONED BY (day, city) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    delta_spark.sql(
        f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ * FROM VALUES"
        " (1, DATE'2024-01-01', 'São Paulo', TIMESTAMP'2024-01-01 10:00:00.123456', array('x', NULL)),"
        " (2, DATE'2024-01-01', 'São Paulo', NULL, NULL), (3, NULL, 'a/b %20', NULL, array())"
    )
    delta_spark.sql(f"DELETE FROM {table} WHERE id = 2")
    return folder


@pytest.mark.spark
@pytest.mark.parametrize("version", [None, pytest.param(0, marks=pytest.mark.elsewhere)])
def test_all_readers_agree_on_a_table_of_delta_rs(
    delta_rs_table: Path, all_readers: tuple[Reader, ...], version: int | None
) -> None:
    seen = [reader.snapshot(delta_rs_table, version, rows=True) for reader in all_readers]
    assert_same_table(seen)
    assert {table.row_count for table in seen} == {3 if version == 0 else 6}


@pytest.mark.elsewhere  # test_every_reader has all of them on both, and vectors that Delta Spark wrote
@pytest.mark.spark
def test_all_readers_agree_on_a_table_of_delta_spark_on_disk_and_on_s3(
    spark_table: Path, all_readers: tuple[Reader, ...], s3_bucket: str, s3_settings: StorageSettings
) -> None:
    place = copy_table(Place(str(spark_table)), Place(f"s3://{s3_bucket}/lake/t", s3_settings))
    before = [reader.snapshot(spark_table, 1, rows=True) for reader in all_readers]
    assert_same_table(before)
    assert {table.row_count for table in before} == {3}
    on_disk = [reader.snapshot(spark_table, rows=True) for reader in all_readers]
    on_s3 = [reader.snapshot(place.location, rows=True, store=s3_settings) for reader in all_readers]
    assert_same_table([*on_disk, *on_s3])
    assert on_s3 == on_disk
    assert {table.row_count for table in on_disk} == {2}


@pytest.mark.elsewhere
@pytest.mark.spark
def test_delta_spark_shows_the_deletion_vector_of_a_file(spark_table: Path, delta_spark: Reader) -> None:
    files = delta_spark.snapshot(spark_table).files
    assert files is not None
    vectors = [file.deletion_vector for file in files]
    assert len([vector for vector in vectors if vector]) == 1


@pytest.mark.elsewhere  # test_cleaned_logs and others have logs without data
def test_a_reader_needs_no_data_files_to_list_a_log(delta_rs_table: Path, tmp_path: Path, reader: Reader) -> None:
    write_log(tmp_path / "copy", read_log(delta_rs_table))
    assert reader.snapshot(tmp_path / "copy") == reader.snapshot(delta_rs_table)


@pytest.mark.elsewhere  # test_every_reader looks at what each asks for by the way of the proxy
def test_a_reader_goes_where_it_is_sent_even_to_a_bucket_that_it_knows(
    reader: Reader,
    delta_rs_table: Path,
    s3_proxy: S3Proxy,
    s3_bucket: str,
    s3_settings: StorageSettings,
) -> None:
    location = f"s3://{s3_bucket}/t"
    copy_table(Place(str(delta_rs_table)), Place(location, s3_settings))
    direct = reader.snapshot(location, rows=True, store=s3_settings)
    assert s3_proxy.log == []
    assert reader.snapshot(location, rows=True, store=s3_proxy.settings(s3_settings)) == direct
    read = {access.key.rpartition("/")[2] for access in s3_proxy.log if access.method == "GET"}
    assert {f"{version:020d}.json" for version in (0, 1)} <= read


def test_a_reader_says_that_there_is_no_table(tmp_path: Path, reader: Reader) -> None:
    with pytest.raises(RequestFailed, match=f"{tmp_path}|No commit files found in _delta_log"):
        reader.snapshot(tmp_path / "nothing")


@pytest.mark.elsewhere  # tests that read a table twice would fail
def test_a_reader_sees_every_later_commit(reader: Reader, delta_rs_table: Path) -> None:
    before = reader.snapshot(delta_rs_table, rows=True)
    deltalake.write_deltalake(delta_rs_table, DATA.slice(0, 1), mode="append")
    assert reader.snapshot(delta_rs_table, rows=True).row_count == (before.row_count or 0) + 1


def test_a_reader_that_does_not_start_fails_its_tests(tmp_path: Path) -> None:
    with pytest.raises(WorkerDied, match="No module named"):
        Worker("tests.support.no_such_reader", tmp_path)


UNIQUE = "3a0d65cd-4056-49b8-937b-95f9e3ee90e5"
NAMES = (
    f"{5:020}.json",
    "5.json",
    "2.json",
    f"{5:026}.json",
    "0000.json",
    "9" * 20 + ".json",
    f"{5:020}.json.bak",
    f"{5:020}.{UNIQUE}.json",
    f"{4:020}.checkpoint.parquet",
    "4.checkpoint.parquet",
    f"{4:020}.checkpoint.1.1.parquet",
    f"{4:020}.checkpoint.{UNIQUE}.parquet",
    f"{4:020}.checkpoint.parquet.tmp",
    f"_sidecars/{4:020}.checkpoint.0000000001.0000000001.{UNIQUE}.parquet",
    f"{2:020}.{3:020}.compacted.json",
    "2.3.compacted.json",
    f"{2:020}-{3:020}-compacted-json",
)
LISTED_ONLY = {"2.3.compacted.json"}
"""A compaction that does not lie among the commits of its versions is listed, and takes the place of none."""


@pytest.mark.elsewhere  # another release may change it; tests/unit/delta/test_names.py has the same names
@pytest.mark.spark
@pytest.mark.requirement("R39")
def test_delta_spark_takes_those_names_for_files_of_a_log_that_we_say_it_does(
    tmp_path: Path, delta_spark: Reader
) -> None:
    """Checksums apart: Delta Spark passes over what it cannot read of one, whatever its name."""
    plain, other = tmp_path / "plain", tmp_path / "other"
    for number in range(5):
        deltalake.write_deltalake(plain, pa.table({"id": [number]}), mode="append")
    shutil.copytree(plain, other)
    removed = min(path.name for path in plain.glob("*.parquet"))
    commit = b'{"remove":{"path":"%s","deletionTimestamp":1,"dataChange":true}}\n' % removed.encode()
    (other / LOG_DIRECTORY / f"{4:020}.json").write_bytes(commit)
    deltalake.DeltaTable(other).create_checkpoint()
    checkpoint = (other / LOG_DIRECTORY / f"{4:020}.checkpoint.parquet").read_bytes()
    ours = {name for name in NAMES if parse(name) is not None and name >= listing_prefix(0)} - LISTED_ONLY
    folders = {name: tmp_path / (str(number) if name in ours else "passed over") for number, name in enumerate(NAMES)}
    for name, folder in folders.items():
        path = shutil.copytree(plain, folder, dirs_exist_ok=True) / LOG_DIRECTORY / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(checkpoint if "checkpoint" in name else commit)
    asked = [plain, folders[min(set(NAMES) - ours)], *(folders[name] for name in sorted(ours))]
    [expected, passed_over, *found] = delta_spark.rows_of([(str(folder), None) for folder in asked])
    assert len(expected["rows"]) == 5
    assert passed_over == expected  # with all the names in one log that are none to us
    assert [name for name, answer in zip(sorted(ours), found, strict=True) if answer == expected] == []
