"""Rows of DataFrames, written and read over Spark Connect, on a cluster, and by executors with keys of their own."""

from pathlib import Path

import pytest

from deltamirror import Catalog, Delete, Insert, Table
from deltamirror.config import Settings, StorageSettings
from deltamirror.errors import InvalidInput
from tests.support.rows.frame_orders import ORDERS, assert_format_works, committed, data_files, frame_rows, ids, some
from tests.support.spark.commands import Edits, FrameOf, FrameWrite, LargeMerges
from tests.support.spark.runners import SparkRig

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.xdist_group("spark"),
    *(pytest.mark.requirement(row) for row in ("R31", "R89")),
]


@pytest.fixture
def url(sqlite_lake: str) -> str:
    return sqlite_lake


@pytest.fixture
def orders(lake: Catalog, tmp_path: Path) -> Table:
    return lake.create_table("orders", location=tmp_path / "orders", schema=ORDERS, partition_by=["day"])


def test_a_table_that_wants_optimised_writes_gets_a_file_for_each_partition(
    orders: Table, url: str, spark_connect: SparkRig
) -> None:
    orders.alter(properties={"delta.autoOptimize.optimizeWrite": True})
    assert spark_connect.run_command(FrameWrite(catalog=url, frames={"orders": some(0, 40, tasks=4)})) == {"orders": 2}
    assert len(orders.snapshot().adds()) == 2
    assert ids(orders) == list(range(40))


def test_a_task_that_is_tried_again_writes_its_rows_once(
    orders: Table, url: str, tmp_path: Path, spark_connect: SparkRig
) -> None:
    write = FrameWrite(catalog=url, frames={"orders": some(0, 20, tasks=2)}, killed_attempts=1)
    assert spark_connect.run_command(write) == {"orders": 1}
    assert ids(orders) == list(range(20))
    assert committed(orders) <= data_files(tmp_path / "orders")


@pytest.mark.elsewhere  # rows and what the format writes are in the default suite on Spark Connect
def test_the_format_is_read_and_written_on_a_cluster(orders: Table, url: str, spark_standalone: SparkRig) -> None:
    assert_format_works(spark_standalone.run_command, orders, url)


def test_frames_are_written_over_spark_connect(
    orders: Table, url: str, tmp_path: Path, spark_connect: SparkRig
) -> None:
    assert spark_connect.run_command(FrameWrite(catalog=url, frames={"orders": some(0, 20, tasks=2)})) == {"orders": 1}
    assert ids(orders) == list(range(20))
    wrong = some(0, 4, tasks=2).replace("SELECT id,", "SELECT nullif(id, 3) AS id,")
    found = spark_connect.run_command(FrameWrite(catalog=url, frames={"orders": wrong}))
    assert isinstance(found, InvalidInput)
    assert "'id' is NOT NULL" in found.message
    assert data_files(tmp_path / "orders") == committed(orders)
    replaced = FrameWrite(catalog=url, frames={"orders": some(30, 4, tasks=2)}, overwrites={"orders": {}})
    assert spark_connect.run_command(replaced) == {"orders": 2}
    assert ids(orders) == list(range(30, 34))


@pytest.mark.elsewhere  # on a classic session, such a merge is in the default suite
def test_a_large_source_is_joined_over_spark_connect(orders: Table, url: str, spark_connect: SparkRig) -> None:
    orders.append(frame_rows(0, 20))
    given = {"source": some(10, 20, tasks=2), "on": ["id"], "matched": Delete(), "not_matched": Insert()}
    assert spark_connect.run_command(LargeMerges(catalog=url, merges={"orders": given})) == {"orders": 2}
    assert ids(orders) == [*range(10), *range(20, 30)]


def test_the_format_is_written_over_spark_connect(orders: Table, url: str, spark_connect: SparkRig) -> None:
    saved = FrameWrite(catalog=url, frames={"orders": some(0, 20, tasks=2)}, is_saved=True)
    assert spark_connect.run_command(saved) == {"orders": 1}
    assert ids(orders) == list(range(20))


@pytest.mark.elsewhere  # it is written above; what it reads, tests/interop/test_spark_rows.py has in another session
def test_the_format_is_read_and_written_over_spark_connect(orders: Table, url: str, spark_connect: SparkRig) -> None:
    assert_format_works(spark_connect.run_command, orders, url)


def test_tables_are_read_by_sparks_own_reader_and_edited_over_spark_connect(
    orders: Table, url: str, spark_connect: SparkRig
) -> None:
    orders.append(frame_rows(0, 20))
    found, by_tasks = spark_connect.run_command(FrameOf(catalog=url, table="orders", where="id >= 5"))
    assert not by_tasks
    assert found.sort_by("id") == orders.to_arrow(filter="id >= 5").sort_by("id")
    edits = Edits(
        catalog=url,
        table="orders",
        update=({"amount": "amount + 100"}, "id < 3"),
        delete="id >= 18",
        source=some(17, 8, tasks=2),
    )
    assert spark_connect.run_command(edits) == 4
    assert [each.operation for each in orders.history(3)] == ["MERGE", "DELETE", "UPDATE"]
    assert ids(orders) == list(range(25))
    assert sorted(orders.to_arrow(["amount"], "id < 3").column(0).to_pylist()) == [100.0, 100.5, 101.0]


@pytest.mark.elsewhere  # units are published by these keys in the default suite, and no order of a job holds a secret
def test_executors_write_to_s3_by_the_keys_of_their_environment(
    url: str, s3_bucket: str, s3_settings: StorageSettings, spark_local: SparkRig
) -> None:
    with Catalog(url, settings=Settings(storage=s3_settings)) as lake:
        lake.init()
        table = lake.create_table("t", location=f"s3://{s3_bucket}/t", schema=ORDERS, partition_by=["day"])
        storage = s3_settings.without_credentials()
        write = FrameWrite(catalog=url, frames={"t": some(0, 20, tasks=2)}, storage=storage)
        assert spark_local.run_command(write) == {"t": 1}
        assert ids(table) == list(range(20))
    assert s3_settings.secret_access_key is not None
    assert s3_settings.secret_access_key.reveal() not in spark_local.event_log()
