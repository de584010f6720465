"""The state of each alert, and its changes.

Every service that evaluates rules comes to the same changes. A change names the state that it was computed from, and
takes effect only as long as that is the state in SQL: so one of the services makes it. The notifications that it asks
for are ordered in the same transaction: an alert that fires is never without them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, delete, select, true, update
from sqlalchemy.sql import ColumnElement

from deltamirror.batches import batched
from deltamirror.steps import Step
from deltamirror.txnlog.database.access import Database, Session
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.schema import alerts, deliveries
from deltamirror.txnlog.database.upsert import upsert

_KEPT_MS: Final = 7 * 24 * 3600 * 1000
_AT_ONCE: Final = 100


class AlertState(StrEnum):
    """Where an alert is in its life."""

    PENDING = "pending"  # its conditions hold, not yet for as long as its rule asks for
    FIRING = "firing"
    RESOLVED = "resolved"


class Event(StrEnum):
    """What a notification tells of an alert."""

    FIRING = "firing"
    RESOLVED = "resolved"
    TEST = "test"  # of no alert: an operator tries a channel


class DeliveryState(StrEnum):
    """Whether a notification has to be sent."""

    WAITING = "waiting"
    SENT = "sent"


class Move(StrEnum):
    """What becomes of an alert."""

    BEGIN = "begin"  # to pending
    FIRE = "fire"
    ANNOUNCE = "announce"  # fires still, and was silenced or in its cooldown before
    RESOLVE = "resolve"
    FORGET = "forget"  # pending no longer


@dataclass(frozen=True, slots=True, order=True)
class AlertKey:
    """A rule, and the table, store, channel or catalog that it fires for."""

    rule: str
    scope: str
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a notification says."""

    version: int | None = None
    lag_ms: int | None = None
    reading: str = ""
    cause: str = ""
    action: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRow:
    """An alert as it is in SQL."""

    rule: str
    scope: str
    subject: str
    severity: str
    state: AlertState
    since: int
    fired_at: int | None = None
    resolved_at: int | None = None
    notified_at: int | None = None
    announced: bool = False
    version: int | None = None
    lag_ms: int | None = None
    reading: str = ""
    cause: str = ""
    action: str = ""

    @property
    def key(self) -> AlertKey:
        """Which alert it is."""
        return AlertKey(self.rule, self.scope, self.subject)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertChange:
    """What becomes of an alert at a time, and the channels that are told."""

    key: AlertKey
    move: Move
    at: int
    seen: AlertRow | None
    """The row that it was computed from; None: there was none."""
    severity: str = "warning"
    facts: Facts = field(default_factory=Facts)
    channels: tuple[str, ...] = ()
    """Of a resolved alert all that were told that it fires are told, whatever is here."""
    tells: bool = False
    """Whether channels are told."""


def alerts_now(database: Database, *, resolved: bool = False) -> list[AlertRow]:
    """The alerts that are pending or fire, the newest first; with ``resolved`` those of the last week, too."""
    with database.read() as connection:
        return known_alerts(connection, resolved=resolved)


def known_alerts(connection: Connection, *, resolved: bool = True) -> list[AlertRow]:
    """The alerts that SQL holds, the newest first."""
    return _newest(connection, true() if resolved else alerts.c.state != AlertState.RESOLVED.value)


def firing_alerts(connection: Connection, *, limit: int) -> list[AlertRow]:
    """The alerts that fire, the newest first, no more than so many."""
    return _newest(connection, alerts.c.state == AlertState.FIRING.value, limit=limit)


def has_alerts(connection: Connection, rule: str) -> bool:
    """Whether SQL holds an alert of a rule."""
    return connection.execute(select(alerts.c.rule).where(alerts.c.rule == rule).limit(1)).first() is not None


def _newest(connection: Connection, wanted: ColumnElement[bool], *, limit: int | None = None) -> list[AlertRow]:
    newest = select(*_COLUMNS).where(wanted).order_by(alerts.c.since.desc(), alerts.c.rule, alerts.c.subject)
    return [alert_row(row._asdict()) for row in connection.execute(newest.limit(limit))]


def alert_row(values: dict[str, Any]) -> AlertRow:
    """A row of ``dl_alerts``."""
    own = {each.name: values[each.name] for each in fields(AlertRow)}
    return AlertRow(**{**own, "state": AlertState(own["state"]), "announced": bool(own["announced"])})


def record(database: Database, changes: Sequence[AlertChange]) -> list[AlertChange]:
    """Make changes, and order their notifications; those that took effect: the others were made by another service.

    All services take the rows in one order: none waits for another that waits for it.
    """
    made: list[AlertChange] = []
    for some in batched(sorted(changes, key=_order_of), _AT_ONCE):
        with database.write(Step.RECORD_ALERTS) as session:
            made += _recorded(session, some)
    return made


