"""Which tables have something to do, and claiming them: their leases are taken, those that wait longest first."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Connection, and_, bindparam, case, false, func, or_, select, true
from sqlalchemy.engine import Row
from sqlalchemy.sql import ColumnElement, Select
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from deltamirror.config import Switch
from deltamirror.steps import Step
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.lists import one_of
from deltamirror.txnlog.database.schema import (
    UNWRITTEN,
    WRITTEN,
    checkpoints,
    heads,
    leases,
    mirror_status,
    tables,
    versions,
)
from deltamirror.txnlog.queue.leases import milliseconds, take_free
from deltamirror.txnlog.queue.pause import ALL_PAUSED
from deltamirror.txnlog.tables.registry import in_store
from deltamirror.txnlog.tables.switch import is_switched_on
from deltamirror.work import Lane, Lease, Status

_ALL_ON: Final = Switch()
_CLAIMED: Final = {Lane.COMMITS: Step.CLAIM_COMMITS, Lane.CHECKPOINTS: Step.CLAIM_CHECKPOINT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A table that is ours for a while, and what has to be known of it to plan the work."""

    lease: Lease
    name: str
    location: str
    head: int
    published: int
    """-1 while nothing is published."""
    log_start: int
    failed: bool = False
    """In the lane of commits: whether the first version to publish failed before, or was published and is gone."""
    checkpoint: int = -1
    """In the lane of checkpoints: the version of the one to write."""

    @property
    def table_id(self) -> int:
        """The table."""
        return self.lease.table_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """A table whose next commit has been due for long, though nothing keeps a service from publishing it."""

    name: str
    location: str
    version: int
    committed_at: int
    owner: str | None
    """Who holds its lease, for as long as that; None: it is not leased."""


def overdue(connection: Connection, switch: Switch, *, seconds: float, limit: int) -> list[Overdue]:
    """The tables that wait for so many seconds without an attempt, a publication or a new lease; the longest first."""
    long_ago, status = CLOCK - milliseconds(seconds), mirror_status.c
    due = or_(status.next_attempt_at.is_(None), status.next_attempt_at <= long_ago)
    quiet = and_(versions.c.committed_at <= long_ago, status.updated_at <= long_ago, due)
    ours = or_(_IS_FREE, leases.c.claimed_at <= long_ago)
    last = mirror_status.alias("last_published").c
    published = (last.table_id == tables.c.table_id) & (last.version == tables.c.published_version)
    published_lately = select(last.version).where(published, last.published_at > long_ago).correlate(tables).exists()
    query = _any_unpublished().add_columns(
        versions.c.committed_at, case((_IS_FREE, None), else_=leases.c.owner).label("owner")
    )
    late = query.where(quiet, ours, ~published_lately, is_switched_on(switch))
    candidates = _candidates(connection, Lane.COMMITS, switch)
    if candidates is not None and not candidates:
        return []
    rows = connection.execute(*_among(late, candidates, at_most=limit))
    return [
        Overdue(
            name=row.name,
            location=row.location,
            version=row.published_version + 1,
            committed_at=row.committed_at,
            owner=row.owner,
        )
        for row in rows
    ]


def claim(
    database: Database,
    *,
    lane: Lane,
    owner: str,
    seconds: float,
    limit: int,
    table_ids: Sequence[int] | None = None,
    except_stores: Sequence[str] = (),
    except_retries: Sequence[str] = (),
    open_circuits: Sequence[str] = (),
    retry_max: float = math.inf,
    switch: Switch = _ALL_ON,
    now: Callable[[], float] = time.time,
) -> list[Claim]:
    """Claim tables that have something to do and whose leases are free, those that wait longest first.

    A table has commits to do if its first unpublished version is due, and a checkpoint to do if the newest that was
    asked for, or the one that its log starts with, is not written and due; a table that is paused, in quarantine or
    switched off has nothing to do. A failure is due before its time if the table was committed to since, ``retry_max``
    seconds after it. ``table_ids`` restricts the choice to tables that the caller asks for: their commits are due
    whatever was planned after a failure. ``except_stores`` leaves out the tables whose locations begin with one of
    these, ``except_retries`` those of them that failed, and ``open_circuits`` those that failed or were never served.
    """
    waiting = _claimable(
        lane,
        is_asked_for=table_ids is not None,
        except_stores=tuple(except_stores),
        except_retries=tuple(except_retries),
        open_circuits=tuple(open_circuits),
        retry_max=retry_max,
        switch=switch,
    )
    return _claimed(
        database,
        waiting,
        limit=limit,
        lane=lane,
        owner=owner,
        seconds=seconds,
        table_ids=table_ids,
        switch=switch,
        now=now,
    )


