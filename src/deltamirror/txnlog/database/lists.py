"""Conditions on lists of numbers whose length differs from one call to the next."""

from typing import Any, Final, Self

from sqlalchemy import BigInteger, Boolean, any_, bindparam
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import ColumnElement
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.operators import OperatorType

_NUMBERS: Final = ARRAY(BigInteger)


class one_of(FunctionElement[bool]):  # noqa: N801  read as a condition, like the functions of SQLAlchemy
    """Whether a column is among the numbers of a parameter.

    PostgreSQL takes the list as one value: the statement is the same for any number of them, and stays prepared. The
    drivers of the other two have no lists, so there each number is a value of the statement.
    """

    type = Boolean()
    inherit_cache = True

    def __init__(self, column: ColumnElement[int], parameter: str) -> None:
        super().__init__(column, bindparam(parameter, type_=_NUMBERS))

    def self_group(self, against: OperatorType | None = None) -> Self:
        """As it is. A condition that is compared with 1, as others are where there is no boolean, finds no index."""
        return self


@compiles(one_of)
def _spelled_out(element: one_of, compiler: SQLCompiler, **options: Any) -> str:
    column, numbers = element.clauses
    return compiler.process(column.in_(bindparam(numbers.key, expanding=True, type_=column.type)), **options)


@compiles(one_of, "postgresql")
def _as_list(element: one_of, compiler: SQLCompiler, **options: Any) -> str:
    column, numbers = element.clauses
    return compiler.process(column == any_(numbers), **options)