def _order_of(change: AlertChange) -> tuple[str, str, str]:
    return change.key.rule, change.key.scope, change.key.subject


def _recorded(session: Session, changes: Sequence[AlertChange]) -> Iterator[AlertChange]:
    for change in changes:
        if _is_made(session, change):
            if change.tells:
                _order(session, change)
            yield change
    _sweep(session)


def _is_made(session: Session, change: AlertChange) -> bool:
    match change.move:
        case Move.BEGIN:
            return _entered(session, change, {"state": AlertState.PENDING.value, "since": change.at})
        case Move.FIRE:
            fired = {"state": AlertState.FIRING.value, "fired_at": change.at, "resolved_at": None}
            return _entered(session, change, {**fired, **_told(change)})
        case Move.ANNOUNCE:
            return _updated(session, change, _told(change))
        case Move.RESOLVE:
            ended = {"state": AlertState.RESOLVED.value, "resolved_at": change.at, "announced": False}
            return _updated(session, change, ended)
        case Move.FORGET:
            return _forgotten(session, change)


def _told(change: AlertChange) -> dict[str, Any]:
    return {"announced": change.tells, **({"notified_at": change.at} if change.tells else {})}


def _facts(change: AlertChange) -> dict[str, Any]:
    told = {each.name: getattr(change.facts, each.name) for each in fields(Facts)}
    return {"severity": change.severity, **told}


def _entered(session: Session, change: AlertChange, values: dict[str, Any]) -> bool:
    """Write an alert that begins or fires: a row of its own, or in place of the row that was seen."""
    since = change.at if change.seen is None or change.seen.state is AlertState.RESOLVED else change.seen.since
    values = {"since": since, "announced": False, **values, **_facts(change)}
    if change.seen is not None:
        return _updated(session, change, values)
    key = {"rule": change.key.rule, "scope": change.key.scope, "subject": change.key.subject}
    fresh = upsert(alerts).values(**key, **values).on_conflict_do_nothing().returning(alerts.c.rule)
    return session.execute(fresh).first() is not None


def _updated(session: Session, change: AlertChange, values: dict[str, Any]) -> bool:
    found = update(alerts).where(_as_seen(change)).values(values).returning(alerts.c.rule)
    return session.execute(found).first() is not None


def _forgotten(session: Session, change: AlertChange) -> bool:
    """A pending alert is gone, or, if it fired before, resolved as it was: the cooldown goes by that."""
    unheard = delete(alerts).where(_as_seen(change), alerts.c.fired_at.is_(None)).returning(alerts.c.rule)
    if session.execute(unheard).first() is not None:
        return True
    return _updated(session, change, {"state": AlertState.RESOLVED.value})


def _as_seen(change: AlertChange) -> ColumnElement[bool]:
    seen = change.seen
    if seen is None:
        raise ValueError(f"{change.move} of an alert that is not there: {change.key}")
    same = (alerts.c.state == seen.state.value) & (alerts.c.since == seen.since)
    return _of(change.key, alerts) & same & (alerts.c.announced == seen.announced)


def _of(key: AlertKey, table: Any) -> ColumnElement[bool]:
    c = table.c
    found: ColumnElement[bool] = (c.rule == key.rule) & (c.scope == key.scope) & (c.subject == key.subject)
    return found


def _order(session: Session, change: AlertChange) -> None:
    """Let channels be told. The claim of a sender that tells the event before is kept until its time ends: in order."""
    event = Event.RESOLVED if change.move is Move.RESOLVE else Event.FIRING
    due = {
        "event": event.value,
        "state": DeliveryState.WAITING.value,
        "attempts": 0,
        "next_attempt_at": change.at,
        "claim": None,
        "error": None,
    }
    if change.move is Move.RESOLVE:
        session.execute(update(deliveries).where(_of(change.key, deliveries)).values(due))
        return
    for channel in change.channels:
        key = {"rule": change.key.rule, "scope": change.key.scope, "subject": change.key.subject, "channel": channel}
        ordered = upsert(deliveries).values(**key, **due, claimed_until=0)
        keys = [deliveries.c[name] for name in key]
        session.execute(ordered.on_conflict_do_update(index_elements=keys, set_=due))


def _sweep(session: Session) -> None:
    """Resolved alerts are kept for a week."""
    old = (alerts.c.state == AlertState.RESOLVED.value) & (alerts.c.resolved_at < CLOCK - _KEPT_MS)
    gone = session.execute(delete(alerts).where(old).returning(alerts.c.rule, alerts.c.scope, alerts.c.subject)).all()
    for row in gone:
        session.execute(delete(deliveries).where(_of(AlertKey(row.rule, row.scope, row.subject), deliveries)))


_COLUMNS: Final = [alerts.c[each.name] for each in fields(AlertRow)]