@lru_cache(maxsize=64)
def _claimable(
    lane: Lane,
    *,
    is_asked_for: bool,
    except_stores: tuple[str, ...],
    except_retries: tuple[str, ...],
    open_circuits: tuple[str, ...],
    retry_max: float,
    switch: Switch,
) -> Select[Any]:
    """The query of ``claim``. A service asks the same one at every poll, and to build it costs more than to run it."""
    waiting = _asked_for(lane) if is_asked_for else _waiting(lane, retry_max)
    failed = _status(lane).state == Status.FAILED
    for store in except_stores:
        waiting = waiting.where(~in_store(store))
    for store in except_retries:
        waiting = waiting.where(~(in_store(store) & failed))
    for store in open_circuits:
        waiting = waiting.where(~(in_store(store) & or_(failed, tables.c.published_version < 0)))
    return waiting.where(is_switched_on(switch))


def claim_in_store(
    database: Database,
    store: str,
    *,
    lane: Lane,
    owner: str,
    seconds: float,
    codes: Sequence[str],
    unless_table: int | None = None,
    table_ids: Sequence[int] | None = None,
    switch: Switch = _ALL_ON,
    now: Callable[[], float] = time.time,
) -> list[Claim]:
    """Take on one table of a store, if there is one: to see whether the store, which was away, is back.

    One that did not fail comes first, then the one that failed least: it was healthy last, and a table that stays in
    trouble is not in the way of the others. A failure in one of the classes ``codes`` is not waited out, but for that
    of ``unless_table``.
    """
    status = _status(lane)
    waiting = _any_waiting(lane) if table_ids is None else _asked_for(lane)
    if table_ids is None:
        impatient = status.error_code.in_(codes) & tables.c.table_id.is_distinct_from(unless_table)
        waiting = waiting.where(or_(_due(status.next_attempt_at), impatient))
    failed = case((status.state == Status.FAILED, 1), else_=0)
    healthiest = (failed, status.attempts, status.updated_at, tables.c.table_id)
    chosen = waiting.where(in_store(store), is_switched_on(switch)).order_by(None).order_by(*healthiest)
    return _claimed(
        database,
        chosen,
        limit=1,
        lane=lane,
        owner=owner,
        seconds=seconds,
        table_ids=table_ids,
        switch=switch,
        now=now,
    )


def _claimed(
    database: Database,
    waiting: Select[Any],
    *,
    limit: int,
    lane: Lane,
    owner: str,
    seconds: float,
    table_ids: Sequence[int] | None,
    switch: Switch,
    now: Callable[[], float],
) -> list[Claim]:
    begun = now()
    with database.read() as connection:
        candidates = _candidates(connection, lane, switch) if table_ids is None else table_ids
        if candidates is not None and not candidates:
            return []  # the common case, without a look at versions
        if connection.execute(*_among(waiting, candidates, at_most=1)).first() is None:
            return []  # without a write transaction
    with database.write(_CLAIMED[lane]) as session:
        session.lock_claims()
        found = {row.table_id: row for row in session.execute(*_among(waiting, candidates, at_most=limit))}
        epochs = take_free(session, list(found), lane=lane, owner=owner, seconds=seconds) if found else {}
    return [
        _claim(row, Lease(table_id=each, lane=lane, owner=owner, epoch=epochs[each], held_until=begun + seconds))
        for each, row in found.items()
        if each in epochs
    ]


_MOST_CANDIDATES: Final = 1_000
_NOT_HELD_BACK: Final = (~tables.c.mirror_paused, tables.c.quarantined_at.is_(None), ~ALL_PAUSED)
_TO_WRITE: Final = select(checkpoints.c.table_id).distinct().where(UNWRITTEN)


@lru_cache(maxsize=16)
def _behind(switch: Switch) -> Select[Any]:
    # The settings of a table are looked up only if it is behind. Without a limit, which would make PostgreSQL look up
    # each head by itself.
    waits = case((heads.c.version > tables.c.published_version, is_switched_on(switch)), else_=false())
    own = heads.c.table_id == tables.c.table_id
    return select(tables.c.table_id).join(heads, own).where(waits, *_NOT_HELD_BACK)


def _candidates(connection: Connection, lane: Lane, switch: Switch) -> Sequence[int] | None:
    """The tables that may have something to do; None where they are many, so that a look at all is not in vain.

    They are asked for first: a planner that does not know how few they are goes through the records of all versions.
    """
    query = _behind(switch) if lane is Lane.COMMITS else _TO_WRITE
    found = list(connection.execute(query).scalars())
    return found if len(found) <= _MOST_CANDIDATES else None


def _among(
    waiting: Select[Any], candidates: Sequence[int] | None, *, at_most: int
) -> tuple[Select[Any], Mapping[str, Any]]:
    """A query of some of these tables, with its values; of any if there are no candidates."""
    if candidates is None:
        return waiting, {"at_most": at_most}
    return _chosen(waiting), {"at_most": at_most, "candidates": list(candidates)}


