"""The state that a history begins with, as lines: where version 0 was never imported, or was pruned."""

from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.engine import Row
from sqlalchemy.sql import Select

from deltamirror.delta import lines
from deltamirror.delta.actions import Action, DomainMetadata, Txn
from deltamirror.delta.chunks import Chunk, compressed_chunk
from deltamirror.txnlog.content.projection import ended_by, newest_by_key
from deltamirror.txnlog.content.rows import ADD_COLUMNS, REMOVE_COLUMNS, add_of, remove_of
from deltamirror.txnlog.content.state import in_force
from deltamirror.txnlog.database.schema import app_transactions, domains, files, removes, versions

__all__ = ["base_chunks"]

_ROWS_AT_ONCE = 10_000


def base_chunks(connection: Connection, table_id: int, version: int) -> Iterator[Chunk]:
    """The state of the version that a history begins with: protocol, metaData, txn, domainMetadata, remove, add.

    A file that was removed and added again has a line of each, in this order: the last one counts.
    """
    yield _chunk([*in_force(connection, table_id, version), *_named(connection, table_id, version)])
    is_before = (versions.c.table_id == table_id) & (versions.c.version <= version)
    tombstones = (
        select(*REMOVE_COLUMNS)
        .join(versions, versions.c.commit_id == removes.c.commit_id)
        .where(removes.c.table_id == table_id, is_before)
        .order_by(versions.c.version)
    )
    adds = (
        select(*ADD_COLUMNS)
        .join(versions, versions.c.commit_id == files.c.commit_id)
        .where(files.c.table_id == table_id, is_before, ~ended_by(version))
    )
    yield from _files(connection, tombstones, remove_of)
    yield from _files(connection, adds, add_of)


def _named(connection: Connection, table_id: int, version: int) -> Iterator[Action]:
    for row in connection.execute(newest_by_key(app_transactions, "app_id", table_id, version)):
        yield Txn(app_id=row.app_id, version=row.app_version, last_updated=row.last_updated)
    for row in connection.execute(newest_by_key(domains, "domain", table_id, version)):
        yield DomainMetadata(domain=row.domain, configuration=row.configuration, removed=row.removed)


def _files(connection: Connection, query: Select[Any], action_of: Callable[[Row[Any]], Action]) -> Iterator[Chunk]:
    for rows in connection.execute(query.execution_options(yield_per=_ROWS_AT_ONCE)).partitions():
        yield _chunk([action_of(row) for row in rows])


def _chunk(actions: list[Action]) -> Chunk:
    return compressed_chunk(lines.encode_commit(actions))
