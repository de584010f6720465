"""Pruning the history of a table: the catalog forgets versions that its log does not hold any more.

The first version that is kept is recorded before anything is deleted: from then on no reader is given an earlier one.
Of earlier versions stays what makes up the state of that one: its files, the tombstones that a checkpoint of it has,
the newest metadata, protocol, application transactions and domains, and the rows of versions that these belong to. All
else is deleted in short transactions, the bytes of commits last; none of them locks a row that a commit writes. A
pruning that dies is finished by the next one. It has the lease of the lane RECONCILIATION, as a cleaning has.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Table, bindparam, delete, func, select, tuple_, update
from sqlalchemy.sql import ColumnElement, Select

from deltamirror.batches import batched
from deltamirror.delta.actions import Metadata
from deltamirror.errors import LogChanged
from deltamirror.steps import Step
from deltamirror.txnlog.content.state import in_force
from deltamirror.txnlog.database.access import Database, Session
from deltamirror.txnlog.database.clock import time_of
from deltamirror.txnlog.database.schema import (
    app_transactions,
    attempts,
    chunks,
    domains,
    file_ends,
    files,
    metadata,
    mirror_status,
    protocols,
    removes,
    tables,
    versions,
)
from deltamirror.txnlog.queue.leases import under
from deltamirror.txnlog.tables.registry import TableInfo
from deltamirror.work import Lease

_ROWS_AT_ONCE: Final = 1_000
_VERSIONS_AT_ONCE: Final = 200
_HASHES_AT_ONCE: Final = 500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What is known of a history that is to be pruned."""

    table: TableInfo
    metadata: Metadata
    """At the head."""
    is_unfinished: bool
    """Whether an earlier pruning did not come to its end: the bytes of the last version before the start go last."""
    at: int
    """The time by the database's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstKept:
    """The version that a history comes to begin with."""

    version: int
    committed_at: int
    metadata: Metadata


def history_of(connection: Connection, info: TableInfo) -> History:
    """What is known of the history of a table."""
    c = versions.c
    last = (c.table_id == info.id) & (c.version == info.history_start - 1) & (c.num_chunks > 0)
    return History(
        table=info,
        metadata=in_force(connection, info.id, info.head)[1],
        is_unfinished=connection.execute(select(c.version).where(last)).first() is not None,
        at=time_of(connection),
    )


def first_kept(connection: Connection, table: TableInfo, *, cutoff: int) -> FirstKept:
    """The version that was the newest at a time, unless the log begins earlier, or the history later."""
    c = versions.c
    later = (c.table_id == table.id) & c.version.between(table.history_start, table.log_start)
    young: int | None = connection.execute(
        select(func.min(c.version)).where(later, c.committed_at > cutoff)
    ).scalar_one()
    first = table.log_start if young is None else max(table.history_start, young - 1)
    committed_at = select(c.committed_at).where(c.table_id == table.id, c.version == first)
    return FirstKept(
        version=first,
        committed_at=int(connection.execute(committed_at).scalar_one()),
        metadata=in_force(connection, table.id, first)[1],
    )


class PruningTurn:
    """A process's turn to prune the history of one table. Once the turn is lost, nothing more is deleted."""

    def __init__(self, database: Database, lease: Lease, *, seconds: float) -> None:
        self._database, self._lease, self._seconds = database, lease, seconds
        self._table_id = lease.table_id

    def begin(self, first: int) -> None:
        """Let the history begin with a version that the log begins with, or an earlier one."""
        c = tables.c
        may_rise = (c.table_id == self._table_id) & (c.log_start >= first) & (c.history_start <= first)
        may_rise &= c.quarantined_at.is_(None)
        with self._held(Step.RAISE_HISTORY_START) as session:
            raised = update(tables).where(may_rise).values(history_start=first).returning(c.table_id)
            if session.execute(raised).first() is None:
                raise LogChanged("the log turned out to be incomplete: nothing is pruned", hint="try again later")

    def delete_ended_files(self, first: int) -> int:
        """Delete the rows of files that were removed before a version, or by it; how many these are."""
        deleted = 0
        for some in self._hashes(_ended(self._table_id, first, files.c.path_hash)):
            while number := self._delete_files(first, some):
                deleted += number
        return deleted

    def delete_tombstones(self, first: int, *, expired: int) -> None:
        """Delete the rows of removes before a version, of files that were deleted at a time or earlier."""
        doomed = _tombstones(self._table_id, first) & (func.coalesce(removes.c.deletion_timestamp, 0) <= expired)
        for some in self._hashes(select(removes.c.path_hash).where(doomed)):
            with self._held(Step.PRUNE_ROWS) as session:
                session.execute(delete(removes).where(doomed, removes.c.path_hash.in_(some)))

    def delete_versions(self, first: int) -> None:
        """Delete the bytes of commits before a version, what was recorded of them, and versions that are empty now."""
        with self._database.read() as connection:
            named = select(removes.c.commit_id).where(_tombstones(self._table_id, first)).distinct()
            needed = set(connection.execute(named).scalars())
        before = 0
        while (window := self._window(first, before)) is not None:
            self._delete_window(first, window, needed)
            before = window.stop

    def _delete_files(self, first: int, hashes: Sequence[int]) -> int:
        ended = _ended(self._table_id, first, files.c.commit_id, files.c.ordinal)
        with self._held(Step.PRUNE_ROWS) as session:
            some = ended.where(files.c.path_hash.in_(hashes)).limit(_ROWS_AT_ONCE)
            keys = [(row.commit_id, row.ordinal) for row in session.execute(some)]
            if not keys:
                return 0
            own = (files.c.table_id == self._table_id) & files.c.path_hash.in_(hashes)
            session.execute(delete(files).where(own, tuple_(files.c.commit_id, files.c.ordinal).in_(keys)))
            ends = file_ends.c
            key = tuple_(ends.file_commit_id, ends.file_ordinal)
            session.execute(delete(file_ends).where(ends.table_id == self._table_id, key.in_(keys)))
            _count_out(session, Counter(commit_id for commit_id, _ in keys))
        return len(keys)

    def _window(self, first: int, start: int) -> range | None:
        """The next versions, from one on, that have anything to delete."""
        c = versions.c
        rows = (c.num_chunks > 0) | (c.num_added == 0)
        some = select(c.version).where(_before(self._table_id, first), c.version >= start, rows).order_by(c.version)
        with self._database.read() as connection:
            found = connection.execute(some.limit(_VERSIONS_AT_ONCE)).scalars().all()
        return range(found[0], found[-1] + 1) if found else None

    def _delete_window(self, first: int, window: range, needed: set[int]) -> None:
        with self._held(Step.PRUNE_ROWS) as session:
            for projection in (metadata, protocols):
                session.execute(_outdated(projection, self._table_id, first, window))
            for projection, key in ((app_transactions, "app_id"), (domains, "domain")):
                session.execute(_outdated(projection, self._table_id, first, window, key=key))
            for records in (mirror_status, attempts):
                session.execute(delete(records).where(_within(records, self._table_id, window)))
            within = _within(versions, self._table_id, window)
            rows = session.execute(select(versions.c.commit_id, versions.c.num_added).where(within)).all()
            session.execute(delete(chunks).where(chunks.c.commit_id.in_([row.commit_id for row in rows])))
            empty = [row.commit_id for row in rows if not row.num_added and row.commit_id not in needed]
            own = app_transactions.c
            is_named = select(own.app_id).where(own.table_id == self._table_id, own.version == versions.c.version)
            session.execute(delete(versions).where(within, versions.c.commit_id.in_(empty), ~is_named.exists()))
            session.execute(update(versions).where(within).values(num_chunks=0))

    def _hashes(self, query: Select[Any]) -> Iterator[list[int]]:
        """The hashes that a query finds, some at a time, until it finds no more: their rows are deleted in between."""
        while found := self._some_hashes(query):
            yield from batched(found, _ROWS_AT_ONCE)

    def _some_hashes(self, query: Select[Any]) -> list[int]:
        with self._database.read() as connection:
            return sorted(connection.execute(query.distinct().limit(_HASHES_AT_ONCE)).scalars())

    def _held(self, step: Step) -> AbstractContextManager[Session]:
        return under(self._database, step, self._lease, seconds=self._seconds)


