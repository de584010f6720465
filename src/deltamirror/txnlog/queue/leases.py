"""Who mirrors which table, and until when.

A lease is a row with an owner, an epoch and a time by the database's clock. Every claim raises the epoch: late work
under a stale lease can be told from that of the present owner. Rows are locked in the order of their keys, so that
no two processes wait for each other, and nothing that a writer locks is ever locked here.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Connection, and_, bindparam, case, func, literal, or_, select, update
from sqlalchemy.engine import Row
from sqlalchemy.sql import ColumnElement, Select
from sqlalchemy.sql.base import ReadOnlyColumnCollection
from sqlalchemy.sql.dml import ReturningInsert

from deltamirror.config import Switch
from deltamirror.errors import LeaseLost
from deltamirror.steps import Step
from deltamirror.txnlog.database.access import Database, Session
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.lists import one_of
from deltamirror.txnlog.database.schema import checkpoints, heads, leases, mirror_status, tables, versions
from deltamirror.txnlog.database.upsert import upsert
from deltamirror.txnlog.queue.pause import ALL_PAUSED
from deltamirror.txnlog.tables.registry import in_store
from deltamirror.txnlog.tables.switch import is_switched_on
from deltamirror.work import Lane, Lease, Status

__all__ = [
    "Claim",
    "Overdue",
    "claim",
    "claim_in_store",
    "held_for",
    "keep",
    "overdue",
    "release",
    "renew",
    "surrender",
    "surrender_all",
    "take",
    "under",
]

_ALL_ON: Final = Switch()
_CLAIMED: Final = {Lane.COMMITS: Step.CLAIM_COMMITS, Lane.CHECKPOINTS: Step.CLAIM_CHECKPOINT}
_TAKEN: Final = {
    Lane.COMMITS: Step.TAKE_COMMITS,
    Lane.CHECKPOINTS: Step.TAKE_CHECKPOINTS,
    Lane.RECONCILIATION: Step.TAKE_TURN,
    Lane.MAINTENANCE: Step.TAKE_MAINTENANCE,
}


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
    long_ago, status = CLOCK - _milliseconds(seconds), mirror_status.c
    due = or_(status.next_attempt_at.is_(None), status.next_attempt_at <= long_ago)
    quiet = and_(versions.c.committed_at <= long_ago, status.updated_at <= long_ago, due)
    ours = or_(_IS_FREE, leases.c.claimed_at <= long_ago)
    last = mirror_status.alias("last_published").c
    published = (last.table_id == tables.c.table_id) & (last.version == tables.c.published_version)
    published_lately = select(last.version).where(published, last.published_at > long_ago).correlate(tables).exists()
    query = _any_unpublished().add_columns(
        versions.c.committed_at, case((_IS_FREE, None), else_=leases.c.owner).label("owner")
    )
    rows = connection.execute(query.where(quiet, ours, ~published_lately, is_switched_on(switch)), {"at_most": limit})
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
        table_ids=None if table_ids is None else tuple(table_ids),
        except_stores=tuple(except_stores),
        except_retries=tuple(except_retries),
        open_circuits=tuple(open_circuits),
        retry_max=retry_max,
        switch=switch,
    )
    return _claimed(database, waiting, limit=limit, lane=lane, owner=owner, seconds=seconds, now=now)


@lru_cache(maxsize=64)
def _claimable(
    lane: Lane,
    *,
    table_ids: tuple[int, ...] | None,
    except_stores: tuple[str, ...],
    except_retries: tuple[str, ...],
    open_circuits: tuple[str, ...],
    retry_max: float,
    switch: Switch,
) -> Select[Any]:
    """The query of ``claim``. A service asks the same one at every poll, and to build it costs more than to run it."""
    waiting = _waiting(lane, retry_max) if table_ids is None else _asked_for(lane, table_ids)
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
    waiting = _any_waiting(lane) if table_ids is None else _asked_for(lane, table_ids)
    if table_ids is None:
        impatient = status.error_code.in_(codes) & tables.c.table_id.is_distinct_from(unless_table)
        waiting = waiting.where(or_(_due(status.next_attempt_at), impatient))
    failed = case((status.state == Status.FAILED, 1), else_=0)
    healthiest = (failed, status.attempts, status.updated_at, tables.c.table_id)
    chosen = waiting.where(in_store(store), is_switched_on(switch)).order_by(None).order_by(*healthiest)
    return _claimed(database, chosen, limit=1, lane=lane, owner=owner, seconds=seconds, now=now)


def take(
    database: Database, table_id: int, *, lane: Lane, owner: str, seconds: float, now: Callable[[], float] = time.time
) -> Lease | None:
    """The lease of one table, whether or not it has something to do; None while another process holds it."""
    begun = now()
    with database.write(_TAKEN[lane]) as session:
        session.lock_claims()
        epochs = _take(session, [table_id], lane=lane, owner=owner, seconds=seconds)
    if table_id not in epochs:
        return None
    return Lease(table_id=table_id, lane=lane, owner=owner, epoch=epochs[table_id], held_until=begun + seconds)


def renew(
    database: Database, held: Iterable[Lease], *, seconds: float, now: Callable[[], float] = time.time
) -> list[Lease]:
    """Renew leases, from this moment on. Those that are still held: another process may have an expired one."""
    begun = now()
    with database.write(Step.RENEW_LEASES) as session:
        kept = [lease for lease in _in_order(held) if keep(session, lease, seconds=seconds)]
    return [replace(lease, held_until=begun + seconds) for lease in kept]


def keep(session: Session, lease: Lease, *, seconds: float) -> bool:
    """Hold a lease for longer; whether it is still held. Until the transaction ends no other process gets it."""
    values = {**_identity(lease), "duration": _milliseconds(seconds)}
    return session.execute(_RENEW, values).first() is not None


@contextmanager
def under(database: Database, step: Step, lease: Lease, *, seconds: float) -> Iterator[Session]:
    """A transaction of the holder of a lease, which renews it; ``LeaseLost`` if another process holds it."""
    with database.write(step) as session:
        if not keep(session, lease, seconds=seconds):
            raise LeaseLost("another process holds the lease of this log", hint="no action needed")
        yield session


def release(database: Database, held: Iterable[Lease]) -> None:
    """Give leases back; those that other processes hold by now stay theirs."""
    with database.write(Step.RELEASE_LEASES) as session:
        for lease in _in_order(held):
            surrender(session, lease)


def surrender(session: Session, lease: Lease) -> int | None:
    """Give a lease back and learn when it was claimed; None if it was lost or given back before.

    Until the transaction ends no other process gets it, even if it has expired: all that is recorded in the same
    transaction is recorded by its owner.
    """
    claimed_at: int | None = session.execute(_SURRENDER, _identity(lease)).scalar_one_or_none()
    return claimed_at


def surrender_all(session: Session, held: Sequence[Lease]) -> dict[Lease, int]:
    """Give leases of one owner and lane back, and learn when each was claimed; see ``surrender``."""
    mine = {"in_lane": held[0].lane.value, "by_owner": held[0].owner, "of_tables": [each.table_id for each in held]}
    found = {row.table_id: row for row in session.execute(session.locking(_HELD_BY), mine)}
    kept = [each for each in held if each.table_id in found and found[each.table_id].epoch == each.epoch]
    if kept:
        session.execute(_SURRENDER_ALL, {**mine, "of_tables": [each.table_id for each in kept]})
    return {each: found[each.table_id].claimed_at for each in kept}


def held_for(database: Database, lease: Lease) -> float:
    """For how many seconds no other process can get a lease, from the moment of asking; 0 if it is not held."""
    found = database.glance(_HELD, _identity(lease))
    return found[0][0] / 1_000 if found else 0.0


_MINE: ColumnElement[bool] = and_(
    leases.c.table_id == bindparam("of_table"),
    leases.c.lane == bindparam("in_lane"),
    leases.c.owner == bindparam("by_owner"),
    leases.c.epoch == bindparam("at_epoch"),
)
_HELD = select(leases.c.expires_at - CLOCK).where(_MINE, leases.c.expires_at > CLOCK)
_LONGER = CLOCK + bindparam("duration")
# Never shorter, though leases are by now: an executor may go by what it was promised.
_RENEW = (
    update(leases)
    .where(_MINE, leases.c.expires_at > CLOCK)
    .values(expires_at=case((leases.c.expires_at > _LONGER, leases.c.expires_at), else_=_LONGER))
    .returning(leases.c.epoch)
)
_OF_OWNER: ColumnElement[bool] = and_(
    one_of(leases.c.table_id, "of_tables"),
    leases.c.lane == bindparam("in_lane"),
    leases.c.owner == bindparam("by_owner"),
)
_HELD_BY = (
    select(leases.c.table_id, leases.c.epoch, leases.c.claimed_at)
    .where(_OF_OWNER, leases.c.expires_at > 0)
    .order_by(leases.c.table_id)  # the order in which they are renewed: no two transactions wait for each other
)
_SURRENDER_ALL = update(leases).where(_OF_OWNER).values(expires_at=0)
_SURRENDER = update(leases).where(_MINE, leases.c.expires_at > 0).values(expires_at=0).returning(leases.c.claimed_at)


def _take(session: Session, table_ids: Sequence[int], *, lane: Lane, owner: str, seconds: float) -> dict[int, int]:
    """The epochs of the leases that were to be had, by table."""
    mine = {"in_lane": lane.value, "by_owner": owner, "duration": _milliseconds(seconds)}
    rows = session.execute(_TAKE, {"of_tables": table_ids, **mine})
    return {row.table_id: row.epoch for row in rows}


def _taking() -> ReturningInsert[tuple[int, int]]:
    """Take the leases of tables, as far as they are to be had."""
    c = leases.c
    wanted = (
        select(
            tables.c.table_id,
            bindparam("in_lane", type_=c.lane.type),
            bindparam("by_owner", type_=c.owner.type),
            literal(1, c.epoch.type),
            CLOCK,
            CLOCK + bindparam("duration", type_=c.expires_at.type),
        )
        .where(one_of(tables.c.table_id, "of_tables"))
        .order_by(tables.c.table_id)
    )
    proposed = upsert(leases).from_select([c.table_id, c.lane, c.owner, c.epoch, c.claimed_at, c.expires_at], wanted)
    return proposed.on_conflict_do_update(
        index_elements=[c.table_id, c.lane],
        set_={
            "owner": proposed.excluded.owner,
            "epoch": c.epoch + 1,
            "claimed_at": proposed.excluded.claimed_at,
            "expires_at": proposed.excluded.expires_at,
        },
        where=c.expires_at <= CLOCK,
    ).returning(c.table_id, c.epoch)


_TAKE: Final = _taking()


def _claimed(
    database: Database,
    waiting: Select[Any],
    *,
    limit: int,
    lane: Lane,
    owner: str,
    seconds: float,
    now: Callable[[], float],
) -> list[Claim]:
    begun = now()
    with database.read() as connection:
        if connection.execute(waiting, {"at_most": 1}).first() is None:
            return []  # the common case, without a write transaction
    with database.write(_CLAIMED[lane]) as session:
        session.lock_claims()
        found = {row.table_id: row for row in session.execute(waiting, {"at_most": limit})}
        epochs = _take(session, list(found), lane=lane, owner=owner, seconds=seconds) if found else {}
    return [
        _claim(row, Lease(table_id=each, lane=lane, owner=owner, epoch=epochs[each], held_until=begun + seconds))
        for each, row in found.items()
        if each in epochs
    ]


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
        .where(~tables.c.mirror_paused, tables.c.quarantined_at.is_(None), ~ALL_PAUSED)
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
    since = select(func.min(asked.c.created_at)).where(requests, asked.c.state != Status.SUCCESS).scalar_subquery()
    return (
        _active(Lane.CHECKPOINTS)
        .where(_IS_FREE)
        .add_columns(checkpoints.c.version.label("checkpoint"))
        .join(checkpoints, checkpoints.c.table_id == tables.c.table_id)
        .where(or_(checkpoints.c.version == newest, _BEGINS_LOG, _WAS_WRITTEN))
        .where(checkpoints.c.state != Status.SUCCESS)
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
        due = or_(due, (heads.c.committed_at > tried) & (tried <= CLOCK - _milliseconds(retry_max)))
    return _any_waiting(lane).where(due)


def _asked_for(lane: Lane, table_ids: Sequence[int]) -> Select[Any]:
    waiting = _unpublished() if lane is Lane.COMMITS else _waiting(lane, math.inf)
    return waiting.where(tables.c.table_id.in_(table_ids))


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


def _identity(lease: Lease) -> dict[str, Any]:
    return {
        "of_table": lease.table_id,
        "in_lane": lease.lane.value,
        "by_owner": lease.owner,
        "at_epoch": lease.epoch,
    }


def _in_order(held: Iterable[Lease]) -> list[Lease]:
    return sorted(held, key=lambda lease: (lease.table_id, lease.lane))


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
