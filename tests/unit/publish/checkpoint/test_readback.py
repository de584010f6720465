"""A checkpoint that does not say what was meant is noticed, be it in one bit."""

import math
import struct
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from deltamirror.deltalog.checkpoint import parquet
from deltamirror.errors import Internal
from deltamirror.publish.checkpoint.encoding import encoded
from deltamirror.publish.checkpoint.readback import check, is_same

pytestmark = pytest.mark.requirement("R65")

POINT = pa.struct([("x", pa.int64()), ("y", pa.string())])
TABLE = pa.table({"n": pa.array(range(6), pa.int64()), "s": pa.array(list("abcdef"))})
ODD_NAN = struct.unpack("<d", b"\x01\x00\x00\x00\x00\x00\xf8\x7f")[0]


def file_of(table: pa.Table, *, rows: int = 4) -> pa.Buffer:
    groups = [table.slice(start, rows) for start in range(0, table.num_rows, rows)]
    return encoded(groups, table.schema, "{}", compression="snappy")


def chunked(values: list[object], kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, kind)])


def test_a_file_of_the_same_rows_passes() -> None:
    check(file_of(TABLE), TABLE)
    check(file_of(TABLE).to_pybytes(), TABLE)
    assert parquet.opened(file_of(TABLE)).num_row_groups == 2


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (TABLE.rename_columns(["n", "t"]), "^a checkpoint, read back, has another schema than its table$"),
        (TABLE.slice(0, 5), "^a checkpoint, read back, has 6 rows instead of 5$"),
        (TABLE.set_column(0, "n", pa.array([0, 1, 2, 3, 4, 6], pa.int64())), "has other values in n than its table$"),
        (TABLE.set_column(1, "s", pa.array(list("abcdeF"))), "has other values in s than its table$"),
        (TABLE.set_column(1, "s", pa.array(list("Abcdef"))), "has other values in s than its table$"),
    ],
)
def test_a_file_of_other_rows_is_noticed(other: pa.Table, message: str) -> None:
    with pytest.raises(Internal, match=message):
        check(file_of(TABLE), other)


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        (pa.int64(), [1, None], [1, 0]),
        (pa.string(), ["a"], ["b"]),
        (pa.float64(), [0.0], [-0.0]),
        (pa.float32(), [0.0], [-0.0]),
        (pa.float64(), [math.nan], [ODD_NAN]),
        (pa.timestamp("us", "UTC"), [datetime(2020, 1, 1, tzinfo=UTC)], [datetime(2020, 1, 2, tzinfo=UTC)]),
        (POINT, [None], [{"x": None, "y": None}]),
        (POINT, [{"x": 1, "y": "a"}], [{"x": 2, "y": "a"}]),
        (POINT, [{"x": 1, "y": "a"}], [{"x": 1, "y": "b"}]),
        (pa.struct([("x", pa.float64())]), [{"x": 0.0}], [{"x": -0.0}]),
        (pa.list_(pa.int64()), [[]], [None]),
    ],
)
def test_values_are_compared_to_the_bit(kind: pa.DataType, one: list[object], other: list[object]) -> None:
    assert is_same(chunked(one, kind), chunked(one, kind)) is True
    assert is_same(chunked(one, kind), chunked(other, kind)) is False
