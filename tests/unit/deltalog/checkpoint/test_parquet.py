"""The Parquet file of a checkpoint: its layout is the reference writer's, and its values are those of the table."""

import random
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamirror.deltalog.checkpoint import parquet
from deltamirror.errors import Internal, InvalidInput
from deltamirror.publish.checkpoint import encoding, readback
from deltamirror.publish.checkpoint.grouping import row_groups
from tests.support.logs.checkpoint_tables import table_of
from tests.support.reference_logs.golden import reference

MEBIBYTE = 1024 * 1024
STRINGS = pa.map_(pa.string(), pa.string())
ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", STRINGS),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("clusteringProvider", pa.string()),
        ("stats", pa.string()),
    ]
)
TYPED = pa.struct(
    [
        ("byte", pa.int8()),
        ("short", pa.int16()),
        ("small", pa.decimal128(5, 2)),
        ("middle", pa.decimal128(15, 2)),
        ("large", pa.decimal128(38, 10)),
        ("binary", pa.binary()),
        ("double", pa.float64()),
        ("float", pa.float32()),
        ("date", pa.date32()),
        ("time", pa.timestamp("us", "UTC")),
    ]
)


def adds(count: int, *, seed: int = 1) -> pa.Table:
    """Files as a real table has them: names that compress badly, statistics that compress well."""
    chance = random.Random(seed)
    names = sorted(f"day=1/part-{UUID(int=chance.getrandbits(128))}.c000.snappy.parquet" for _ in range(count))
    rows = [
        {
            "path": name,
            "partitionValues": [("day", str(chance.randrange(30)))],
            "size": chance.randrange(10**8),
            "modificationTime": 1_700_000_000_000 + chance.randrange(50),
            "dataChange": False,
            "clusteringProvider": None,
            "stats": f'{{"numRecords":{chance.randrange(10**6)},"minValues":{{"id":{chance.randrange(10**9)}}}}}',
        }
        for name in names
    ]
    return pa.table({"add": pa.array(rows, ADD)})


def typed(*values: dict[str, object] | None) -> pa.Table:
    return pa.table({"add": pa.array([None if value is None else {"parsed": value} for value in values], _parsed())})


def _parsed() -> pa.DataType:
    return pa.struct([("parsed", TYPED)])


def encoded(
    table: pa.Table, *, schema: str = "{}", compression: str = "snappy", row_group_bytes: int = 128 * MEBIBYTE
) -> pa.Buffer:
    groups = row_groups(table.to_batches(), table.schema, row_group_bytes)
    return encoding.encoded(groups, table.schema, schema, compression=compression)


def metadata_of(data: pa.Buffer) -> pq.FileMetaData:
    return parquet.opened(data).metadata


def types_of(data: pa.Buffer) -> dict[str, str]:
    schema = parquet.opened(data).schema
    return {schema.column(n).path: schema.column(n).physical_type for n in range(len(schema))}


@pytest.mark.requirement("R12")
@pytest.mark.parametrize("compression", ["snappy", "zstd"])
def test_every_column_is_compressed_as_configured(compression: str) -> None:
    metadata = metadata_of(encoded(adds(100), compression=compression))
    columns = [metadata.row_group(0).column(n) for n in range(metadata.num_columns)]
    assert {column.compression for column in columns} == {compression.upper()}


@pytest.mark.requirement("R13")
def test_a_row_group_has_at_most_the_configured_bytes_and_is_as_full_as_can_be() -> None:
    table = adds(60_000)
    limit = 2 * MEBIBYTE
    sizes = group_rows(encoded(table, row_group_bytes=limit))
    assert len(sizes) > 2
    start = 0
    for size in sizes[:-1]:
        assert size >= 10_000
        assert table.slice(start, size).nbytes <= limit
        assert table.slice(start, size + 1).nbytes > limit
        start += size
    assert table.slice(start).nbytes <= limit


@pytest.mark.requirement("R13")
def test_the_bytes_that_readers_see_in_a_row_group_are_within_the_limit_too() -> None:
    limit = 3 * MEBIBYTE
    metadata = metadata_of(encoded(adds(60_000), row_group_bytes=limit))
    assert metadata.num_row_groups > 1
    assert all(metadata.row_group(n).total_byte_size <= limit for n in range(metadata.num_row_groups))


