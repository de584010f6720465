"""Which files of an imported history ended, and by which commit: every add of a key is ended by the next action on it.

The actions are looked at a range of hashes at a time, so that the memory does not grow with the table.
"""

from collections.abc import Collection, Iterator
from typing import Any

from sqlalchemy import Connection, Table, false, func, select, true, union_all
from sqlalchemy.sql import ColumnElement, Select

from deltamirror.delta.actions import FileKey
from deltamirror.delta.paths import path_identity
from deltamirror.txnlog.database.access import Row
from deltamirror.txnlog.database.schema import files, removes

_SOURCES = (files, removes)
_COLUMNS = ("path_hash", "commit_id", "ordinal", "path", "dv_id")
_HASHES = 1 << 32
_FEW_HASHES = 10_000
_ACTIONS_AT_ONCE = 200_000


def hash_ranges(connection: Connection, table_id: int) -> Iterator[tuple[int, int]]:
    """Ranges of hashes, both ends included, that hold about as many actions of a table as may be looked at at once."""
    counts = (select(func.count()).select_from(each).where(each.c.table_id == table_id) for each in _SOURCES)
    total = sum(int(connection.execute(each).scalar_one()) for each in counts)
    width = _HASHES // (total // _ACTIONS_AT_ONCE + 1) + 1
    return ((first, first + width - 1) for first in range(0, _HASHES, width))


def ends_between(connection: Connection, table_id: int, first: int, last: int) -> list[Row]:
    """The rows of ``dl_file_ends`` for the files whose hash lies in a range."""
    repeated = set(connection.execute(_repeated(table_id, first, last)).scalars())
    ends: list[Row] = []
    live: dict[FileKey, tuple[int, int]] = {}
    for path_hash, commit_id, ordinal, path, vector, is_remove in connection.execute(
        _actions(table_id, first, last, repeated)
    ):
        if path_hash not in repeated:
            continue
        key = (path_identity(path), vector)
        if (ended := live.pop(key, None)) is not None:
            ends.append((table_id, *ended, commit_id))
        if not is_remove:
            live[key] = (commit_id, ordinal)
    return sorted(ends)


def _repeated(table_id: int, first: int, last: int) -> Select[Any]:
    """The hashes that several actions have."""
    hashes = union_all(*(select(each.c.path_hash).where(_within(each, table_id, first, last)) for each in _SOURCES))
    path_hash = hashes.subquery().c.path_hash
    return select(path_hash).group_by(path_hash).having(func.count() > 1)


def _actions(table_id: int, first: int, last: int, hashes: Collection[int]) -> Select[Any]:
    """The actions of these hashes, in the order of versions; of all hashes of the range, where these are many.

    Few are named one by one. A subquery in their place would make PostgreSQL, which knows nothing of rows as young as
    these, compare each with each, and names in batches make DuckDB look at the whole table for each of them.
    """
    are_few = len(hashes) <= _FEW_HASHES
    actions = union_all(
        *(
            select(*(source.c[name] for name in _COLUMNS), is_remove.label("is_remove"))
            .where(_within(source, table_id, first, last))
            .where(source.c.path_hash.in_(sorted(hashes)) if are_few else true())
            for source, is_remove in zip(_SOURCES, (false(), true()), strict=True)
        )
    ).subquery()
    return select(actions).order_by(actions.c.commit_id)


def _within(source: Table, table_id: int, first: int, last: int) -> ColumnElement[bool]:
    return (source.c.table_id == table_id) & source.c.path_hash.between(first, last)