def _before(table_id: int, first: int) -> ColumnElement[bool]:
    return (versions.c.table_id == table_id) & (versions.c.version < first)


def _within(records: Table, table_id: int, window: range) -> ColumnElement[bool]:
    c = records.c
    return (c.table_id == table_id) & c.version.between(window.start, window.stop - 1)


def _ended(table_id: int, first: int, *columns: ColumnElement[Any]) -> Select[Any]:
    """The rows of files that were added before a version, and ended before it or by it."""
    adder, ender = versions.alias("adder"), versions.alias("ender")
    own = (file_ends.c.table_id == files.c.table_id) & (file_ends.c.file_commit_id == files.c.commit_id)
    return (
        select(*columns)
        .select_from(files)
        .join(file_ends, own & (file_ends.c.file_ordinal == files.c.ordinal))
        .join(adder, adder.c.commit_id == files.c.commit_id)
        .join(ender, ender.c.commit_id == file_ends.c.commit_id)
        .where(files.c.table_id == table_id, adder.c.version < first, ender.c.version <= first)
        .distinct()
    )


def _tombstones(table_id: int, first: int) -> ColumnElement[bool]:
    earlier = select(versions.c.commit_id).where(_before(table_id, first))
    return (removes.c.table_id == table_id) & removes.c.commit_id.in_(earlier)


def _outdated(projection: Table, table_id: int, first: int, window: range, *, key: str | None = None) -> Any:
    """Delete the rows of some versions that a later row, up to the first version that is kept, has replaced."""
    newer, c = projection.alias("newer"), projection.c
    replaced = (newer.c.table_id == table_id) & (newer.c.version > c.version) & (newer.c.version <= first)
    if key is not None:
        replaced &= newer.c[key] == c[key]
    is_replaced = select(newer.c.version).where(replaced).correlate(projection).exists()
    return delete(projection).where(_within(projection, table_id, window), is_replaced)


def _count_out(session: Session, deleted: Counter[int]) -> None:
    """The numbers of added files go by the rows that there are: how many files a version has is counted by them."""
    c = versions.c
    fewer = update(versions).where(c.commit_id == bindparam("of_commit"))
    values = [{"of_commit": commit_id, "fewer": number} for commit_id, number in deleted.items()]
    session.execute(fewer.values(num_added=c.num_added - bindparam("fewer")), values)
