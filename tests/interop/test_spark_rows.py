"""Rows of DataFrames, written and read by executors on the Spark of Delta Lake. Other executors are in
``tests/contract/runner/test_spark_frames.py``.

The files have the statistics and the folders that the same rows get as Arrow data, which are those of Delta Lake on
Spark (``test_rows.py``), and Delta Spark and delta-rs read them.
"""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace as replace_settings

from deltamirror import Catalog, MirrorEngine, Table
from deltamirror.config import Settings, StorageSettings
from deltamirror.errors import InvalidInput, Transient
from tests.support.lakes.vacuums import first_row_deleted
from tests.support.mirrors.local import local_settings, mirror_of
from tests.support.readers.reader import Reader
from tests.support.readers.rows import fingerprint, row_texts
from tests.support.rows.cases import CASES, folders, statistics
from tests.support.rows.frame_orders import ORDERS, assert_format_works, data_files, frame_rows, ids, some
from tests.support.spark.commands import BatchRows, FrameLoad, FrameOf, FrameWrite, StreamCopy, StreamRun

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.xdist_group("spark"),
    *(pytest.mark.requirement(row) for row in ("R31", "R89")),
]

MAPPED = {"delta.columnMapping.mode": "name"}
FRAMES = {
    **{case: CASES[case] for case in ("types", "chosen", "partitions")},
    "mapped": (CASES["types"][0], ["l"], MAPPED, CASES["types"][3]),
}
"""Some of the cases of ``test_rows.py``, and one more."""
WHERE = (
    "x > TIMESTAMP'1969-12-31 23:59:59.123457Z' AND n <= TIMESTAMP_NTZ'2024-07-01 00:00:00.123459' AND o = false"
    " AND l >= 9007199254740994 AND nothing IS NULL AND e < DATE'1960-01-04' AND c > 9.34 AND k >= 0"
    " AND f <> float(1.1) AND b IN (-1, 0) AND NOT (z > 0.1) AND q < 0 AND r.q.g = 'g2' AND u > '' AND y = X'02'"
)
"""Conditions on columns of all types, which one row meets, in a file of its own. What Spark asks for is planned by
Python processes that it starts anew each time; ``tests/contract/test_spark_source.py`` has each type by itself."""


@pytest.fixture
def url(sqlite_lake: str) -> str:
    return sqlite_lake


@pytest.fixture
def orders(lake: Catalog, tmp_path: Path) -> Table:
    return lake.create_table("orders", location=tmp_path / "orders", schema=ORDERS, partition_by=["day"])


@pytest.mark.parametrize(
    ("settings", "rows"),
    [
        ({}, 1024),
        ({"spark.sql.execution.arrow.maxBytesPerBatch": "65536000"}, 1000),
        ({"spark.sql.execution.arrow.maxRecordsPerBatch": "500"}, 500),
    ],
    ids=["ours", "own bytes", "own rows"],
)
def test_batches_end_at_a_number_of_rows_unless_a_session_has_limits_of_its_own(
    delta_spark: Reader, settings: dict[str, str], rows: int
) -> None:
    statement = "SELECT id, repeat('x', 65536) AS t FROM range(0, 1500, 1, 1)"
    assert delta_spark.run(BatchRows(statement, settings)) == rows


def test_files_of_frames_are_those_of_arrow_data_and_read_by_delta_spark_and_delta_rs(
    lake: Catalog, url: str, tmp_path: Path, delta_spark: Reader, delta_rs: Reader
) -> None:
    made: dict[str, tuple[Table, Table]] = {}
    for case, (schema, partitions, properties, rows) in FRAMES.items():
        arrow, frames = (
            lake.create_table(
                f"{case}-{how}",
                location=tmp_path / case / how,
                schema=schema,
                partition_by=partitions,
                properties=properties,
            )
            for how in ("arrow", "frames")
        )
        made[case] = arrow, frames
        data = pa.Table.from_pylist(rows, arrow.to_arrow().schema)
        arrow.append(data)
        pq.write_table(data, tmp_path / f"{case}.parquet")
    # All of them in one transaction: a job for each table, and one commit.
    given = {f"{case}-frames": f"SELECT * FROM parquet.`{tmp_path / case}.parquet`" for case in FRAMES}
    assert delta_spark.run(FrameWrite(catalog=url, frames=given)) == dict.fromkeys(given, 1)
    with mirror_of(lake) as engine:
        engine.run(once=True)
    for case, (arrow, frames) in made.items():
        assert fingerprint(frames.to_arrow()) == fingerprint(arrow.to_arrow()), case
        if case != "mapped":  # whose names and folders are drawn by chance
            assert statistics(frames) == statistics(arrow), case
            assert folders(frames) == folders(arrow), case
        wanted, seen = (delta_rs.snapshot(tmp_path / case / how, rows=True) for how in ("arrow", "frames"))
        assert (seen.row_count, seen.row_digest) == (wanted.row_count, wanted.row_digest), case
    answers = delta_spark.rows_of([(str(tmp_path / case / "frames"), None) for case in made])
    for (case, (arrow, _)), answer in zip(made.items(), answers, strict=True):
        assert answer == {"rows": row_texts(arrow.to_arrow().to_pylist())}, case


