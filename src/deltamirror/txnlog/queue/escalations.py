"""Versions and checkpoints that failed more often than is normal: told of once, until they succeed after all."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from sqlalchemy import Connection, select, update

from deltamirror.errors import DeltaMirrorError
from deltamirror.txnlog.database.access import Session
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.schema import escalations
from deltamirror.txnlog.database.upsert import upsert
from deltamirror.txnlog.queue.attempts import stored_message
from deltamirror.work import Lane, Lease

Escalates: TypeAlias = Callable[[DeltaMirrorError, int], bool]
"""Whether an operator has to look at a failure, by its error and by how many attempts there were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalation:
    """A version or checkpoint that an operator has, or had, to look at."""

    version: int
    lane: str
    opened_at: int
    error_code: str
    error_message: str
    closed_at: int | None
    """When it succeeded after all."""


def open_escalation(session: Session, table_id: int, lane: Lane, version: int, error: DeltaMirrorError) -> bool:
    """Record that an operator has to look; whether that is news."""
    told = upsert(escalations).values(
        table_id=table_id,
        version=version,
        lane=lane.value,
        opened_at=CLOCK,
        error_code=error.code,
        error_message=stored_message(error),
    )
    again = {name: told.excluded[name] for name in ("opened_at", "error_code", "error_message", "closed_at")}
    keys = [escalations.c.table_id, escalations.c.version, escalations.c.lane]
    opened = told.on_conflict_do_update(index_elements=keys, set_=again, where=escalations.c.closed_at.is_not(None))
    return session.execute(opened.returning(escalations.c.version)).first() is not None


def close_escalations(session: Session, lease: Lease, *, first: int, last: int) -> None:
    """Close the escalations of these versions of a table."""
    c = escalations.c
    open_ones = (c.table_id == lease.table_id) & (c.lane == lease.lane.value) & c.closed_at.is_(None)
    session.execute(update(escalations).where(open_ones, c.version.between(first, last)).values(closed_at=CLOCK))


def escalations_of(connection: Connection, table_id: int, version: int | None = None) -> list[Escalation]:
    """What was escalated of a table, or of one version of it, oldest first."""
    columns = [escalations.c[name] for name in Escalation.__dataclass_fields__]
    query = select(*columns).where(escalations.c.table_id == table_id)
    if version is not None:
        query = query.where(escalations.c.version == version)
    ordered = query.order_by(escalations.c.opened_at, escalations.c.version)
    return [Escalation(**row._asdict()) for row in connection.execute(ordered)]
