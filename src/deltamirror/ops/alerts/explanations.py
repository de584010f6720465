"""What a notification says of a subject: version, lag, cause, and what to do, with the command."""

from typing import Final

from deltamirror.config import redact_text
from deltamirror.ops.advice import advice
from deltamirror.ops.alerts.readings import DRIFT_WINDOW, Reading
from deltamirror.ops.alerts.rules import ParsedRule
from deltamirror.pipeline.failures.breaker import reason
from deltamirror.pipeline.failures.policy import policy_of, way_out
from deltamirror.txnlog.alerts.records import Facts
from deltamirror.txnlog.queue.breakers import Breaker, BreakerState
from deltamirror.txnlog.queue.status import LastError, TableStatus
from deltamirror.txnlog.tables.registry import MirrorState

_LONGEST: Final = 1_000


def facts_of(rule: ParsedRule, reading: Reading) -> Facts:
    """What is said of a subject, by the first condition of the rule."""
    table = reading.table
    lag = table.lag_ms if table is not None and table.lag_versions > 0 else None
    version, cause, action = _explained(rule.conditions[0].metric, reading)
    return Facts(
        version=version,
        lag_ms=lag,
        reading=", ".join(_read(condition.metric, reading) for condition in rule.conditions),
        cause=_short(cause),
        action=_short(action),
    )


def _read(metric: str, reading: Reading) -> str:
    return f"{metric} {reading.values.get(metric, 0.0):.10g}"


def _short(text: str) -> str:
    return redact_text(" ".join(text.split()))[:_LONGEST]


def _explained(metric: str, reading: Reading) -> tuple[int | None, str, str]:
    """Version, cause and action."""
    if reading.table is not None:
        match metric:
            case "drift_objects":
                return _drift(reading, reading.table)
            case "checkpoint_age_versions":
                return _checkpoint(reading.table)
            case _:
                return _table(reading.table, reading.breaker)
    if reading.breaker is not None:
        return None, reason(reading.breaker), _store_action(reading.breaker)
    if reading.scope == "channel":
        return _channel(reading)
    return None, *_catalog(metric, reading)


def _table(table: TableStatus, breaker: Breaker | None) -> tuple[int | None, str, str]:
    error, waiting = table.error or table.checkpoint_error, _waiting_version(table)
    more = f"; `deltamirror report {table.name}` shows all attempts"
    if table.quarantined_at is not None:
        version = table.diverged_version if error is None else error.version
        return version, table.quarantine_reason or "the table is in quarantine", way_out(table) + more
    if table.state is MirrorState.PAUSED:
        resume = f"`deltamirror table resume {table.name}`, or `--all` if all tables are paused"
        return waiting, "the mirror of the table is paused", resume
    if error is not None:
        return (
            error.version,
            f"{error.code}: {error.message}",
            advice(table, error.code, stage=error.stage) + _report(table, error),
        )
    if breaker is not None and breaker.state is not BreakerState.CLOSED:
        return (
            waiting,
            f"the circuit of store {breaker.store} is {breaker.state.value}: {reason(breaker)}",
            _store_action(breaker),
        )
    work = f"`deltamirror status {table.name}` shows who is at work"
    running = f"check that a service runs (`deltamirror mirror --follow`); {work}"
    return waiting, "no attempt to publish it has failed: it waits for a service", running


def _waiting_version(table: TableStatus) -> int | None:
    if table.lag_versions <= 0:
        return None
    return 0 if table.published is None else table.published + 1


def _report(table: TableStatus, error: LastError) -> str:
    return f"; `deltamirror report {table.name} {error.version}` shows all attempts"


def _drift(reading: Reading, table: TableStatus) -> tuple[int | None, str, str]:
    count = f"{reading.values['drift_objects']:g}"
    cause = f"{count} objects of the log were found missing or altered within {DRIFT_WINDOW // 60} minutes"
    look = f"`deltamirror report {table.name}` shows which; `deltamirror reconcile {table.name}` compares the log again"
    return (None if table.error is None else table.error.version), cause, look


def _checkpoint(table: TableStatus) -> tuple[int | None, str, str]:
    newest = (
        "no checkpoint"
        if table.checkpoint is None
        else f"the newest checkpoint is of version {table.checkpoint.version}"
    )
    failed = (
        "" if table.checkpoint_error is None else f"; {table.checkpoint_error.code}: {table.checkpoint_error.message}"
    )
    return (
        table.published,
        f"{newest}, the log is at version {table.published}{failed}",
        f"`deltamirror checkpoint {table.name}`",
    )


def _store_action(breaker: Breaker) -> str:
    return policy_of(breaker.error_code or "unavailable").remedy


def _channel(reading: Reading) -> tuple[int | None, str, str]:
    bad = reading.channel
    cause = "" if bad is None else f"{bad.attempts} attempts to send a notification failed: {bad.error}"
    return None, cause, f"correct the channel in the settings; `deltamirror alert test {reading.subject}` tries it"


def _catalog(metric: str, reading: Reading) -> tuple[str, str]:
    waiting = f"{reading.values['backlog_versions']:g} versions wait"
    if metric == "no_progress_seconds":
        idle = f"{waiting}, and nothing was published for {reading.values[metric]:.0f} s"
        return idle, "check that a service runs (`deltamirror mirror --follow`); `deltamirror status` shows what failed"
    return waiting, "`deltamirror status` shows which tables are behind"