def test_every_task_writes_its_files_and_an_overwrite_replaces_what_it_names(
    lake: Catalog, orders: Table, url: str, tmp_path: Path, delta_spark: Reader
) -> None:
    daily = lake.create_table("daily", location=tmp_path / "daily", schema="day date, total double")
    total = "SELECT day, sum(amount) AS total FROM ({}) GROUP BY day"
    frames = {"orders": some(0, 40, tasks=4), "daily": total.format(some(0, 40, tasks=4))}
    write = FrameWrite(catalog=url, frames=frames, overwrites={"daily": {}})
    assert delta_spark.run(write) == {"orders": 1, "daily": 1}
    tasks = {add.path.rpartition("/")[2][: len("part-00000")] for add in orders.snapshot().adds()}
    assert tasks == {f"part-{task:05d}" for task in range(4)}
    assert len(orders.snapshot().adds()) == 8  # a file for each task and partition, as Delta Spark writes them
    assert (ids(orders), daily.to_arrow().num_rows) == (list(range(40)), 2)
    again = {"orders": some(100, 3, tasks=1) + " WHERE id % 2 = 0"}
    delta_spark.run(
        FrameWrite(catalog=url, frames=again, overwrites={"orders": {"replace_where": "day = '2024-05-01'"}})
    )
    assert ids(orders) == [*range(1, 40, 2), 100, 102]
    delta_spark.run(FrameWrite(catalog=url, frames=again, overwrites={"orders": {"dynamic": True}}))
    assert ids(orders) == [*range(1, 40, 2), 100, 102]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (some(0, 4, tasks=2).replace("SELECT id,", "SELECT nullif(id, 3) AS id,"), "'id' is NOT NULL, and 1 of its"),
        (some(0, 4, tasks=2).replace("id / 2", "1 / (id - 3)"), "Spark cannot write the rows of table 'orders'.*ZERO"),
        (some(0, 4, tasks=2).replace("SELECT id,", "SELECT string(id) AS id,"), "'id' is long, the data has string"),
    ],
    ids=["a null", "a division by zero", "another type"],
)
def test_a_frame_that_cannot_be_written_is_one_error_and_commits_nothing(
    orders: Table, url: str, tmp_path: Path, delta_spark: Reader, statement: str, message: str
) -> None:
    found = delta_spark.run(FrameWrite(catalog=url, frames={"orders": statement}))
    assert isinstance(found, InvalidInput)
    with pytest.raises(InvalidInput, match=message):
        raise found
    assert orders.info().head == 0
    if not found.message.startswith("Spark cannot"):  # which tells nothing of tasks that had finished
        assert data_files(tmp_path / "orders") == set()


def test_an_executor_that_ends_is_a_transient_error_and_nothing_is_committed(
    orders: Table, url: str, delta_spark: Reader
) -> None:
    found = delta_spark.run(FrameWrite(catalog=url, frames={"orders": some(0, 4, tasks=2)}, killed_attempts=1))
    assert isinstance(found, Transient)  # a local Spark tries a task once
    assert "nothing was committed" in found.hint
    assert orders.info().head == 0


@pytest.mark.elsewhere  # Spark Connect, which runs the format in a session like this one, has it in the default suite
def test_the_format_is_read_and_written(orders: Table, url: str, delta_spark: Reader) -> None:
    assert_format_works(delta_spark.run, orders, url)


