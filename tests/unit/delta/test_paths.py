"""Paths of the log, and the directories of partitions."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.delta.paths import (
    PartitionValue,
    decode_path,
    encode_path,
    is_absolute,
    partition_directory,
    partition_text,
    path_identity,
)

pytestmark = pytest.mark.requirement("R5")


@pytest.mark.parametrize(
    ("physical", "uri"),
    [
        ("part-00000-x.c000.snappy.parquet", "part-00000-x.c000.snappy.parquet"),
        ("part=a b%2Fc%25é/f", "part=a%20b%252Fc%2525é/f"),
        ("+:=,;@!$&'()*~-_./", "+:=,;@!$&'()*~-_./"),
        (' %"#<>?[]\\^`{|}', "%20%25%22%23%3C%3E%3F%5B%5D%5C%5E%60%7B%7C%7D"),
        ("\x01\x7f", "%01%7F"),
        ("é😀漢", "é😀漢"),
        ("\x85\u2028\u00a0\u3000", "%C2%85%E2%80%A8%C2%A0%E3%80%80"),
    ],
)
def test_a_path_is_quoted_as_java_does(physical: str, uri: str) -> None:
    assert encode_path(physical) == uri
    assert decode_path(uri) == physical


@given(st.text())
def test_decoding_undoes_encoding(physical: str) -> None:
    assert decode_path(encode_path(physical)) == physical


@pytest.mark.parametrize(
    ("path", "absolute"),
    [
        ("a/b", False),
        ("day=10:30/x", False),
        ("", False),
        ("/a", True),
        ("s3://b/a", True),
        ("file:/a", True),
        ("abfss://c@h/a", True),
    ],
)
def test_an_absolute_path_has_a_scheme_or_a_root(path: str, absolute: bool) -> None:
    assert is_absolute(path) is absolute


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a%2fb", "a%2Fb"),
        ("S3://Bucket/K", "s3://bucket/K"),
        ("file:///a", "file:/a"),
        ("abfss://C@HOST.net:1/x", "abfss://C@host.NET:1/x"),
    ],
)
def test_spellings_that_java_holds_equal_are_one_file(one: str, other: str) -> None:
    assert path_identity(one) == path_identity(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a b", "a%20b"),
        ("%C3%A9", "é"),
        ("A", "a"),
        ("a%zf", "a%zF"),
        ("s3://b/K", "s3://b/k"),
        ("abfss://C@h/x", "abfss://c@h/x"),
        ("s3://under_Score/x", "s3://under_score/x"),
        ("P:x/a", "q:x/a"),
        ("file:/a", "/a"),
    ],
)
def test_other_spellings_are_other_files(one: str, other: str) -> None:
    assert path_identity(one) != path_identity(other)


@given(st.text())
def test_identity_is_idempotent(path: str) -> None:
    assert path_identity(path_identity(path)) == path_identity(path)


@pytest.mark.parametrize(
    ("values", "directory"),
    [
        ({"p": "a b/c%é"}, "p=a b%2Fc%25é"),
        ({"p": None, "q": ""}, "p=__HIVE_DEFAULT_PARTITION__/q=__HIVE_DEFAULT_PARTITION__"),
        ({"a=b": "\x01\x1f\x7f\"#'*:?\\{[]^}"}, "a%3Db=%01%1F%7F%22%23%27%2A%3A%3F%5C%7B%5B%5D%5E}"),
        ({}, ""),
    ],
)
def test_a_partition_directory_is_escaped_as_hive_does(values: dict[str, str | None], directory: str) -> None:
    assert partition_directory(list(values), values) == directory


def test_partition_directories_follow_the_order_of_the_columns() -> None:
    assert partition_directory(["b", "a"], {"a": "1", "b": "2", "c": "3"}) == "b=2/a=1"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("", None),
        ("x y", "x y"),
        (True, "true"),
        (False, "false"),
        (-7, "-7"),
        (Decimal("1.500"), "1.500"),
        (Decimal("1E-20"), "0.00000000000000000001"),
        (date(2024, 1, 2), "2024-01-02"),
        (b"\x01\x02", "\x01\x02"),
        (datetime(2024, 7, 1, 7, tzinfo=UTC), "2024-07-01T07:00:00.000000Z"),
        (datetime(2024, 7, 1, 0, 0, 0, 123456, timezone(timedelta(hours=-7))), "2024-07-01T07:00:00.123456Z"),
        (datetime(999, 7, 1, 7, tzinfo=UTC), "0999-07-01T07:00:00.000000Z"),
        (datetime.fromisoformat("2024-01-02T03:04:05"), "2024-01-02 03:04:05"),
        (datetime.fromisoformat("2024-01-02T03:04:50.120000"), "2024-01-02 03:04:50.12"),
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.1, "1.1"),
        (100.0, "100.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123456789.0, "1.23456789E8"),
        (1e10, "1.0E10"),
        (0.001, "0.001"),
        (1e-5, "1.0E-5"),
        (-1.25e-7, "-1.25E-7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_a_partition_value_has_the_reference_writers_text(value: PartitionValue, text: str | None) -> None:
    assert partition_text(value) == text


@given(st.floats(allow_nan=False))
def test_the_text_of_a_float_has_its_value(value: float) -> None:
    assert float(partition_text(value) or "") == value
