"""The curve along which rows are ordered."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from deltamirror.rows.curve import Curve, quantiles


def test_the_bits_of_the_columns_are_interleaved() -> None:
    rows = pa.table({"x": [0, 0, 1, 1, 2, 3], "y": [0, 1, 0, 1, 2, 3]})
    curve = Curve((("x",), ("y",)), (pa.array([1, 2, 3]), pa.array([1, 2, 3])), 2)
    assert curve.places(rows).to_pylist() == [0, 1, 2, 3, 12, 15]


@pytest.mark.parametrize(
    "values",
    [
        [None, -(2**63), 0, 2**63 - 1],
        [None, float("-inf"), -0.5, 1e300, float("nan")],
        [None, Decimal("-1.50"), Decimal("0.00"), Decimal("12.34")],
        [None, "", "a", "a" * 100, "ü", "日本"],
        [None, b"", b"\x00", b"\xff"],
        [None, False, True],
        [None, date(1, 1, 1), date(2026, 11, 17)],
        [None, datetime(1969, 12, 31, tzinfo=UTC), datetime(2026, 11, 17, tzinfo=UTC)],
    ],
    ids=lambda values: type(values[1]).__name__,
)
def test_one_column_alone_is_in_its_own_order_and_nulls_come_first(values: list[Any]) -> None:
    rows = pa.table({"s": pa.array([{"v": each} for each in values])})
    found = Curve.through([("s", "v")], rows).places(rows).to_pylist()
    assert found == sorted(found)
    assert found[0] == 0
    assert len(set(found)) >= len(set(values)) - 1


def test_a_column_of_nulls_is_one_place() -> None:
    rows = pa.table({"v": pa.nulls(3, pa.int64())})
    assert Curve.through([("v",)], rows).places(rows).to_pylist() == [0, 0, 0]


def test_more_columns_than_bits_still_have_a_place() -> None:
    names = [f"c{number}" for number in range(40)]
    rows = pa.table({name: [0, 1, 2, 3] for name in names})
    curve = Curve.through([(name,) for name in names], rows)
    assert curve.bits == 1
    assert curve.places(rows).to_pylist() == sorted(curve.places(rows).to_pylist())


@pytest.mark.parametrize(
    ("values", "parts", "expected"),
    [([5, 1, 4, 2, 3, 0], 3, [2, 4]), ([1, 1, 1, 1], 2, [1]), ([], 4, []), ([7], 4, []), ([None, 3, 1, 2], 1, [])],
)
def test_quantiles_divide_values_into_parts(values: list[int | None], parts: int, expected: list[int]) -> None:
    assert quantiles(pa.array(values, pa.int64()), parts).to_pylist() == expected
