"""Who works on which table, and until when.

A lease is a row with an owner, an epoch and a time by the database's clock. Every claim raises the epoch: late work
under a stale lease can be told from that of the present owner. Rows are locked in the order of their keys, so that
no two processes wait for each other, and nothing that a writer locks is ever locked here.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import and_, bindparam, case, exists, literal, select, update
from sqlalchemy.sql import ColumnElement
from sqlalchemy.sql.dml import ReturningInsert

from deltamirror.errors import LeaseLost, NotFound
from deltamirror.steps import Step
from deltamirror.txnlog.database.access import Database, Session
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.lists import one_of
from deltamirror.txnlog.database.number_rows import number_rows, rows_value
from deltamirror.txnlog.database.schema import leases, tables
from deltamirror.txnlog.database.upsert import upsert
from deltamirror.work import Lane, Lease

_TAKEN: Final = {
    Lane.COMMITS: Step.TAKE_COMMITS,
    Lane.CHECKPOINTS: Step.TAKE_CHECKPOINTS,
    Lane.RECONCILIATION: Step.TAKE_TURN,
    Lane.MAINTENANCE: Step.TAKE_MAINTENANCE,
}


def take(
    database: Database, table_id: int, *, lane: Lane, owner: str, seconds: float, now: Callable[[], float] = time.time
) -> Lease | None:
    """The lease of one table, whether or not it has something to do; None while another process holds it.

    NotFound where the table was dropped.
    """
    begun = now()
    with database.write(_TAKEN[lane]) as session:
        session.lock_claims()
        epochs = take_free(session, [table_id], lane=lane, owner=owner, seconds=seconds)
        if not epochs:
            _require_there(session, table_id)
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
    values = {**_identity(lease), "duration": milliseconds(seconds)}
    return session.execute(_RENEW, values).first() is not None


@contextmanager
def under(database: Database, step: Step, lease: Lease, *, seconds: float) -> Iterator[Session]:
    """A transaction of the holder of a lease, which renews it; ``LeaseLost`` if another process holds it.

    NotFound where the table was dropped.
    """
    with database.write(step) as session:
        if not keep(session, lease, seconds=seconds):
            _require_there(session, lease.table_id)
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
    return held_together(database, [lease]).get(lease, 0.0)


def held_together(database: Database, held: Collection[Lease]) -> dict[Lease, float]:
    """The leases of one owner and lane that are held, each with the seconds that ``held_for`` says."""
    [(lane, owner)] = {(each.lane, each.owner) for each in held}
    keys = {each: (each.table_id, each.epoch) for each in held}
    values = {"in_lane": lane.value, "by_owner": owner, "held": rows_value(set(keys.values()))}
    left = {(table_id, epoch): left / 1_000 for table_id, epoch, left in database.glance(_HELD, values)}
    return {each: left[key] for each, key in keys.items() if key in left}


def _require_there(session: Session, table_id: int) -> None:
    gone = select(tables.c.dropped_name).where(tables.c.table_id == table_id, tables.c.name.is_(None))
    if (name := session.execute(gone).scalar()) is not None:
        raise NotFound(f"the table {name!r} was dropped meanwhile", table=name)


_MINE: ColumnElement[bool] = and_(
    leases.c.table_id == bindparam("of_table"),
    leases.c.lane == bindparam("in_lane"),
    leases.c.owner == bindparam("by_owner"),
    leases.c.epoch == bindparam("at_epoch"),
)
# Work on a table that was dropped ends: its location is another's once its leases are over.
_IS_THERE: ColumnElement[bool] = exists().where(tables.c.table_id == leases.c.table_id, tables.c.name.is_not(None))
_WANTED = number_rows("held", "table_id", "epoch")
_HELD = (
    select(leases.c.table_id, leases.c.epoch, leases.c.expires_at - CLOCK)
    .join(_WANTED, and_(leases.c.table_id == _WANTED.c.table_id, leases.c.epoch == _WANTED.c.epoch))
    .where(
        leases.c.lane == bindparam("in_lane"),
        leases.c.owner == bindparam("by_owner"),
        leases.c.expires_at > CLOCK,
        _IS_THERE,
    )
)
_LONGER = CLOCK + bindparam("duration")
# Never shorter, though leases are by now: an executor may go by what it was promised.
_RENEW = (
    update(leases)
    .where(_MINE, leases.c.expires_at > CLOCK, _IS_THERE)
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


def take_free(session: Session, table_ids: Sequence[int], *, lane: Lane, owner: str, seconds: float) -> dict[int, int]:
    """The epochs of the leases that were to be had, by table."""
    mine = {"in_lane": lane.value, "by_owner": owner, "duration": milliseconds(seconds)}
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
        .where(one_of(tables.c.table_id, "of_tables"), tables.c.name.is_not(None))
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


def _identity(lease: Lease) -> dict[str, Any]:
    return {
        "of_table": lease.table_id,
        "in_lane": lease.lane.value,
        "by_owner": lease.owner,
        "at_epoch": lease.epoch,
    }


def _in_order(held: Iterable[Lease]) -> list[Lease]:
    return sorted(held, key=lambda lease: (lease.table_id, lease.lane))


def milliseconds(seconds: float) -> int:
    """As the database counts time."""
    return int(seconds * 1000)