@pytest.mark.requirement("R13")
def test_row_groups_never_become_so_small_that_they_cost_more_than_they_save() -> None:
    assert group_rows(encoded(adds(25_000), row_group_bytes=1)) == [10_000, 10_000, 5_000]


@pytest.mark.requirement("R13")
def test_a_small_checkpoint_is_one_row_group() -> None:
    assert group_rows(encoded(adds(3))) == [3]


def group_rows(data: pa.Buffer) -> list[int]:
    metadata = metadata_of(data)
    return [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]


@pytest.mark.requirement("R14")
def test_names_and_statistics_of_files_are_plain_and_what_repeats_is_in_a_dictionary() -> None:
    metadata = metadata_of(encoded(adds(2_000)))
    columns = {c.path_in_schema: c for c in (metadata.row_group(0).column(n) for n in range(metadata.num_columns))}
    dictionaries = {path for path, column in columns.items() if column.has_dictionary_page}
    assert dictionaries == {
        "add.partitionValues.key_value.key",
        "add.partitionValues.key_value.value",
        "add.modificationTime",
        "add.clusteringProvider",
    }


@pytest.mark.requirement("R14")
def test_every_column_has_statistics() -> None:
    metadata = metadata_of(encoded(adds(10)))
    assert all(metadata.row_group(0).column(n).is_stats_set for n in range(metadata.num_columns))


def test_the_file_says_what_spark_wants_to_know_and_nothing_of_arrow() -> None:
    found = metadata_of(encoded(adds(1), schema='{"type":"struct"}'))
    assert found.metadata == {
        b"org.apache.spark.sql.parquet.row.metadata": b'{"type":"struct"}',
        b"org.apache.spark.version": b"4.2.0",
    }
    assert found.format_version == "1.0"


def test_row_groups_that_threads_encoded_are_those_that_arrow_writes_in_one_go() -> None:
    """To the byte, with all of the layout."""
    table = adds(25_000).append_column("typed", _typed_column(25_000))
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, **encoding._layout(table.schema, "zstd")) as writer:
        for start in (0, 10_000, 20_000):
            writer.write_table(table.slice(start, 10_000))
        writer.add_key_value_metadata({parquet.SCHEMA_KEY: b"{}", parquet.VERSION_KEY: parquet.VERSION})
    assert encoded(table, compression="zstd", row_group_bytes=1).equals(sink.getvalue())


def _typed_column(count: int) -> pa.Array:
    """With days that are no dates of Python."""
    far = pa.array([-719_528 - number for number in range(count)], pa.int32()).view(pa.date32())
    times = pa.array(range(count), pa.timestamp("us", "UTC"))
    return pa.StructArray.from_arrays([far, times], ["day", "time"])


def test_a_table_without_rows_is_a_file_without_rows() -> None:
    empty = adds(1).slice(0, 0)
    assert table_of(encoded(empty)).equals(empty)


def test_the_same_table_gives_the_same_bytes() -> None:
    assert encoded(adds(500)).equals(encoded(adds(500)))


def _has_int96(path: Path) -> bool:
    schema = pq.ParquetFile(path).schema
    return "INT96" in {schema.column(n).physical_type for n in range(len(schema))}


LOGS = reference()
# What Arrow reads from INT96 has lost its time zone, and a time without zone is written in another way.
REFERENCE = [
    path
    for log in LOGS.logs_in(LOGS.current)
    for path in sorted(log.rglob("*checkpoint*.parquet"))
    if not _has_int96(path)
]


@pytest.mark.reference
@pytest.mark.parametrize(
    "path",
    REFERENCE,
    ids=lambda path: LOGS.name_of(path.parent if path.parent.name == "_delta_log" else path.parents[1]),
)
def test_a_reference_checkpoint_written_again_has_its_parquet_schema(path: Path) -> None:
    reference = pq.ParquetFile(path)
    again = parquet.opened(encoded(reference.read())).schema
    # The name of the message is the one thing that pyarrow does not let us choose.
    assert _text(again) == _text(reference.schema).replace("group field_id=-1 spark_schema", "group field_id=-1 schema")


def _text(schema: pq.ParquetSchema) -> str:
    return str(schema).partition("\n")[2]


@pytest.mark.reference
def test_there_are_reference_checkpoints() -> None:
    assert len(REFERENCE) >= LOGS.floors.rewritten


