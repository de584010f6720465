"""Breakers: for each store whether requests are made to it, known to all services that share the catalog.

Who changes one locks its row, which is the only row of that transaction that others wait for.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, Final, TypeAlias

from sqlalchemy import Connection, Table, bindparam, case, delete, func, literal, or_, select, update
from sqlalchemy.engine import Row
from sqlalchemy.sql import ColumnElement, Select

from deltamirror.config import Switch
from deltamirror.steps import Step
from deltamirror.txnlog.database.access import Database, Session
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.schema import (
    UNWRITTEN,
    breaker_events,
    breakers,
    checkpoints,
    heads,
    mirror_status,
    tables,
)
from deltamirror.txnlog.database.upsert import upsert
from deltamirror.txnlog.tables.registry import in_store
from deltamirror.txnlog.tables.switch import is_switched_on
from deltamirror.work import Status

_KEPT_EVENTS: Final = 30 * 24 * 3600 * 1000


class BreakerState(StrEnum):
    """Whether requests are made to a store."""

    CLOSED = "closed"  # as usual
    OPEN = "open"  # none
    HALF_OPEN = "half-open"  # those of one unit of work at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """What is known of a store. Nothing has happened to one that has no row."""

    store: str
    state: BreakerState = BreakerState.CLOSED
    failures: int = 0
    """In a row."""
    table_id: int | None = None
    """The table that failed last, unless closed."""
    successes: int = 0
    """In a row, while half-open."""
    changed_at: int = 0
    retry_at: int | None = None
    """Open: when the store may be tried. Half-open: until when only the prober tries it."""
    prober: str | None = None
    error_code: str | None = None
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerEvent:
    """A change of state."""

    at: int
    state: BreakerState
    owner: str
    reason: str


Change: TypeAlias = Callable[[Breaker, int], Breaker]
"""What a breaker becomes, at a time of the database."""


def breaker_of(database: Database, store: str) -> Breaker:
    """The breaker of a store at this moment, by the shortest way."""
    found = database.glance(_OF_STORE, {"of_store": store})
    return _breaker(dict(zip(_NAMES, found[0], strict=True))) if found else Breaker(store=store)


def shut_breakers(database: Database) -> tuple[list[Breaker], int]:
    """The breakers that are not closed, and the time, by the shortest way: every poll asks for them."""
    rows = database.glance(_SHUT, {"closed": BreakerState.CLOSED.value})
    return [_breaker(dict(zip(_NAMES, row[:-1], strict=True))) for row in rows], rows[0][-1] if rows else 0


def all_breakers(connection: Connection) -> list[Breaker]:
    """All breakers that were ever told of a failure, by store."""
    return [_of_row(row) for row in connection.execute(select(breakers).order_by(breakers.c.store))]


def breaker_events_of(connection: Connection, store: str, *, limit: int) -> list[BreakerEvent]:
    """The latest changes of a breaker, the newest first."""
    c = breaker_events.c
    newest = select(breaker_events).where(c.store == store).order_by(c.changed_at.desc(), c.state).limit(limit)
    return [
        BreakerEvent(at=row.changed_at, state=BreakerState(row.state), owner=row.owner, reason=row.reason)
        for row in connection.execute(newest)
    ]


def change_breaker(
    session: Session, store: str, change: Change, *, owner: str, reason: Callable[[Breaker], str]
) -> tuple[Breaker, Breaker]:
    """The breaker before and after a change. A change of state is an event, with its reason."""
    row = session.execute(_LOCKED, {"of_store": store}).one()
    before = _of_row(row)
    after = change(before, row.at)
    if after != before:
        values = {**asdict(after), "state": after.state.value}
        session.execute(update(breakers).where(breakers.c.store == store).values(values))
    if after.state is not before.state:
        _insert_event(session, after, at=row.at, owner=owner, reason=reason(after))
    return before, after


def failing_share(session: Session, prefix: str, codes: Sequence[str], *, switch: Switch) -> float:
    """How many percent of a store's tables fail in these classes, of those that fail or were ever served.

    A table that waits for its first version says nothing of the store, and one that is not mirrored neither.
    """
    active = ~tables.c.mirror_paused & tables.c.quarantined_at.is_(None) & is_switched_on(switch)
    own = heads.c.table_id == tables.c.table_id
    fails = or_(_fails(mirror_status, codes), _fails(checkpoints, codes))
    served = tables.c.published_version >= 0
    failing = func.count(case((fails, 1))).label("failing")
    known = func.count(case((or_(fails, served), 1))).label("known")
    row = session.execute(select(failing, known).join_from(tables, heads, own).where(active, in_store(prefix))).one()
    return 100 * row.failing / row.known if row.known else 0.0


def make_store_due(session: Session, prefix: str, codes: Sequence[str], *, waited: float = 0.0) -> None:
    """Let what failed in these classes be tried again at once, of the tables whose locations have this prefix.

    With ``waited``, only where half of the pause is over, or so many seconds: a table that goes on failing while
    others recover is not tried much more often for that.
    """
    here = select(tables.c.table_id).where(in_store(prefix))
    for waiting in (mirror_status, checkpoints):
        c = waiting.c
        failed = _is_failed(waiting) & c.next_attempt_at.is_not(None) & c.error_code.in_(codes)
        half = 2 * (CLOCK - c.updated_at) >= c.next_attempt_at - c.updated_at
        enough = or_(half, CLOCK - c.updated_at >= int(waited * 1000))
        session.execute(update(waiting).where(failed, enough, c.table_id.in_(here)).values(next_attempt_at=None))


def end_pauses(database: Database, store: str | None = None) -> None:
    """Let every store whose circuit is open be probed at once, or one of them."""
    shut = breakers.c.state == BreakerState.OPEN.value
    if store is not None:
        shut &= breakers.c.store == store
    with database.write(Step.END_PAUSES) as session:
        session.execute(update(breakers).where(shut, breakers.c.retry_at > CLOCK).values(retry_at=CLOCK))


def _fails(waiting: Table, codes: Sequence[str]) -> ColumnElement[bool]:
    """Whether the next version of a table, or a checkpoint of what is published, failed in one of these classes."""
    c, published = waiting.c, tables.c.published_version
    upto = c.version == published + 1 if waiting is mirror_status else c.version <= published
    own = (c.table_id == tables.c.table_id) & upto
    return select(c.version).where(own, _is_failed(waiting), c.error_code.in_(codes)).correlate(tables).exists()


def _is_failed(waiting: Table) -> ColumnElement[bool]:
    """Of checkpoints said twice: that one is not written is what their index knows."""
    failed = waiting.c.state == Status.FAILED
    return failed & UNWRITTEN if waiting is checkpoints else failed


_NAMES: Final = [field.name for field in fields(Breaker)]
_COLUMNS: Final = [breakers.c[name] for name in _NAMES]
_OF_STORE: Final = select(*_COLUMNS).where(breakers.c.store == bindparam("of_store"))
_SHUT: Final[Select[Any]] = select(*_COLUMNS, CLOCK).where(breakers.c.state != bindparam("closed"))
_PRISTINE: Final = upsert(breakers).values(
    store=bindparam("of_store"), state=BreakerState.CLOSED.value, failures=0, successes=0, changed_at=CLOCK
)
_LOCKED: Final = _PRISTINE.on_conflict_do_update(
    index_elements=[breakers.c.store], set_={"failures": breakers.c.failures}
).returning(*_COLUMNS, CLOCK.label("at"))
"""The row, made if there is none, locked until the transaction ends; and the time once it is."""


def _insert_event(session: Session, breaker: Breaker, *, at: int, owner: str, reason: str) -> None:
    c = breaker_events.c
    event = {"store": breaker.store, "changed_at": at, "state": breaker.state.value, "owner": owner, "reason": reason}
    session.execute(upsert(breaker_events).values(event).on_conflict_do_nothing())
    old = c.changed_at < literal(at - _KEPT_EVENTS)
    session.execute(delete(breaker_events).where(c.store == breaker.store, old))


def _of_row(row: Row[Any]) -> Breaker:
    values = row._asdict()
    return _breaker({name: values[name] for name in _NAMES})


def _breaker(values: Mapping[str, Any]) -> Breaker:
    return Breaker(**{**values, "state": BreakerState(values["state"])})
