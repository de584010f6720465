"""Reads of partitions are compared by value: a file is met however its partition value is spelled."""

import pickle

import pytest

from deltamirror.delta.readset import ReadSet
from deltamirror.delta.schema import DataType, Decimal, Primitive

pytestmark = pytest.mark.requirement("R36")

SAME = [
    ("timestamp", "2024-01-01T00:00:00.000000Z", "2024-01-01 00:00:00"),
    ("timestamp", "2024-01-01 01:00:00+01:00", "2024-01-01T00:00:00Z"),
    ("timestamp_ntz", "2024-01-01 00:00:00", "2024-01-01T00:00:00"),
    ("timestamp_ntz", "2024-01-01 00:00:00.5", "2024-01-01 00:00:00.500000"),
    ("decimal(5,2)", "1.5", "1.50"),
    ("integer", "7", "07"),
    ("long", "-7", "-007"),
    ("double", "1.0", "1"),
    ("double", "NaN", "nan"),
    ("float", "0.1", "0.10"),
    ("boolean", "true", "TRUE"),
    ("date", "2024-01-01", "2024-1-1"),
    ("string", "", None),
    ("integer", None, ""),
]
OTHER = [
    ("timestamp", "2024-01-01 00:00:00", "2024-01-01 00:00:01"),
    ("decimal(5,2)", "1.5", "1.51"),
    ("integer", "7", "8"),
    ("integer", "7", None),
    ("string", "7", "07"),
    ("string", "1.0", "1"),
    ("binary", "a", "b"),
]


def kind(name: str) -> DataType:
    return Decimal(5, 2) if name.startswith("decimal") else Primitive(name)


def reading(name: str, *values: str | None) -> ReadSet:
    return ReadSet(partitions=({"p": frozenset(values)},), types={"p": kind(name)})


@pytest.mark.parametrize(("name", "read", "written"), [*SAME, *((a, c, b) for a, b, c in SAME)])
def test_a_read_meets_every_spelling_of_its_value(name: str, read: str | None, written: str | None) -> None:
    reads = pickle.loads(pickle.dumps(reading(name, read)))  # noqa: S301 - our own
    assert reads.covers("f", {"p": written})


@pytest.mark.parametrize(("name", "read", "written"), OTHER)
def test_a_read_does_not_meet_other_values(name: str, read: str | None, written: str | None) -> None:
    assert not reading(name, read).covers("f", {"p": written})


def test_a_text_that_is_no_value_matches_every_read() -> None:
    assert reading("integer", "7").covers("f", {"p": "seven"})
    assert reading("integer", "7", "seven").covers("f", {"p": "8"})
    assert ReadSet(partitions=({"q": frozenset({"7"})},), types={"p": kind("integer")}).covers("f", {"q": "8"})


def test_a_column_that_is_not_understood_leaves_the_others_as_they_are() -> None:
    types = {"p": kind("integer"), "q": kind("date")}
    reads = ReadSet(partitions=({"p": frozenset({"x"}), "q": frozenset({"2024-01-01"})},), types=types)
    assert reads.covers("f", {"p": "1", "q": "2024-01-01"})
    assert not reads.covers("f", {"p": "1", "q": "2024-01-02"})
