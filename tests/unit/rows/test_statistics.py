"""Statistics that are gathered piece by piece are those of the whole, and bound what they are of."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.delta.actions import Format, Metadata, Protocol
from deltamirror.delta.schema import from_ddl, schema_string
from deltamirror.rows.layout import Layout
from deltamirror.rows.statistics import FileStatistics, upper_bound

LAST = "\U0010ffff"


def layout(ddl: str, *, partition_by: Sequence[str] = (), **configuration: str) -> Layout:
    metadata = Metadata(
        id="id",
        format=Format(provider="parquet", options={}),
        schema_string=schema_string(from_ddl(ddl)),
        partition_columns=list(partition_by),
        configuration=configuration,
    )
    return Layout.of("t", metadata, Protocol(min_reader_version=1, min_writer_version=2))


def text_of(
    ddl: str, rows: list[dict[str, Any]], *, piece: int = 1_000, configuration: Mapping[str, str] | None = None
) -> str:
    table = layout(ddl, **(configuration or {}))
    data = pa.Table.from_pylist(rows, table.arrow_schema)
    statistics = FileStatistics(table)
    for start in range(0, len(rows), piece):
        statistics.see(data.slice(start, piece))
    return statistics.text()


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("a" * 32, "a" * 32),
        ("a" * 33, "a" * 32 + "\x7f"),
        ("a" * 32 + "é", "a" * 32 + LAST),
        ("a" * 32 + "\x7f", "a" * 32 + LAST),
        ("a" * 31 + "\U0001f600b", "a" * 31 + "\U0001f600\x7f"),
        ("a" * 32 + LAST + "b", "a" * 32 + LAST + "\x7f"),
        (LAST * 17, LAST * 17),
        (LAST * 40, None),
    ],
)
def test_an_upper_bound_is_cut_behind_a_character_that_is_above_the_rest(text: str, bound: str | None) -> None:
    assert upper_bound(text, 32) == bound


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=80))
def test_an_upper_bound_is_not_below_its_text(text: str) -> None:
    bound = upper_bound(text, 32)
    assert bound is None or bound.encode() >= text.encode()


_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "i": st.none() | st.integers(-(2**63), 2**63 - 1),
            "d": st.none() | st.floats(),
            "t": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
            "s": st.none()
            | st.fixed_dictionaries({"x": st.none() | st.integers(-5, 5), "y": st.none() | st.booleans()}),
        }
    ),
    max_size=12,
)


@given(_ROWS, st.integers(1, 5))
def test_pieces_have_the_statistics_of_the_whole(rows: list[dict[str, Any]], piece: int) -> None:
    ddl = "i long, d double, t string, s struct<x: int, y: boolean>"
    text = text_of(ddl, rows, piece=piece)
    assert text == text_of(ddl, rows)
    found = json.loads(text)
    assert found["numRecords"] == len(rows)
    numbers = [row["i"] for row in rows if row["i"] is not None]
    assert found["minValues"].get("i") == min(numbers, default=None)
    assert found["maxValues"].get("i") == max(numbers, default=None)
    assert found["nullCount"]["s"]["y"] == sum(row["s"] is None or row["s"]["y"] is None for row in rows)


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([1.0, math.nan], 1.0, "NaN"),
        ([math.nan, None], "NaN", "NaN"),
        ([math.inf, -math.inf], "-Infinity", "Infinity"),
        ([1e7, 1e-4], 1e-4, 1e7),
    ],
)
def test_nan_is_above_all_numbers(values: list[float], low: object, high: object) -> None:
    found = json.loads(text_of("d double", [{"d": value} for value in values], piece=1))
    assert (found["minValues"]["d"], found["maxValues"]["d"]) == (low, high)


@pytest.mark.parametrize("first", [0.0, -0.0])
@pytest.mark.parametrize("piece", [1, 2])
def test_bounds_hold_both_zeros_for_readers_that_tell_them_apart(first: float, piece: int) -> None:
    text = text_of("d double", [{"d": first}, {"d": -first}], piece=piece)
    assert text == '{"numRecords":2,"minValues":{"d":-0.0},"maxValues":{"d":0.0},"nullCount":{"d":0}}'


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_a_bound_is_a_zero_that_is_there(zero: float) -> None:
    text = text_of("d double", [{"d": zero}])
    assert text == f'{{"numRecords":1,"minValues":{{"d":{zero}}},"maxValues":{{"d":{zero}}},"nullCount":{{"d":0}}}}'


def test_only_the_columns_that_the_table_wants_have_statistics() -> None:
    rows = [{"a": 1, "b": 2, "s": {"x": 3, "y": 4}}]
    ddl = "a int, b int, s struct<x: int, y: int>"
    one = '{"numRecords":1,"minValues":{"a":1},"maxValues":{"a":1},"nullCount":{"a":0}}'
    assert text_of(ddl, rows, configuration={"delta.dataSkippingNumIndexedCols": "1"}) == one
    assert text_of(ddl, rows, configuration={"delta.dataSkippingNumIndexedCols": "0"}) == '{"numRecords":1}'
    chosen = json.loads(text_of(ddl, rows, configuration={"delta.dataSkippingStatsColumns": "s.y"}))
    assert chosen["minValues"] == {"s": {"y": 4}}
