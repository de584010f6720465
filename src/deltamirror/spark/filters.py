"""Filters that Spark pushes down, as conditions by which files are left out. Spark applies them to the rows again."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import date
from decimal import Decimal
from typing import Any, Final

from deltamirror.delta.paths import partition_text
from deltamirror.delta.schema.quoting import quoted
from deltamirror.errors import InvalidInput
from deltamirror.rows.layout import Layout
from deltamirror.rows.parsing import condition_of

__all__ = ["condition_text"]

# By the names of Spark's classes: Spark 4.0 has none of them. `<=>` is none of these: null makes it false, not null.
_SIGNS: Final = {
    "EqualTo": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_VALUES: Final = (str, bool, int, float, Decimal, date)


def condition_text(filters: Sequence[object], layout: Layout) -> str | None:
    """The condition that holds where all of these do, as far as it can be said; None: it says nothing."""
    return " AND ".join(_conditions(filters, layout)) or None


def _conditions(filters: Sequence[object], layout: Layout) -> Iterator[str]:
    for each in filters:
        with suppress(InvalidInput):  # a value that the column cannot have, or a column inside of a list
            if (text := _text(each)) is not None:
                condition_of(text, layout)
                yield f"({text})"


def _text(given: Any) -> str | None:
    kind = type(given).__name__
    if kind == "Not":
        inner = _text(given.child)
        return None if inner is None else f"NOT ({inner})"
    if kind not in (*_SIGNS, "In", "IsNull", "IsNotNull"):
        return None
    column = ".".join("`{}`".format(part.replace("`", "``")) for part in given.attribute)
    if kind in ("IsNull", "IsNotNull"):
        return f"{column} IS {'NOT ' if kind == 'IsNotNull' else ''}NULL"
    values = [_literal(each) for each in (given.value if kind == "In" else [given.value])]
    if not values or None in values:
        return None
    return f"{column} IN ({', '.join(map(str, values))})" if kind == "In" else f"{column} {_SIGNS[kind]} {values[0]}"


def _literal(value: object) -> str | None:
    if not isinstance(value, _VALUES):
        return None
    return quoted(partition_text(value) or "")
