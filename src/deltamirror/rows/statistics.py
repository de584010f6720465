"""The statistics of a data file, gathered batch by batch: the text that Delta Lake on Spark writes for the same rows.

Bounds of texts are cut: the lower one to a prefix, the upper one to a prefix and a character that is above what was cut
off. NaN is above all numbers, and -0.0 is below 0.0: some readers tell them apart.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from deltamirror.delta.schema import StructType
from deltamirror.delta.schema.arrow import to_arrow
from deltamirror.deltalog.checkpoint.statistics import statistics_schema
from deltamirror.deltalog.statistics import statistics_texts
from deltamirror.rows.layout import Layout

_PREFIX: Final = 32
_PREFIX_PROPERTY: Final = "delta.dataSkippingStringPrefixLength"
_LAST_ASCII: Final = "\x7f"
_LAST: Final = "\U0010ffff"
_FIRST_PAIR: Final = 0x10000


@dataclass(slots=True)
class _Bounds:
    """The least and the largest value of a column so far; None before there is one."""

    low: pa.Scalar | None = None
    high: pa.Scalar | None = None

    def see(self, column: pa.ChunkedArray) -> None:
        """Take in the values of some rows."""
        low, high = _float_bounds(column) if kinds.is_floating(column.type) else _plain_bounds(column)
        if low is not None and (self.low is None or _is_less(low, self.low)):
            self.low = low
        if high is not None and (self.high is None or _is_less(self.high, high)):
            self.high = high


class FileStatistics:
    """Counts and bounds of the columns that a table wants statistics of."""

    def __init__(self, layout: Layout) -> None:
        self._schema = statistics_schema(layout.metadata, layout.protocol)
        self._prefix = int(layout.metadata.configuration.get(_PREFIX_PROPERTY, _PREFIX))
        held = {layout.naming(each) for each in layout.data_fields}
        self._bounds = {path: _Bounds() for path in self._paths("minValues") if path[0] in held}
        self._nulls = {path: 0 for path in self._paths("nullCount") if path[0] in held}
        self.rows = 0

    def see(self, rows: pa.Table) -> None:
        """Take in rows of the file, in their order."""
        self.rows += rows.num_rows
        for path in self._nulls:
            column = _column(rows, path)
            self._nulls[path] += column.null_count
            if path in self._bounds and column.null_count < len(column):
                self._bounds[path].see(column)

    def text(self) -> str:
        """The statistics of all rows that were seen."""
        members = {
            "numRecords": pa.array([self.rows], pa.int64()),
            "tightBounds": pa.array([True]),
        }
        fields = to_arrow(self._schema)
        columns = [
            members[each.name] if each.name in members else self._struct(each.name, each.type, ()) for each in fields
        ]
        return str(statistics_texts(pa.StructArray.from_arrays(columns, fields=list(fields)))[0].as_py())

    def _struct(self, part: str, kind: pa.StructType, parent: tuple[str, ...]) -> pa.StructArray:
        children = [self._member(part, each, (*parent, each.name)) for each in kind]
        return pa.StructArray.from_arrays(children, fields=list(kind))

    def _member(self, part: str, field: pa.Field, path: tuple[str, ...]) -> pa.Array:
        if kinds.is_struct(field.type):
            return self._struct(part, field.type, path)
        if part == "nullCount":
            return pa.array([self._nulls.get(path)], field.type)
        found = self._bounds.get(path)
        bound = None if found is None else found.low if part == "minValues" else found.high
        if bound is not None and kinds.is_string(field.type):
            text = bound.as_py()
            bound = text[: self._prefix] if part == "minValues" else upper_bound(text, self._prefix)
        return pa.array([bound], field.type)

    def _paths(self, part: str) -> Iterator[tuple[str, ...]]:
        for each in self._schema.fields:
            if each.name == part and isinstance(each.type, StructType):
                yield from (path for path, _ in each.type.leaves())


def upper_bound(text: str, prefix: int) -> str | None:
    """A text of about so many UTF-16 units that is not below ``text``; None where that would take twice as many.

    A character that is cut off is covered by one that is above it; one that nothing is above is kept.
    """
    if _units(text) <= prefix:
        return text
    kept, units = "", 0
    for character in text:
        if units >= prefix and character < _LAST:
            return kept + (_LAST_ASCII if character < _LAST_ASCII else _LAST)
        if units >= 2 * prefix:
            return None
        kept, units = kept + character, units + _units(character)
    return kept


def _units(text: str) -> int:
    """How many UTF-16 units a text has."""
    return sum(2 if ord(character) >= _FIRST_PAIR else 1 for character in text)


def _column(rows: pa.Table, path: Sequence[str]) -> pa.ChunkedArray:
    """A column, however deep; where a struct is null, so is all in it."""
    column = rows.column(path[0])
    return column if len(path) == 1 else pc.struct_field(column, list(path[1:]))


def _plain_bounds(column: pa.ChunkedArray) -> tuple[pa.Scalar | None, pa.Scalar | None]:
    found = pc.min_max(column)
    return found["min"], found["max"]


def _float_bounds(column: pa.ChunkedArray) -> tuple[pa.Scalar | None, pa.Scalar | None]:
    is_nan = pc.is_nan(column)
    nans = pc.sum(is_nan).as_py() or 0
    if nans == 0:
        low, high = _plain_bounds(column)
        return _zero(column, low, negative=True), _zero(column, high, negative=False)
    nan = pa.scalar(math.nan, column.type)
    if nans == len(column) - column.null_count:
        return nan, nan
    low, _ = _float_bounds(column.filter(pc.invert(pc.fill_null(is_nan, True))))
    return low, nan


def _zero(column: pa.ChunkedArray, bound: pa.Scalar, *, negative: bool) -> pa.Scalar:
    """A bound; of both zeros, which are equal, the one that is outermost: some readers tell them apart."""
    if bound.as_py() != 0:
        return bound
    zeros = column.filter(pc.fill_null(pc.equal(column, pa.scalar(0.0, column.type)), False))
    signs = pc.less(pc.divide(pa.scalar(1.0, column.type), zeros), pa.scalar(0.0, column.type))
    is_negative = bool(pc.any(signs).as_py()) if negative else bool(pc.all(signs).as_py())
    return pa.scalar(-0.0 if is_negative else 0.0, column.type)


def _is_less(left: pa.Scalar, right: pa.Scalar) -> bool:
    if kinds.is_floating(left.type):
        one, other = left.as_py(), right.as_py()
        if one == other == 0:
            return math.copysign(1, one) < math.copysign(1, other)
        return not math.isnan(one) and (math.isnan(other) or one < other)
    return bool(pc.less(left, right).as_py())
