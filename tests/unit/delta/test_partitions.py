"""Partition values: typed values, and the reference writer's texts of them."""

import struct
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal as Number

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.delta.partitions import PartitionValue, parse_partition, partition_text
from deltamirror.delta.schema import DataType, Decimal, Primitive, StructType

pytestmark = pytest.mark.requirement("R5")

MONEY = Decimal(5, 2)
MIDNIGHT = datetime(2024, 1, 1, tzinfo=UTC)
LOCAL = datetime.fromisoformat("2024-01-01T00:00:00")


def of(name: str) -> Primitive:
    return Primitive(name)


@pytest.mark.parametrize(
    ("kind", "spellings", "value", "canonical"),
    [
        (of("string"), ["", None], None, None),
        (of("integer"), ["", None], None, None),
        (of("string"), ["a b/é:\x01"], "a b/é:\x01", "a b/é:\x01"),
        (of("string"), ["07"], "07", "07"),
        (of("byte"), ["7", "07", "+7", 7], 7, "7"),
        (of("long"), ["-9223372036854775808"], -(2**63), "-9223372036854775808"),
        (of("boolean"), ["true", "TRUE", "True", True], True, "true"),
        (of("boolean"), ["false", False], False, "false"),
        (of("date"), ["2024-01-01", "2024-1-1", date(2024, 1, 1)], date(2024, 1, 1), "2024-01-01"),
        (of("date"), ["0001-01-01"], date(1, 1, 1), "0001-01-01"),
        (MONEY, ["1.5", "1.50", "1.500", "+1.5", "15e-1", Number("1.5"), 1.5], Number("1.50"), "1.50"),
        (MONEY, ["0", "-0", "-0.00", 0], Number("0.00"), "0.00"),
        (MONEY, ["999.99"], Number("999.99"), "999.99"),
        (Decimal(38, 0), ["1E3", 1000], Number(1000), "1000"),
        (Decimal(38, 0), ["9" * 38, Number("9" * 38)], Number("9" * 38), "9" * 38),
        (Decimal(38, 38), [f"-.{'9' * 38}"], Number(f"-0.{'9' * 38}"), f"-0.{'9' * 38}"),
        (Decimal(2, 2), ["0.5", ".5"], Number("0.50"), "0.50"),
        (of("double"), ["1", "1.0", "1e0", 1, 1.0], 1.0, "1.0"),
        (of("double"), ["1e3", "1000"], 1000.0, "1000.0"),
        (of("double"), ["Infinity", "+Infinity", "inf", "INF"], float("inf"), "Infinity"),
        (of("double"), ["-Infinity"], float("-inf"), "-Infinity"),
        (of("float"), ["0.1", 0.1], struct.unpack("<f", struct.pack("<f", 0.1))[0], "0.1"),
        (of("float"), ["3.4028235E38"], 3.4028234663852886e38, "3.4028235E38"),
        (of("binary"), ["\x01\x02", b"\x01\x02"], b"\x01\x02", "\x01\x02"),
        (
            of("timestamp"),
            [
                "2024-01-01 00:00:00",
                "2024-01-01T00:00:00",
                "2024-01-01T00:00:00Z",
                "2024-01-01T00:00:00.000000Z",
                "2024-01-01T00:00:00.000000000Z",
                "2024-01-01 02:00:00+02:00",
                "2023-12-31T19:00:00-0500",
                "2024-01-01 00:00:00 UTC",
                "2024-01-01",
                MIDNIGHT,
                LOCAL,
                MIDNIGHT.astimezone(timezone(timedelta(hours=2))),
            ],
            MIDNIGHT,
            "2024-01-01T00:00:00.000000Z",
        ),
        (
            of("timestamp_ntz"),
            ["2024-01-01 00:00:00", "2024-01-01T00:00:00", "2024-01-01 00:00:00.000", "2024-01-01", LOCAL],
            LOCAL,
            "2024-01-01 00:00:00",
        ),
        (
            of("timestamp_ntz"),
            ["2024-01-01 00:00:00.120", "2024-01-01T00:00:00.12"],
            LOCAL.replace(microsecond=120_000),
            "2024-01-01 00:00:00.12",
        ),
    ],
)
def test_spellings_of_one_value_are_one_value(
    kind: DataType, spellings: list[PartitionValue], value: PartitionValue, canonical: str | None
) -> None:
    for spelling in spellings:
        parsed = parse_partition(spelling, kind)
        assert (type(parsed), parsed) == (type(value), value), spelling
        assert partition_text(spelling, kind) == canonical


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (of("byte"), ["128", "-129", "1.0", "1e1", " 1", "x", "١", True, 1.0, 128]),
        (of("long"), ["9223372036854775808"]),
        (of("boolean"), ["1", "yes", 1]),
        (of("date"), ["2024-02-30", "2024", "2024-01", "2024-01-01 00:00:00", "+10000-01-01", "0000-01-01", MIDNIGHT]),
        (MONEY, ["1.555", "1000", "NaN", "1,5", "0x1", True, Number("1.555"), Number("NaN"), float("inf")]),
        (Decimal(2, 2), ["1", "1.0"]),
        (of("double"), ["1e999", "1d", "0x1p0", "x", True]),
        (of("float"), ["1e39"]),
        (of("timestamp"), ["2024-01-01 25:00:00", "2024-01-01 00:00", "0001-01-01T00:00:00+01:00", date(2024, 1, 1)]),
        (of("timestamp"), ["2024-01-01 00:00:00.0000001", "2024-01-01 00:00:00 Europe/Berlin"]),
        (of("timestamp_ntz"), ["2024-01-01T00:00:00Z", MIDNIGHT]),
        (of("string"), [1, b"x"]),
        (of("binary"), [b"\xff", 1]),
        (StructType(), ["1"]),
        (of("variant"), ["1"]),
    ],
)
def test_what_is_no_value_of_the_type_is_refused(kind: DataType, values: list[PartitionValue]) -> None:
    for value in values:
        with pytest.raises(ValueError, match="is no value of"):
            parse_partition(value, kind)


def test_nan_is_found_among_values() -> None:
    parsed = parse_partition("NaN", of("double"))
    assert {parsed} == {parse_partition("nan", of("double"))}
    assert (parsed,) == (parse_partition(float("nan"), of("double")),)
    assert partition_text("nan", of("float")) == "NaN"


def test_a_zero_with_a_sign_is_zero() -> None:
    assert parse_partition("-0.0", of("double")) == parse_partition("0.0", of("double"))


@given(
    st.one_of(
        st.tuples(st.floats(), st.just(of("double"))),
        st.tuples(st.floats(width=32), st.just(of("float"))),
        st.tuples(st.integers(-(2**63), 2**63 - 1), st.just(of("long"))),
        st.tuples(st.dates(), st.just(of("date"))),
        st.tuples(st.datetimes(), st.just(of("timestamp_ntz"))),
        st.tuples(st.datetimes(timezones=st.just(UTC)), st.just(of("timestamp"))),
        st.tuples(st.decimals(-999, 999, places=2), st.just(MONEY)),
        st.tuples(st.text(), st.just(of("string"))),
        st.tuples(st.booleans(), st.just(of("boolean"))),
    )
)
def test_the_text_of_a_value_stands_for_it(given_value: tuple[PartitionValue, DataType]) -> None:
    value, kind = given_value
    text = partition_text(value, kind)
    assert (parse_partition(text, kind),) == (parse_partition(value, kind),)
    assert partition_text(text, kind) == text
