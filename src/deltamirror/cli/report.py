"""``deltamirror report``: every attempt at a table that failed, and what to do about it."""

from collections.abc import Iterator
from dataclasses import asdict

import click

from deltamirror.cli.failure import one_line
from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.opening import catalog_of
from deltamirror.cli.output import Lines, answer, moment
from deltamirror.cli.parameters import whole_number
from deltamirror.config import redact_text
from deltamirror.ops.report import TableReport, report_on
from deltamirror.pipeline.failures.policy import way_out
from deltamirror.pipeline.failures.remedies import advice, guide
from deltamirror.txnlog.content.superseded import KeptSuperseded
from deltamirror.txnlog.queue.escalations import Escalation
from deltamirror.txnlog.queue.status import Attempt, TableStatus

__all__ = ["report_"]


@click.command("report", epilog="Example: deltamirror report orders 531")
@click.argument("table")
@click.argument("version", type=int, required=False, callback=whole_number(0))
@with_invocation
def report_(invocation: Invocation, *, table: str, version: int | None) -> None:
    """Show the failed attempts to mirror a table, and what to do.

    Of all versions, or of one VERSION: when, where and why each attempt failed. An attempt that succeeded after others
    is shown, too. Objects that somebody changed come with the digest that they should have and the one that was found;
    versions that `deltamirror adopt` superseded, with those that they have since.
    """
    with catalog_of(invocation) as catalog:
        found = report_on(catalog.database, table, version)
    answer(_document(found), Lines(tuple(_lines(found))), json=invocation.json)


def _document(report: TableReport) -> dict[str, object]:
    status = report.status
    return {
        "table": status.name,
        "version": report.version,
        "location": status.location,
        "state": status.state,
        "quarantined_at": status.quarantined_at,
        "quarantine_reason": status.quarantine_reason,
        "published": status.published,
        "head": status.head,
        "escalations": [_escalation_document(each) for each in report.escalations],
        "attempts": [_attempt_document(each, status) for each in report.attempts],
        "superseded": [asdict(each) for each in report.superseded],
    }


def _escalation_document(escalation: Escalation) -> dict[str, object]:
    return {**asdict(escalation), "error_message": redact_text(escalation.error_message)}


def _attempt_document(attempt: Attempt, table: TableStatus) -> dict[str, object]:
    code, message = attempt.error_code, attempt.error_message
    told = {"error_message": None if message is None else redact_text(message)}
    if code is None:
        return {**asdict(attempt), **told, "hint": None, "guide": None}
    hint = advice(table, code, stage=attempt.error_stage)
    return {**asdict(attempt), **told, "hint": hint, "guide": guide(code)}


def _lines(report: TableReport) -> Iterator[str]:
    status = report.status
    published = "nothing" if status.published is None else f"version {status.published}"
    yield f"{status.name}, {status.state}: published up to {published} of {status.head}, at {status.location}"
    if status.quarantined_at is not None:
        yield f"In quarantine since {moment(status.quarantined_at)}: {status.quarantine_reason}"
        yield f"What to do: {way_out(status)}"
    for escalation in report.escalations:
        yield _escalated(escalation)
    for attempt in report.attempts:
        yield from _told(attempt, status)
    if not report.attempts:
        yield "No attempt failed."
    for each in report.superseded:
        yield _moved(each)


def _moved(superseded: KeptSuperseded) -> str:
    what = f"{moment(superseded.superseded_at)}  version {superseded.version} of transaction {superseded.txn_id}"
    if superseded.new_version is None:
        return f"{what}: superseded and dropped: {redact_text(superseded.reason or '')}"
    return f"{what}: superseded, version {superseded.new_version} since"


def _escalated(escalation: Escalation) -> str:
    what = _what(escalation.lane, escalation.version)
    end = "" if escalation.closed_at is None else f", solved {moment(escalation.closed_at)}"
    return f"Escalated {moment(escalation.opened_at)}{end}: {what}, {escalation.error_code}"


def _told(attempt: Attempt, table: TableStatus) -> Iterator[str]:
    what = f"{_what(attempt.lane, attempt.version)}, attempt {attempt.attempt}"
    code = attempt.error_code
    if code is None:
        yield f"{moment(attempt.ended_at)}  {what}: succeeded, by {attempt.owner}"
        return
    yield f"{moment(attempt.ended_at)}  {what}: {code} at {attempt.error_stage}, by {attempt.owner}"
    yield f"  {one_line(attempt.error_message or '')}"
    if attempt.error_key:
        yield f"  object: {attempt.error_key}"
    if attempt.found_digest:
        yield f"  sha256 expected: {attempt.expected_digest}"
        yield f"  sha256 found:    {attempt.found_digest}"
    if table.quarantined_at is None:
        yield f"  what to do: {advice(table, code, stage=attempt.error_stage)}"
    yield f"  more: {guide(code)}"


def _what(lane: str, version: int) -> str:
    return f"version {version}" if lane == "commits" else f"checkpoint of version {version}"