def test_the_format_replaces_and_is_idempotent(orders: Table, url: str, delta_spark: Reader) -> None:
    orders.append(frame_rows(0, 20))
    even = {"orders": some(100, 3, tasks=1) + " WHERE id % 2 = 0"}
    for options in ({"replaceWhere": "day = '2024-05-01'"}, {"partitionOverwriteMode": "dynamic"}):
        delta_spark.run(FrameWrite(catalog=url, frames=even, overwrites={"orders": options}, is_saved=True))
        assert ids(orders) == [*range(1, 20, 2), 100, 102]
    once = FrameWrite(
        catalog=url, frames=even, overwrites={"orders": {"txnAppId": "a", "txnVersion": "1"}}, is_saved=True
    )
    assert [delta_spark.run(once), delta_spark.run(once)] == [{"orders": 4}] * 2
    assert ids(orders) == [100, 102]


def test_rows_of_all_types_are_loaded_as_spark_reads_them_from_the_log(
    lake: Catalog, url: str, tmp_path: Path, delta_spark: Reader
) -> None:
    schema, partitions, properties, rows = FRAMES["mapped"]
    table = lake.create_table(
        "t", location=tmp_path / "t", schema=schema, partition_by=partitions, properties=properties
    )
    table.append(pa.Table.from_pylist(rows, table.to_arrow().schema))
    with mirror_of(lake) as engine:
        engine.run(once=True)
    seen = fingerprint(delta_spark.run(FrameLoad(catalog=url, table="t")))
    wanted = delta_spark.snapshot(tmp_path / "t", rows=True)
    assert (seen["count"], seen["digest"]) == (wanted.row_count, wanted.row_digest)
    found = delta_spark.run(FrameLoad(catalog=url, table="t", where=WHERE))
    assert found.column("l").to_pylist() == [2**53 + 2]
    assert delta_spark.sql(f"SELECT l FROM delta.`{tmp_path / 't'}` WHERE {WHERE}") == [{"l": 2**53 + 2}]


@pytest.mark.parametrize("case", ["types", "mapped"])
def test_rows_of_all_types_are_read_by_sparks_own_reader_unless_fields_are_mapped(
    lake: Catalog, url: str, tmp_path: Path, delta_spark: Reader, case: str
) -> None:
    schema, partitions, properties, rows = FRAMES[case]
    table = lake.create_table(
        "t", location=tmp_path / "t", schema=schema, partition_by=partitions, properties=properties
    )
    table.append(pa.Table.from_pylist(rows, table.to_arrow().schema))
    with mirror_of(lake) as engine:
        engine.run(once=True)
    found, by_tasks = delta_spark.run(FrameOf(catalog=url, table="t"))
    wanted = delta_spark.snapshot(tmp_path / "t", rows=True)
    seen = fingerprint(found)
    assert (seen["count"], seen["digest"], by_tasks) == (wanted.row_count, wanted.row_digest, case == "mapped")


def test_files_are_left_out_and_columns_named_as_the_log_has_them_and_versions_stay(
    lake: Catalog, orders: Table, url: str, tmp_path: Path, delta_spark: Reader
) -> None:
    orders.append(frame_rows(0, 20))
    orders.append(frame_rows(20, 20))
    where = "day = '2024-05-01' AND amount > 4 AND `a.b` <> 'n12'"
    found, by_tasks = delta_spark.run(FrameOf(catalog=url, table="orders", columns=["a.b", "id"], where=where))
    assert found.sort_by("id") == orders.to_arrow(["a.b", "id"], where).sort_by("id")
    assert not by_tasks
    old, _ = delta_spark.run(FrameOf(catalog=url, table="orders", columns=["id"], version=1))
    assert sorted(old.column("id").to_pylist()) == list(range(20))
    empty, _ = delta_spark.run(FrameOf(catalog=url, table="orders", version=0))
    assert (empty.num_rows, empty.column_names) == (0, ["id", "day", "amount", "a.b"])
    told = delta_spark.run(FrameOf(catalog=url, table="orders", where="nope = 1"))
    assert isinstance(told, InvalidInput)
    assert "there is no column 'nope'" in told.message


