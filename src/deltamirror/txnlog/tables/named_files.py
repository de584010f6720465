"""The files that versions of a table name: those that a reader may still ask for, and those that were named lately.

Paths are spelled as in the log. With a file goes that of its deletion vector.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, select
from sqlalchemy.sql import Select

from deltamirror.batches import batched
from deltamirror.delta import lines
from deltamirror.delta.actions import Cdc, DeletionVector
from deltamirror.delta.validation.vectors import named_paths
from deltamirror.txnlog.content.chunks import read_commit
from deltamirror.txnlog.content.projection import ended_by
from deltamirror.txnlog.database.schema import files, removes, superseded, versions

_AT_ONCE: Final = 10_000
_COMMITS_AT_ONCE: Final = 1_000
_CHANGE_FILE: Final = b'"cdc"'
_VECTOR: Final = msgspec.json.Decoder(DeletionVector)


def retained_paths(connection: Connection, table_id: int, *, published: int, cutoff: int) -> Iterator[str]:
    """Every path that a version since a time names, or one that is not published; a path may come more than once.

    That is: files that were not removed by a published commit before that time, those of stages, which may become part
    of the table, tombstones of that time which came with an import, and change data of commits that are not published.
    """
    dropped = select(superseded.c.commit_id).where(superseded.c.table_id == table_id)
    kept = select(files.c.path, files.c.deletion_vector).where(
        files.c.table_id == table_id, ~ended_by(published, before=cutoff), files.c.commit_id.not_in(dropped)
    )
    tombstones = select(removes.c.path, removes.c.deletion_vector).where(
        removes.c.table_id == table_id, removes.c.deletion_timestamp >= cutoff
    )
    for query in (kept, tombstones):
        yield from _paths(connection, query)
    yield from _unpublished_changes(connection, table_id, published)


def paths_since(connection: Connection, table_id: int, version: int) -> Iterator[str]:
    """Every path that commits after a version have added."""
    c = versions.c
    adding = select(c.commit_id).where(c.table_id == table_id, c.version > version, c.num_added > 0)
    for some in batched(connection.execute(adding).scalars().all(), _COMMITS_AT_ONCE):
        added = (files.c.table_id == table_id) & files.c.commit_id.in_(some)
        yield from _paths(connection, select(files.c.path, files.c.deletion_vector).where(added))


def _paths(connection: Connection, query: Select[Any]) -> Iterator[str]:
    for path, vector in connection.execute(query.execution_options(yield_per=_AT_ONCE)):
        yield from named_paths(path, None if vector is None else _VECTOR.decode(vector))


def _unpublished_changes(connection: Connection, table_id: int, published: int) -> Iterator[str]:
    """Files of change data are in lines only: no state of the table has them."""
    c = versions.c
    waiting = select(c.commit_id).where(c.table_id == table_id, c.version > published).order_by(c.version)
    for commit_id in connection.execute(waiting).scalars().all():
        for data in read_commit(connection, commit_id):
            if _CHANGE_FILE in data:
                yield from (action.path for action in lines.decode_commit(data) if isinstance(action, Cdc))
