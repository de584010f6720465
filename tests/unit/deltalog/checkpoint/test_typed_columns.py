"""Texts of statistics and partition values as typed columns. What is expected was observed on Spark 4.2."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from math import inf, isnan
from typing import Any

import pyarrow as pa
import pytest

from deltamirror.delta.schema import from_ddl
from deltamirror.deltalog.checkpoint.maps import maps_of
from deltamirror.deltalog.checkpoint.typed_columns import partition_values, statistics
from deltamirror.deltalog.checkpoint.values import as_date

pytestmark = [pytest.mark.requirement("R10"), pytest.mark.requirement("R11")]


def statistic(value: str, kind: str) -> Any:
    return parsed([f'{{"v":{value}}}'], f"v {kind}")[0]["v"]


def parsed(texts: Sequence[str | None], columns: str) -> list[Any]:
    found: list[Any] = statistics(pa.array(texts, pa.large_string()), from_ddl(columns)).to_pylist()
    return found


def partition(text: str | None, kind: str) -> Any:
    maps = pa.array([[("v", text)]], pa.map_(pa.string(), pa.string()))
    return partition_values(maps, from_ddl(f"v {kind}")).to_pylist()[0]["v"]


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ("-128", "byte", -128),
        ("9007199254740993", "long", 9007199254740993),
        ("9223372036854775808", "long", None),
        ("1.0", "long", None),
        ('"5"', "int", None),
        ("true", "long", None),
        ("1.0E8", "double", 1e8),
        ("4.9E-324", "double", 5e-324),
        ("5", "double", 5.0),
        ('"Infinity"', "double", inf),
        ('"-Infinity"', "float", -inf),
        ('"INF"', "double", None),
        ('"1.5"', "double", None),
        ("1e400", "double", inf),
        ("1.1", "float", 1.100000023841858),
        ("3.4028235E38", "float", 3.4028234663852886e38),
        ("1.50", "decimal(4,2)", Decimal("1.50")),
        ("1", "decimal(4,2)", Decimal("1.00")),
        ("1.255", "decimal(4,2)", Decimal("1.26")),
        ("123.45", "decimal(4,2)", None),
        ("12345678901234567890.0000000000", "decimal(38,10)", Decimal("12345678901234567890.0000000000")),
        ("1.0000000000E-20", "decimal(38,30)", Decimal("1.0000000000E-20")),
        ('"2024-01-02"', "date", date(2024, 1, 2)),
        ('"2024-02-30"', "date", None),
        ('"0001-01-01"', "date", date(1, 1, 1)),
        ('"2024-01-02T03:04:05.123Z"', "timestamp", datetime(2024, 1, 2, 3, 4, 5, 123_000, UTC)),
        ('"2024-07-01T00:00:00.123-07:00"', "timestamp", datetime(2024, 7, 1, 7, 0, 0, 123_000, UTC)),
        ('"1800-01-01T00:00:00.000-07:52:58"', "timestamp", datetime(1800, 1, 1, 7, 52, 58, 0, UTC)),
        ('"2024-01-02T03:04:05.123456789Z"', "timestamp", datetime(2024, 1, 2, 3, 4, 5, 123_456, UTC)),
        ('"1500-01-01T00:00:00.999Z"', "timestamp", datetime(1500, 1, 1, 0, 0, 0, 999_000, UTC)),
        ('"2024-01-01T00:00:00.123"', "timestamp_ntz", datetime.fromisoformat("2024-01-01T00:00:00.123")),
        ('"2024-01-01"', "timestamp_ntz", datetime.fromisoformat("2024-01-01")),
        ('"2024-01-01T00:00:00Z"', "timestamp_ntz", None),
        ('"aü\\u0000\\ud83d\\ude00\\u007f"', "string", "aü\0😀\x7f"),
        ('"\\ud800"', "string", None),
        ("true", "boolean", True),
        ('"true"', "boolean", None),
        ("null", "long", None),
    ],
)
def test_a_statistic_is_read_as_its_column(value: str, kind: str, expected: object) -> None:
    assert statistic(value, kind) == expected


def test_not_a_number_is_a_number_of_a_column() -> None:
    for kind in ("float", "double"):
        assert isnan(statistic('"NaN"', kind))
        assert isnan(partition("NaN", kind))
    assert statistic('"nan"', "double") is None


def test_a_time_without_a_zone_is_no_bound_of_a_column_with_one() -> None:
    assert statistic('"2024-01-02T03:04:05.123"', "timestamp") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("", None),
        ("no JSON", {"numRecords": None, "minValues": None}),
        ("[1]", {"numRecords": None, "minValues": None}),
        ("{}", {"numRecords": None, "minValues": None}),
        ('{"numRecords":1} and more', {"numRecords": 1, "minValues": None}),
        ('{"numRecords":1}{"numRecords":2}', {"numRecords": 1, "minValues": None}),
        ('{"numRecords":1,"numRecords":2}', {"numRecords": 2, "minValues": None}),
        ('{"numRecords":1,"other":{"x":[1]}}', {"numRecords": 1, "minValues": None}),
        ('{"minValues":{}}', {"numRecords": None, "minValues": {"a": None, "s": None}}),
        ('{"minValues":7,"numRecords":1}', {"numRecords": 1, "minValues": None}),
        (
            '{"minValues":{"a":"bad","s":{"d":"2024-01-02"}}}',
            {"numRecords": None, "minValues": {"a": None, "s": {"d": date(2024, 1, 2)}}},
        ),
        ("[" * 100_000, {"numRecords": None, "minValues": None}),
    ],
)
def test_what_is_no_statistic_is_null_and_spoils_no_other(text: str | None, expected: object) -> None:
    columns = "numRecords long, minValues struct<a: int, s: struct<d: date>>"
    good = '{"numRecords":3,"minValues":{"a":1,"s":{"d":"2024-01-01"}}}'
    as_good = {"numRecords": 3, "minValues": {"a": 1, "s": {"d": date(2024, 1, 1)}}}
    assert parsed([good, text, good], columns) == [as_good, expected, as_good]


def test_one_text_that_arrow_refuses_leaves_the_others_as_they_are() -> None:
    texts = [f'{{"v":{number}.5}}' for number in range(2_000)]
    texts[777] = '{"v":"NaN"}'
    values = [row["v"] for row in parsed(texts, "v double")]
    assert isnan(values.pop(777))
    assert values == [number + 0.5 for number in range(2_000) if number != 777]


@pytest.mark.parametrize("beside", ["2024-02-29", "2024-1-2", "x"])
@pytest.mark.parametrize(
    "text",
    [
        *("0000-02-29", "0001-01-01", "1582-10-10", "1900-02-29", "2000-02-29", "2024-02-30", "2024-13-01"),
        *("9999-12-31", "+10000-1-1", "-0001-01-01", " 2024-1-02", "2024-01-2 ", "2024-01- 2", "20240102", "2024-01"),
        *("2024-01-02T", "2024/01/02", "\u0662024-01-02", "2024-00-10", "2024-01-00", "", "1e10-01-01"),
    ],
)
def test_dates_of_partitions_are_those_that_each_text_has_by_itself(text: str, beside: str) -> None:
    maps = maps_of([{"d": text}, {"d": beside}, {"d": None}])
    found = partition_values(maps, from_ddl("d date")).field(0).cast(pa.int32()).to_pylist()
    assert found == [as_date(text), as_date(beside), None]


def test_dates_beyond_the_years_of_python_are_read() -> None:
    days = statistics(pa.array(['{"v":"+10000-01-01"}', '{"v":"-0001-01-01"}']), from_ddl("v date")).field(0)
    assert days.cast(pa.int32()).to_pylist() == [2_932_897, -719_893]


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        (None, "int", None),
        ("", "int", None),
        ("", "string", ""),
        (" 1 ", "int", 1),
        ("+1", "int", 1),
        ("1.9", "int", 1),
        (".5", "int", 0),
        ("128", "byte", None),
        ("１", "int", None),
        ("abc", "long", None),
        ("true", "boolean", True),
        ("0", "boolean", False),
        ("1.0E10", "float", 1e10),
        ("1_0", "decimal(4,2)", None),
        ("1.500", "decimal(10,3)", Decimal("1.500")),
        ("\x01\x02", "binary", b"\x01\x02"),
        ("2024-1-2", "date", date(2024, 1, 2)),
        ("2024-01-02T03:04:05.120000Z", "timestamp", datetime(2024, 1, 2, 3, 4, 5, 120_000, UTC)),
        ("2024-01-02 03:04:05.12", "timestamp", datetime(2024, 1, 2, 3, 4, 5, 120_000, UTC)),
        ("2024-01-02 03:04:05 +07:00", "timestamp", datetime(2024, 1, 1, 20, 4, 5, 0, UTC)),
        ("2024-01-01 00:00:00.123", "timestamp_ntz", datetime.fromisoformat("2024-01-01T00:00:00.123")),
    ],
)
def test_a_partition_value_is_the_cast_of_its_text(text: str | None, kind: str, expected: object) -> None:
    assert partition(text, kind) == expected


def test_a_partition_value_that_a_file_does_not_have_is_null() -> None:
    maps = pa.array([[], None, [("other", "1")]], pa.map_(pa.string(), pa.string()))
    assert partition_values(maps, from_ddl("v int")).to_pylist() == [{"v": None}] * 3
