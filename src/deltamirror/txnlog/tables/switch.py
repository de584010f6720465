"""Whether a table is mirrored, by the settings and by its own property, as part of a query."""

from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Boolean, case, func, literal, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import ColumnElement
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from deltamirror.config import Switch
from deltamirror.txnlog.database.schema import heads, metadata, tables

_ESCAPED: Final = str.maketrans({"_": "!_", "*": "%", "?": "_"})


@lru_cache(maxsize=16)
def is_switched_on(switch: Switch) -> ColumnElement[bool]:
    """For queries of ``tables`` and their ``heads``: the table's property, or the last pattern, or the default."""
    own = (
        select(metadata.c.mirror_enabled)
        .where(metadata.c.table_id == heads.c.table_id, metadata.c.version == heads.c.metadata_version)
        .correlate(heads)
        .scalar_subquery()
    )
    return func.coalesce(own, _by_name(switch), type_=Boolean)


def _by_name(switch: Switch) -> ColumnElement[bool]:
    last_first = [(_Matches.of(pattern), literal(on)) for pattern, on in reversed(switch.patterns)]
    default = literal(switch.default)
    return case(*last_first, else_=default) if last_first else default


class _Matches(FunctionElement[bool]):
    """Whether the name of a table matches a pattern with ``*`` and ``?``, upper and lower case apart."""

    name = "matches"
    type = Boolean()
    inherit_cache = True

    @classmethod
    def of(cls, pattern: str) -> "_Matches":
        return cls(tables.c.name, literal(pattern), literal(pattern.translate(_ESCAPED)))


@compiles(_Matches, "sqlite", "duckdb")
def _glob(element: _Matches, compiler: SQLCompiler, **options: Any) -> str:
    name, pattern, _ = element.clauses  # only what is rendered is handed to the driver
    return f"({compiler.process(name, **options)} GLOB {compiler.process(pattern, **options)})"


@compiles(_Matches, "postgresql")
def _like(element: _Matches, compiler: SQLCompiler, **options: Any) -> str:
    name, _, pattern = element.clauses
    return f"({compiler.process(name, **options)} LIKE {compiler.process(pattern, **options)} ESCAPE '!')"
