"""What channels send: one message for all alerts of a rule that change at once, so that an outage is not a flood."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from deltamirror.txnlog.alerts.records import AlertRow, AlertState, Event

_DETAILED: Final = 20
"""How many alerts a text names one by one."""
_LISTED: Final = 100
"""How many alerts a JSON document holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Alerts of one rule that fire, or are resolved."""

    event: Event
    alerts: tuple[AlertRow, ...]

    @property
    def rule(self) -> str:
        """The rule of all of them."""
        return self.alerts[0].rule

    @property
    def severity(self) -> str:
        """How grave they are."""
        return self.alerts[0].severity

    @property
    def title(self) -> str:
        """One line: the event, the rule, and the subject, or how many there are."""
        first = self.alerts[0]
        subjects = _named(first) if len(self.alerts) == 1 else f"{len(self.alerts)} {first.scope}s"
        return f"[{self.event.upper()}] {self.severity}: {self.rule}: {subjects}"


def text_of(message: Message) -> str:
    """The body for people: per alert its subject, version, lag, cause, and what to do."""
    lines = [_line(alert, message.event) for alert in message.alerts[:_DETAILED]]
    more = len(message.alerts) - len(lines)
    if more > 0:
        lines.append(f"… and {more} more: `deltamirror alert list` shows all of them")
    return "\n".join(lines)


def document(message: Message) -> dict[str, object]:
    """The body for programs."""
    return {
        "source": "deltamirror",
        "event": message.event,
        "rule": message.rule,
        "severity": message.severity,
        "title": message.title,
        "text": text_of(message),
        "count": len(message.alerts),
        "alerts": [_entry(alert) for alert in message.alerts[:_LISTED]],
    }


def timestamp(milliseconds: int) -> str:
    """A time as RFC 3339 writes it."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def trial_message(at: int) -> Message:
    """What ``deltamirror alert test`` sends."""
    alert = AlertRow(
        rule="test",
        scope="catalog",
        subject="",
        severity="info",
        state=AlertState.FIRING,
        since=at,
        fired_at=at,
        cause="an operator tests this channel",
        action="nothing is to be done",
    )
    return Message(event=Event.TEST, alerts=(alert,))


def _named(alert: AlertRow) -> str:
    return f"{alert.scope} {alert.subject}" if alert.subject else f"the {alert.scope}"


def _line(alert: AlertRow, event: Event) -> str:
    version = "" if alert.version is None else f", version {alert.version}"
    if event is Event.RESOLVED:
        lasted = ((alert.resolved_at or alert.since) - alert.since) / 1000
        return f"{_named(alert)}{version}: resolved after {lasted:.0f} s; the cause was: {alert.cause}"
    lag = "" if alert.lag_ms is None else f", lag {alert.lag_ms / 1000:.0f} s"
    return f"{_named(alert)}{version}{lag}: {alert.cause}; what to do: {alert.action}"


def _entry(alert: AlertRow) -> dict[str, object]:
    return {
        "scope": alert.scope,
        "subject": alert.subject,
        "version": alert.version,
        "lag_seconds": None if alert.lag_ms is None else alert.lag_ms / 1000,
        "reading": alert.reading,
        "cause": alert.cause,
        "action": alert.action,
        "since": alert.since,
        "fired_at": alert.fired_at,
        "resolved_at": alert.resolved_at,
    }
