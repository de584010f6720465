"""The mirror of a table as JSON documents: the same from the command line and over HTTP."""

from dataclasses import asdict

from deltamirror.config import redact_text
from deltamirror.ops.advice import advice, guide, remedy_of
from deltamirror.ops.report import TableReport
from deltamirror.ops.slo import SloRow
from deltamirror.txnlog.queue.escalations import Escalation
from deltamirror.txnlog.queue.status import Attempt, LastError, TableStatus


def status_document(table: TableStatus) -> dict[str, object]:
    """A table and its mirror, as ``status --json`` and the API show it."""
    named = {"error": table.error, "checkpoint_error": table.checkpoint_error}
    errors = {name: _error_document(table, error) for name, error in named.items()}
    chores = [{**asdict(each), "error_message": _redacted(each.error_message)} for each in table.maintenance]
    told = {"quarantine_reason": _redacted(table.quarantine_reason), "maintenance": chores}
    return {**asdict(table), **told, **errors}


def _redacted(text: str | None) -> str | None:
    return None if text is None else redact_text(text)


def _error_document(table: TableStatus, error: LastError | None) -> dict[str, object] | None:
    if error is None:
        return None
    return {**asdict(error), "message": redact_text(error.message), "hint": remedy_of(table, error)}


def report_document(report: TableReport) -> dict[str, object]:
    """What is recorded of a table's failures, as ``report --json`` and the API show it."""
    status = report.status
    return {
        "table": status.name,
        "version": report.version,
        "location": status.location,
        "state": status.state,
        "quarantined_at": status.quarantined_at,
        "quarantine_reason": _redacted(status.quarantine_reason),
        "published": status.published,
        "head": status.head,
        "escalations": [_escalation_document(each) for each in report.escalations],
        "attempts": [attempt_document(each, status) for each in report.attempts],
        "superseded": [asdict(each) for each in report.superseded],
    }


def _escalation_document(escalation: Escalation) -> dict[str, object]:
    return {**asdict(escalation), "error_message": redact_text(escalation.error_message)}


def attempt_document(attempt: Attempt, table: TableStatus) -> dict[str, object]:
    """An attempt, with what to do about it if it failed."""
    code, told = attempt.error_code, {"error_message": _redacted(attempt.error_message)}
    if code is None:
        return {**asdict(attempt), **told, "hint": None, "guide": None}
    hint = advice(table, code, stage=attempt.error_stage)
    return {**asdict(attempt), **told, "hint": hint, "guide": guide(code)}


def slo_row_document(row: SloRow) -> dict[str, object]:
    """A window of the service level objective, as ``status --slo --json`` and the API show it; times in seconds."""
    return {**asdict(row), "budget_left": row.budget_left, "burn_rate": row.burn_rate}
