"""Which alerts begin, fire and end: a pure function of rules, readings, what is known, and the time."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from deltamirror.ops.alerts.readings import Reading
from deltamirror.ops.alerts.rules import ParsedRule
from deltamirror.txnlog.alerts.records import AlertChange, AlertKey, AlertRow, AlertState, Facts, Move

Explanation: TypeAlias = Callable[[ParsedRule, Reading], Facts]
"""What a notification says."""


def evaluate(
    rules: Iterable[ParsedRule],
    readings: Iterable[Reading],
    known: Iterable[AlertRow],
    *,
    now: int,
    is_silenced: Callable[[AlertKey], bool] = lambda _: False,
    channels_of: Callable[[ParsedRule, AlertKey], tuple[str, ...]] = lambda rule, _: rule.channels or (),
    explain: Explanation = lambda *_: Facts(),
) -> list[AlertChange]:
    """What becomes of alerts at a time.

    An alert whose rule or subject is gone ends as one whose conditions hold no longer. One that is silenced, or whose
    last notification is younger than the cooldown of its rule, fires, and is announced when that is over.
    """
    rows = {row.key: row for row in known}
    held: set[AlertKey] = set()
    changes: list[AlertChange] = []
    by_scope = _by_scope(readings)
    for rule in rules:
        for reading in by_scope.get(rule.scope, ()):
            # Most rules hold for no table: that is asked first.
            if not (rule.holds(reading.values) and rule.concerns(reading.scope, reading.subject)):
                continue
            key = AlertKey(rule.name, reading.scope, reading.subject)
            held.add(key)
            move = _move(rule, rows.get(key), now)
            may_tell = not is_silenced(key) and _is_cool(rule, rows.get(key), now)
            if move is None or (move is Move.ANNOUNCE and not may_tell):
                continue
            changes.append(
                AlertChange(
                    key=key,
                    move=move,
                    at=now,
                    seen=rows.get(key),
                    severity=rule.severity,
                    facts=explain(rule, reading),
                    channels=channels_of(rule, key),
                    tells=may_tell and move is not Move.BEGIN,
                )
            )
    return [*changes, *_ended(rows, held, now)]


def _by_scope(readings: Iterable[Reading]) -> Mapping[str, list[Reading]]:
    found: dict[str, list[Reading]] = {}
    for reading in readings:
        found.setdefault(reading.scope, []).append(reading)
    return found


def _move(rule: ParsedRule, row: AlertRow | None, now: int) -> Move | None:
    """What becomes of an alert whose conditions hold."""
    if row is None or row.state is AlertState.RESOLVED:
        return Move.BEGIN if rule.hold_ms > 0 else Move.FIRE
    if row.state is AlertState.PENDING:
        return Move.FIRE if now - row.since >= rule.hold_ms else None
    return None if row.announced else Move.ANNOUNCE


def _is_cool(rule: ParsedRule, row: AlertRow | None, now: int) -> bool:
    return row is None or row.notified_at is None or now - row.notified_at >= rule.cooldown_ms


def _ended(rows: Mapping[AlertKey, AlertRow], held: set[AlertKey], now: int) -> Iterator[AlertChange]:
    for key, row in rows.items():
        if key in held or row.state is AlertState.RESOLVED:
            continue
        move = Move.RESOLVE if row.state is AlertState.FIRING else Move.FORGET
        yield AlertChange(key=key, move=move, at=now, seen=row, severity=row.severity, tells=row.announced)