def test_typed_statistics_have_the_physical_types_of_the_reference() -> None:
    types = {path.rpartition(".")[2]: kind for path, kind in types_of(encoded(typed(None))).items()}
    assert types == {
        "byte": "INT32",
        "short": "INT32",
        "small": "INT32",
        "middle": "INT64",
        "large": "FIXED_LEN_BYTE_ARRAY",
        "binary": "BYTE_ARRAY",
        "double": "DOUBLE",
        "float": "FLOAT",
        "date": "INT32",
        "time": "INT96",
    }


def test_a_time_without_zone_is_never_taken_for_one_with() -> None:
    """INT96 cannot tell them apart, and Spark reads no time without zone from it."""
    table = pa.table({"with": pa.array([1], pa.timestamp("us", "UTC")), "without": pa.array([1], pa.timestamp("us"))})
    assert types_of(encoded(table)) == {"with": "INT64", "without": "INT64"}
    assert table_of(encoded(table)).equals(table)
    readback.check(encoded(table), table)


VALUES: dict[str, object] = {
    "byte": -128,
    "short": 32_767,
    "small": Decimal("-999.99"),
    "middle": Decimal("1.50"),
    "large": Decimal("-1234567890123456789012345678.0000000001"),
    "binary": b"\x00\xff",
    "double": float("nan"),
    "float": -0.0,
}


@pytest.mark.parametrize("moment", [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)])
def test_what_was_written_is_found_equal_when_it_is_read(moment: datetime) -> None:
    table = typed({**VALUES, "date": moment.date(), "time": moment}, None, {})
    readback.check(encoded(table), table)


def test_maps_and_lists_are_compared_entry_by_entry() -> None:
    maps = pa.array([[("a", None), ("b", "")], [], None], STRINGS)
    table = pa.table({"m": maps, "l": pa.array([["x", None], [], None], pa.list_(pa.string()))})
    readback.check(encoded(table), table)
    other = pa.table({"m": pa.array([[("a", None), ("b", None)], [], None], STRINGS), "l": table.column("l")})
    with pytest.raises(Internal, match="other values in m"):
        readback.check(encoded(table), other)


@pytest.mark.parametrize(
    ("field", "value"),
    [("double", 0.0), ("float", 0.0), ("byte", None), ("binary", b""), ("time", datetime(2024, 1, 1, tzinfo=UTC))],
)
def test_one_other_value_deep_inside_is_noticed(field: str, value: object) -> None:
    one, other = {**VALUES, "time": datetime(2024, 1, 1, 0, 0, 0, 1, UTC)}, {**VALUES}
    other |= {"time": one["time"], field: value}
    with pytest.raises(Internal, match="other values"):
        readback.check(encoded(typed(one)), typed(other))


def test_an_absent_struct_is_not_one_without_values() -> None:
    with pytest.raises(Internal, match="other values"):
        readback.check(encoded(typed(None)), typed({}))


def test_a_difference_in_the_last_row_group_is_noticed() -> None:
    table = adds(10_001)
    other = pa.concat_tables([table.slice(0, 10_000), adds(1, seed=2)])
    with pytest.raises(Internal, match="other values in add"):
        readback.check(encoded(table, row_group_bytes=1), other)


def test_a_missing_row_is_noticed() -> None:
    with pytest.raises(Internal, match="2 rows instead of 3"):
        readback.check(encoded(adds(3).slice(0, 2)), adds(3))


def test_another_schema_is_noticed() -> None:
    table = pa.table({"a": pa.array([1], pa.int64())})
    with pytest.raises(Internal, match="another schema"):
        readback.check(encoded(table), pa.table({"a": pa.array([1], pa.int32())}))


@pytest.mark.parametrize("damage", [lambda b: b"", lambda b: b"PAR1", lambda b: b[:-9], lambda b: b[: len(b) // 2]])
def test_what_is_no_parquet_file_is_said_to_be_none(damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(InvalidInput):
        table_of(damage(bytes(encoded(adds(100)))))


def test_damage_in_the_middle_of_a_file_does_not_escape_as_a_foreign_error() -> None:
    data = bytearray(encoded(adds(2_000)))
    data[1_000:3_000] = b"\xff" * 2_000
    with pytest.raises(InvalidInput):
        table_of(bytes(data))