@lru_cache(maxsize=64)
def _chosen(waiting: Select[Any]) -> Select[Any]:
    return waiting.where(one_of(tables.c.table_id, "candidates"))


_IS_FREE: ColumnElement[bool] = or_(leases.c.expires_at.is_(None), leases.c.expires_at <= CLOCK)


def _active(lane: Lane) -> Select[Any]:
    """The tables that may be mirrored, ``at_most`` so many."""
    return (
        select(
            tables.c.table_id,
            tables.c.name,
            tables.c.location,
            heads.c.version.label("head"),
            tables.c.published_version,
            tables.c.log_start,
        )
        .join(heads, heads.c.table_id == tables.c.table_id)
        .outerjoin(leases, (leases.c.table_id == tables.c.table_id) & (leases.c.lane == lane.value))
        .where(*_NOT_HELD_BACK)
        .limit(bindparam("at_most"))
    )


def _due(next_attempt_at: ColumnElement[Any]) -> ColumnElement[bool]:
    return or_(next_attempt_at.is_(None), next_attempt_at <= CLOCK)


def _unpublished() -> Select[Any]:
    return _any_unpublished().where(_IS_FREE)


def _any_unpublished() -> Select[Any]:
    """The tables that wait to be published to, leased or not."""
    first = tables.c.published_version + 1
    return (
        _active(Lane.COMMITS)
        .add_columns(mirror_status.c.state)
        .join(versions, (versions.c.table_id == tables.c.table_id) & (versions.c.version == first))
        .join(mirror_status, (mirror_status.c.table_id == tables.c.table_id) & (mirror_status.c.version == first))
        .where(heads.c.version > tables.c.published_version)
        .order_by(versions.c.committed_at, tables.c.table_id)
    )


def _unwritten() -> Select[Any]:
    asked = checkpoints.alias("asked")
    requests = (asked.c.table_id == tables.c.table_id) & (asked.c.version <= tables.c.published_version)
    newest = select(func.max(asked.c.version)).where(requests).scalar_subquery()
    # A request that is superseded while it waits leaves its place to the newer one: a table whose writer is ahead has a
    # newer one before each turn.
    since = select(func.min(asked.c.created_at)).where(requests, asked.c.state != WRITTEN).scalar_subquery()
    # Not as a condition on versions: SQLite would look up their range, in which nearly all checkpoints are written.
    is_due = case((or_(checkpoints.c.version == newest, _BEGINS_LOG, _WAS_WRITTEN), true()), else_=false())
    return (
        _active(Lane.CHECKPOINTS)
        .where(_IS_FREE)
        .add_columns(checkpoints.c.version.label("checkpoint"))
        .join(checkpoints, checkpoints.c.table_id == tables.c.table_id)
        .where(UNWRITTEN, is_due)
        # One that was tried goes behind the others, also if how that ended is unknown: its worker may have died of it.
        .order_by(case((leases.c.claimed_at > since, leases.c.claimed_at), else_=since), tables.c.table_id)
    )


# No reader can open the oldest versions of a log without it, whatever checkpoints follow.
_BEGINS_LOG: ColumnElement[bool] = and_(checkpoints.c.version == tables.c.log_start, tables.c.log_start > 0)


# Readers may rely on it: one that was lost is written again, though a newer one is there.
_WAS_WRITTEN: ColumnElement[bool] = and_(
    checkpoints.c.name.is_not(None),
    checkpoints.c.version.between(tables.c.log_start, tables.c.published_version),
)


def _status(lane: Lane) -> ReadOnlyColumnCollection[str, Any]:
    return mirror_status.c if lane is Lane.COMMITS else checkpoints.c


def _any_waiting(lane: Lane) -> Select[Any]:
    return _unpublished() if lane is Lane.COMMITS else _unwritten()


def _waiting(lane: Lane, retry_max: float) -> Select[Any]:
    due = _due(_status(lane).next_attempt_at)
    if lane is Lane.COMMITS and math.isfinite(retry_max):
        tried = mirror_status.c.updated_at
        due = or_(due, (heads.c.committed_at > tried) & (tried <= CLOCK - milliseconds(retry_max)))
    return _any_waiting(lane).where(due)


def _asked_for(lane: Lane) -> Select[Any]:
    """Of tables that a caller asks for: their commits are due whatever was planned."""
    return _unpublished() if lane is Lane.COMMITS else _waiting(lane, math.inf)


def _claim(row: Row[Any], lease: Lease) -> Claim:
    return Claim(
        lease=lease,
        name=row.name,
        location=row.location,
        head=row.head,
        published=row.published_version,
        log_start=row.log_start,
        failed=lease.lane is Lane.COMMITS and row.state == Status.FAILED,
        checkpoint=row.checkpoint if lease.lane is Lane.CHECKPOINTS else -1,
    )
