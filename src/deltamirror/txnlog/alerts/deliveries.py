"""Notifications that are due. A sender claims them for a time: if it dies, another one sends them (at least once)."""

import uuid
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, bindparam, case, func, select, update
from sqlalchemy.sql import ColumnElement

from deltamirror.steps import Step
from deltamirror.txnlog.alerts.records import AlertRow, DeliveryState, Event, alert_row
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.schema import alerts, deliveries


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryClaim:
    """Notifications of one rule and one event for one channel, which this process is to send as one message."""

    claim: str
    channel: str
    event: Event
    alerts: tuple[AlertRow, ...]
    attempts: int
    """That failed before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undelivered:
    """A channel with notifications that could not be sent."""

    channel: str
    attempts: int
    """That failed in a row, of the notification that failed most often."""
    error: str


def channels_due(database: Database) -> set[str]:
    """The channels that have notifications to be sent at this moment."""
    with database.read() as connection:
        return set(connection.execute(select(deliveries.c.channel).where(_IS_DUE).distinct()).scalars())


def claim(database: Database, channel: str, *, seconds: float) -> DeliveryClaim | None:
    """The notifications of a channel that waited longest, for this process to send in some time; None: none is due."""
    with database.read() as connection:
        due = connection.execute(_NEXT, {"of_channel": channel}).first()
    if due is None:
        return None
    c, name = deliveries.c, uuid.uuid4().hex
    wanted = (c.channel == channel) & (c.rule == due.rule) & (c.event == due.event)
    with database.write(Step.CLAIM_NOTIFICATIONS) as session:
        mine = {"claim": name, "claimed_until": CLOCK + int(seconds * 1000)}
        session.execute(update(deliveries).where(wanted, _IS_DUE).values(mine))
        found = [row._asdict() for row in session.execute(_CLAIMED, {"of_claim": name})]
    if not found:
        return None  # another service was quicker
    rows = tuple(alert_row(row) for row in found)
    attempts = max(row["failed_attempts"] for row in found)
    return DeliveryClaim(claim=name, channel=channel, event=Event(due.event), alerts=rows, attempts=attempts)


def record_sent(database: Database, sent: DeliveryClaim, *, repeat: float) -> None:
    """A message has arrived. While its alerts fire it is due again after so many seconds; 0: never."""
    again = (deliveries.c.event == Event.FIRING.value) & (repeat > 0)
    done = {
        "state": case((again, DeliveryState.WAITING.value), else_=DeliveryState.SENT.value),
        "next_attempt_at": CLOCK + int(repeat * 1000),
        "delivered_at": CLOCK,
        "attempts": 0,
        "error": None,
    }
    _record(database, sent, done)


def record_failed(database: Database, failed: DeliveryClaim, error: str, *, pause: float) -> None:
    """A message could not be sent: it is due again after so many seconds."""
    c = deliveries.c
    _record(
        database, failed, {"attempts": c.attempts + 1, "error": error, "next_attempt_at": CLOCK + int(pause * 1000)}
    )


def undelivered(connection: Connection) -> list[Undelivered]:
    """The channels that could not be told of something, the worst first."""
    c = deliveries.c
    failing = select(c.channel, func.max(c.attempts).label("attempts"), func.max(c.error).label("error"))
    failing = failing.where(c.state == DeliveryState.WAITING.value, c.attempts > 0).group_by(c.channel)
    rows = connection.execute(failing.order_by(func.max(c.attempts).desc(), c.channel))
    return [Undelivered(channel=row.channel, attempts=row.attempts, error=row.error or "") for row in rows]


def _record(database: Database, claimed: DeliveryClaim, values: dict[str, object]) -> None:
    """Write down what became of a claim. A notification that changed meanwhile is no longer part of it, and is due."""
    with database.write(Step.RECORD_NOTIFICATIONS) as session:
        freed = {**values, "claim": None, "claimed_until": 0}
        session.execute(update(deliveries).where(deliveries.c.claim == claimed.claim).values(freed))


_IS_DUE: Final[ColumnElement[bool]] = (
    (deliveries.c.state == DeliveryState.WAITING.value)
    & (deliveries.c.next_attempt_at <= CLOCK)
    & (deliveries.c.claimed_until <= CLOCK)
)
_NEXT: Final = (
    select(deliveries.c.rule, deliveries.c.event)
    .where(deliveries.c.channel == bindparam("of_channel"), _IS_DUE)
    .order_by(deliveries.c.next_attempt_at, deliveries.c.rule, deliveries.c.event)
    .limit(1)
)
_SAME_ALERT: Final = (
    (alerts.c.rule == deliveries.c.rule)
    & (alerts.c.scope == deliveries.c.scope)
    & (alerts.c.subject == deliveries.c.subject)
)
_CLAIMED: Final = (
    select(alerts, deliveries.c.attempts.label("failed_attempts"))
    .join(deliveries, _SAME_ALERT)
    .where(deliveries.c.claim == bindparam("of_claim"))
    .order_by(alerts.c.since, alerts.c.subject)
)
