"""The state that an imported table begins with, as lines: for who cannot start from the checkpoint that it was in."""

from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.engine import Row
from sqlalchemy.sql import Select

from deltamirror.delta import lines
from deltamirror.delta.actions import Action, DomainMetadata, Txn
from deltamirror.delta.chunks import Chunk, compressed_chunk
from deltamirror.txnlog.content.rows import ADD_COLUMNS, REMOVE_COLUMNS, add_of, remove_of
from deltamirror.txnlog.content.state import in_force
from deltamirror.txnlog.database.schema import app_transactions, domains, files, removes, versions

__all__ = ["base_chunks"]

_ROWS_AT_ONCE = 10_000


def base_chunks(connection: Connection, table_id: int, version: int) -> Iterator[Chunk]:
    """The state of the version that a table begins with: protocol, metaData, txn, domainMetadata, add, remove."""
    yield _chunk([*in_force(connection, table_id, version), *_named(connection, table_id, version)])
    own = (versions.c.table_id == table_id) & (versions.c.version == version)
    commit_id = int(connection.execute(select(versions.c.commit_id).where(own)).scalar_one())
    adds = select(*ADD_COLUMNS).where(files.c.table_id == table_id, files.c.commit_id == commit_id)
    tombstones = select(*REMOVE_COLUMNS).where(removes.c.table_id == table_id, removes.c.commit_id == commit_id)
    yield from _files(connection, adds, add_of)
    yield from _files(connection, tombstones, remove_of)


def _named(connection: Connection, table_id: int, version: int) -> Iterator[Action]:
    txn, domain = app_transactions.c, domains.c
    for row in connection.execute(select(app_transactions).where(txn.table_id == table_id, txn.version == version)):
        yield Txn(app_id=row.app_id, version=row.app_version, last_updated=row.last_updated)
    for row in connection.execute(select(domains).where(domain.table_id == table_id, domain.version == version)):
        yield DomainMetadata(domain=row.domain, configuration=row.configuration, removed=row.removed)


def _files(connection: Connection, query: Select[Any], action_of: Callable[[Row[Any]], Action]) -> Iterator[Chunk]:
    for rows in connection.execute(query.execution_options(yield_per=_ROWS_AT_ONCE)).partitions():
        yield _chunk([action_of(row) for row in rows])


def _chunk(actions: list[Action]) -> Chunk:
    return compressed_chunk(lines.encode_commit(actions))
