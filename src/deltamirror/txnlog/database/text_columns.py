"""The result of a query as one text for each column: apart from the databases, so that few wait for Arrow's library.

The database joins the values of a column, and Arrow takes them apart: a Python object for each value would take most of
the time of a listing. One more column tells which values of a row are null.
"""

from collections.abc import Sequence
from functools import cache, reduce
from operator import add
from typing import Any, Final
from typing import cast as cast_type

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import Text, case, cast, func, literal_column, select
from sqlalchemy.sql import ColumnElement, Select

_SEPARATOR: Final = "\x1f"
# A literal: databases evaluate a value of the statement anew in each row.
_SEPARATOR_IN_SQL: Final = literal_column(f"'{_SEPARATOR}'", Text)


def joined_columns(query: Select[Any], schema: pa.Schema) -> Select[Any]:
    """The query for the number of rows, the values of each column, and of each row, which of its columns are null."""
    columns = list(query.subquery().c)
    bits = [_null_bit(columns[number], number) for number in _nullable(schema)]
    marks = [_joined(reduce(add, bits))] if bits else []
    values: list[ColumnElement[Any]] = [func.count(), *map(_joined, columns), *marks]
    return select(*values)


joined_once = cache(joined_columns)
"""The same for the statements of modules."""


def arrow_columns(row: Sequence[Any], schema: pa.Schema) -> pa.Table | None:
    """The table that such a row stands for; None where values hold what separates them."""
    count, texts, marks = row[0], row[1 : len(schema) + 1], row[len(schema) + 1 :]
    if not count:
        return schema.empty_table()
    nulls = _Nulls(count, *marks)
    columns = [nulls.column(number, texts[number], field.type) for number, field in enumerate(schema)]
    return None if any(column is None for column in columns) else pa.table(columns, schema=schema)


class _Nulls:
    """Which values are null, of some rows."""

    def __init__(self, count: int, marks: str | None = None) -> None:
        self._count = count
        self._marks = pa.array([0]) if marks is None else _parts(marks).cast(pa.int64())
        self._kinds = pc.unique(self._marks).to_pylist()

    def column(self, number: int, text: str | None, kind: pa.DataType) -> pa.Array | None:
        """A column of its values that are not null; None if that is another number of values."""
        bit = 1 << number
        if all(each & bit for each in self._kinds):
            return pa.nulls(self._count, kind)
        values = _parts(text or "")  # SQLite joins empty texts to null
        if not any(each & bit for each in self._kinds):
            return values.cast(kind) if len(values) == self._count else None
        is_there = pc.equal(pc.bit_wise_and(self._marks, bit), 0)
        numbers = pc.cumulative_sum(is_there.cast(pa.int64()))
        if len(values) != numbers[-1].as_py():
            return None
        return values.cast(kind).take(pc.if_else(is_there, pc.subtract(numbers, 1), None))


def _nullable(schema: pa.Schema) -> list[int]:
    return [number for number, field in enumerate(schema) if field.nullable]


def _null_bit(column: ColumnElement[Any], number: int) -> ColumnElement[int]:
    return case((column.is_(None), literal_column(str(1 << number))), else_=literal_column("0"))


def _joined(column: ColumnElement[Any]) -> ColumnElement[str]:
    text = column if isinstance(column.type, Text) else cast(column, Text)
    joined: ColumnElement[str] = func.aggregate_strings(text, cast_type("Any", _SEPARATOR_IN_SQL))  # typed for str only
    return joined


def _parts(text: str) -> pa.Array:
    return pc.split_pattern(pa.array([text], pa.string()), _SEPARATOR).values
