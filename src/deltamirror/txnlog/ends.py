"""Which files of an imported history ended, and by which commit: every add of a key is ended by the next action on it.

The actions are looked at a range of hashes at a time, so that what is held does not grow with the table.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Table, false, func, select, true, union_all
from sqlalchemy.sql import ColumnElement, Select

from deltamirror.delta.actions import FileKey
from deltamirror.delta.paths import path_identity
from deltamirror.txnlog.database import Row
from deltamirror.txnlog.schema import files, removes

__all__ = ["ends_between", "hash_ranges"]

_SOURCES = (files, removes)
_HASHES = 1 << 32
_HASHES_AT_ONCE = 1_000
_ACTIONS_AT_ONCE = 200_000


def hash_ranges(connection: Connection, table_id: int) -> Iterator[tuple[int, int]]:
    """Ranges of hashes, both ends included, that hold about as many actions of a table as may be looked at at once."""
    counts = (select(func.count()).select_from(each).where(each.c.table_id == table_id) for each in _SOURCES)
    total = sum(int(connection.execute(each).scalar_one()) for each in counts)
    width = _HASHES // (total // _ACTIONS_AT_ONCE + 1) + 1
    return ((first, first + width - 1) for first in range(0, _HASHES, width))


def ends_between(connection: Connection, table_id: int, first: int, last: int) -> list[Row]:
    """The rows of ``dl_file_ends`` for the files whose hash lies in a range."""
    hashes = connection.execute(_repeated(table_id, first, last)).scalars().all()
    ends: list[Row] = []
    for start in range(0, len(hashes), _HASHES_AT_ONCE):
        live: dict[FileKey, tuple[int, int]] = {}
        for row in connection.execute(_actions(table_id, hashes[start : start + _HASHES_AT_ONCE])):
            key = (path_identity(row.path), row.dv_id)
            if (ended := live.pop(key, None)) is not None:
                ends.append((table_id, *ended, row.commit_id))
            if not row.is_remove:
                live[key] = (row.commit_id, row.ordinal)
    return sorted(ends)


def _repeated(table_id: int, first: int, last: int) -> Select[Any]:
    """The hashes that several actions have."""
    hashes = union_all(*(select(each.c.path_hash).where(_within(each, table_id, first, last)) for each in _SOURCES))
    path_hash = hashes.subquery().c.path_hash
    return select(path_hash).group_by(path_hash).having(func.count() > 1)


def _actions(table_id: int, hashes: Sequence[int]) -> Select[Any]:
    """The actions of these hashes, in the order of versions.

    The hashes are named one by one: for a subquery, a server that knows nothing of rows as young as these compares
    each with each.
    """
    actions = union_all(
        *(
            select(
                source.c.commit_id, source.c.ordinal, source.c.path, source.c.dv_id, is_remove.label("is_remove")
            ).where(source.c.table_id == table_id, source.c.path_hash.in_(hashes))
            for source, is_remove in zip(_SOURCES, (false(), true()), strict=True)
        )
    ).subquery()
    return select(actions).order_by(actions.c.commit_id)


def _within(source: Table, table_id: int, first: int, last: int) -> ColumnElement[bool]:
    return (source.c.table_id == table_id) & source.c.path_hash.between(first, last)
