"""Rows of numbers that a statement takes as one value: it changes many rows by numbers of their own, or finds them."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import BigInteger, Text, bindparam, column
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import TableValuedAlias

_SOURCES: Final = {
    "postgresql": ("(value ->> {place})::bigint", "jsonb_array_elements({rows}::jsonb) AS value"),
    "sqlite": ("json_extract(value, '$[{place}]')", "json_each({rows})"),
    "duckdb": (
        "CAST(json_extract_string(value, '$[{place}]') AS BIGINT)",
        "(SELECT unnest(from_json({rows}, '[\"JSON\"]')) AS value) AS rows",
    ),
}
"""How each engine reads a number of a row, and the rows themselves."""


def number_rows(parameter: str, *names: str) -> TableValuedAlias:
    """The rows of a parameter, ``rows_value``, as a table with these columns. The order of rows is theirs."""
    found = _NumberRows(parameter, names)
    return found.table_valued(*(column(name, BigInteger) for name in names), name=parameter)


def rows_value(rows: Iterable[Sequence[int | None]]) -> str:
    """The value of such a parameter: a number, or none, for each of its columns."""
    return json.dumps([list(row) for row in rows], separators=(",", ":"))


class _NumberRows(FunctionElement[Any]):
    inherit_cache = True  # with the names, which are arguments: statements with others are compiled by themselves

    def __init__(self, parameter: str, names: Sequence[str]) -> None:
        super().__init__(bindparam(parameter, type_=Text), *map(column, names))


@compiles(_NumberRows)
def _read(element: _NumberRows, compiler: SQLCompiler, **options: Any) -> str:
    number, source = _SOURCES[compiler.dialect.name]
    rows, *named = element.clauses
    columns = (f"{number.format(place=place)} AS {each.name}" for place, each in enumerate(named))
    read = source.format(rows=compiler.process(rows, **options))
    return f"(SELECT {', '.join(columns)} FROM {read})"  # noqa: S608  of names in the code, and a bound parameter