def test_deletion_vectors_odd_folders_and_widened_columns_are_honoured(
    lake: Catalog, url: str, tmp_path: Path, delta_spark: Reader
) -> None:
    properties = {"delta.enableTypeWidening": True, "delta.enableDeletionVectors": True}
    table = lake.create_table(
        "t", location=tmp_path / "t", schema="id int, p string", partition_by=["p"], properties=properties
    )
    for p in ("plain", "a b/ü", None):
        table.append(pa.table({"id": pa.array([1, 2, 3], pa.int32()), "p": pa.array([p] * 3, pa.string())}))
    table.alter(change_columns={"id": "TYPE bigint"})
    table.append(pa.table({"id": [2**40], "p": ["plain"]}))
    with lake.transaction() as tx:
        tx.stage("t", first_row_deleted(table.snapshot().adds({"p": None})[0], tmp_path / "t", seed=7))
    found, by_tasks = delta_spark.run(FrameOf(catalog=url, table="t"))
    assert by_tasks
    order = [("id", "ascending"), ("p", "ascending")]
    assert found.num_rows == 9
    assert found.sort_by(order).to_pylist() == table.to_arrow().sort_by(order).to_pylist()


def test_spark_reads_files_in_s3_itself_where_it_was_told_how(
    url: str, s3_bucket: str, s3_settings: StorageSettings, delta_spark: Reader
) -> None:
    with Catalog(url, settings=Settings(storage=s3_settings)) as lake:
        lake.init()
        table = lake.create_table("t", location=f"s3://{s3_bucket}/t", schema=ORDERS, partition_by=["day"])
        table.append(frame_rows(0, 20))
        with MirrorEngine(
            settings=replace_settings(local_settings(), storage=s3_settings), database=lake.database
        ) as engine:
            engine.run(once=True)
        delta_spark.snapshot(table.location, store=s3_settings)  # from here on its Hadoop knows the bucket
        found, by_tasks = delta_spark.run(FrameOf(catalog=url, table="t", storage=s3_settings.without_credentials()))
        assert not by_tasks
        assert found.sort_by("id") == table.to_arrow().sort_by("id")


def test_a_stream_that_fails_and_is_restarted_writes_each_batch_once_to_all_tables(
    lake: Catalog, url: str, tmp_path: Path, delta_spark: Reader
) -> None:
    bronze, silver = (
        lake.create_table(name, location=tmp_path / name, schema="id long") for name in ("bronze", "silver")
    )
    (tmp_path / "given").mkdir()
    run = StreamRun(catalog=url, folder=str(tmp_path / "given"), checkpoint=str(tmp_path / "checkpoint"))
    for number in range(4):  # the last one has no row for the second table
        first = 10 * number
        rows = range(first, first + 3) if number < 3 else [31]
        pq.write_table(pa.table({"id": pa.array(rows, pa.int64())}), tmp_path / "given" / f"{number}.parquet")
    assert delta_spark.run(replace(run, fails_at=0, fails="before"))
    assert delta_spark.run(replace(run, fails_at=1, fails="after"))
    assert not delta_spark.run(run)
    assert ids(bronze) == [0, 1, 2, 10, 11, 12, 20, 21, 22, 31]
    assert ids(silver) == [0, 2, 10, 12, 20, 22]
    assert (bronze.info().head, silver.info().head) == (4, 4)


def test_a_table_is_a_stream_and_takes_one_and_a_batch_that_is_done_again_is_written_once(
    lake: Catalog, url: str, tmp_path: Path, delta_spark: Reader
) -> None:
    first, second = (
        lake.create_table(name, location=tmp_path / name, schema="id long") for name in ("first", "second")
    )
    rows = [pa.table({"id": pa.array([number], pa.int64())}) for number in range(2)]
    first.append(rows[0])
    run = StreamCopy(catalog=url, tables=("first", "second"), checkpoint=str(tmp_path / "checkpoint"))
    assert delta_spark.run(run) is None
    assert (ids(second), second.info().head) == ([0], 1)
    ends = list((tmp_path / "checkpoint" / "commits").glob("*0*"))
    assert ends
    for end in ends:  # as if Spark had died before it wrote that down
        end.unlink()
    first.append(rows[1])
    assert delta_spark.run(run) is None
    assert ids(second) == [0, 1]
