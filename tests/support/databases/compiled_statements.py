"""Statements are compiled once for all databases of a kind that a test process opens.

Every test has a database of its own, and so does nearly every command that it types; a third of their time would go
into compiling the same statements. A service compiles them once, for the one database that it has.
"""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from duckdb_engine import Dialect as DuckdbDialect
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine import Engine
from sqlalchemy.util import LRUCache

from deltamirror.txnlog.database import access

_CACHE: Final = LRUCache[Any, Any](5_000)


@pytest.fixture
def compiled_anew() -> Iterator[None]:
    """For a test that spells statements otherwise: it compiles all of them, and so does the next one."""
    _forget()
    yield
    _forget()


def _forget() -> None:
    _CACHE.clear()
    access._compiled.clear()


def _kind(dialect: Any) -> tuple[Any, ...]:
    """What decides how a statement is spelled."""
    return type(dialect), getattr(dialect, "server_version_info", None), dialect.paramstyle


def _share_between(kind: Any) -> None:
    kind.__hash__ = lambda self: hash(_kind(self))
    kind.__eq__ = lambda self, other: self is other or _kind(self) == _kind(other)


def _share_cache() -> None:
    begin = Engine.__init__

    def begin_with_shared_cache(self: Any, *arguments: Any, **options: Any) -> None:
        begin(self, *arguments, **options)
        self._compiled_cache = _CACHE

    patched: Any = Engine
    patched.__init__ = begin_with_shared_cache


for _dialect in (DuckdbDialect, PGDialect_psycopg, SQLiteDialect_pysqlite):
    _share_between(_dialect)
_share_cache()
