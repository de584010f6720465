"""A space-filling curve through the values of columns: rows that are near each other in all of them are near on it.

It is the Z-order: each column is divided into ranges with about as many rows each, and the bits of the numbers of these
ranges are interleaved. Files with rows that are neighbours on the curve have narrow bounds in every column.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from deltamirror.delta.schema.columns import ColumnPath

_BITS: Final = 10
"""Of the number of a range; beyond a thousand ranges, files do not get narrower."""
_ALL_BITS: Final = 62


@dataclass(frozen=True, slots=True)
class Curve:
    """The curve through some columns, by the bounds of their ranges."""

    columns: tuple[ColumnPath, ...]
    bounds: tuple[pa.Array, ...]
    bits: int

    @classmethod
    def through(cls, columns: Sequence[ColumnPath], sample: pa.Table) -> Self:
        """The curve for rows of which these are a sample."""
        bits = max(1, min(_BITS, _ALL_BITS // len(columns)))
        bounds = tuple(quantiles(_comparable(sample, each), 2**bits) for each in columns)
        return cls(tuple(columns), bounds, bits)

    def places(self, rows: pa.Table) -> pa.Array:
        """Where each row lies on the curve; nulls come first."""
        ranges = [
            pc.search_sorted(bounds, _comparable(rows, column), side="right").fill_null(0)
            for column, bounds in zip(self.columns, self.bounds, strict=True)
        ]
        return _interleaved([each.cast(pa.int64()) for each in ranges], self.bits)


def quantiles(values: pa.Array, parts: int) -> pa.Array:
    """Values that divide the others into parts of about the same size; fewer parts where values repeat."""
    ordered = values.drop_null().sort()
    places = sorted({len(ordered) * part // parts for part in range(1, parts)} - {0})
    return ordered.take(pa.array(places, pa.int64())).unique()


def _interleaved(numbers: Sequence[pa.Array], bits: int) -> pa.Array:
    """One number of the bits of several, the highest of each first."""
    found = pa.repeat(pa.scalar(0, pa.int64()), len(numbers[0]))
    for bit in reversed(range(bits)):
        for each in numbers:
            digit = pc.bit_wise_and(pc.shift_right(each, bit), 1)
            found = pc.bit_wise_or(pc.shift_left(found, 1), digit)
    return found


def _comparable(rows: pa.Table, column: ColumnPath) -> pa.Array:
    """The values of a column, in a type that Arrow searches; NaN is above all numbers."""
    top, *inside = column
    found = rows.column(top).combine_chunks()
    found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    for name in inside:
        found = pc.struct_field(found, [name])
    if kinds.is_decimal(found.type):
        found = found.cast(pa.float64())
    if kinds.is_floating(found.type):
        return pc.if_else(pc.is_nan(found), pa.scalar(float("inf"), found.type), found)
    return found
