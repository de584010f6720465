"""``deltamirror report``: every attempt at a table that failed, and what to do about it."""

from collections.abc import Iterator

import click

from deltamirror.cli.database import database_of
from deltamirror.cli.failure import one_line
from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.output import Lines, answer, moment
from deltamirror.cli.parameters import whole_number
from deltamirror.config import redact_text
from deltamirror.ops.advice import advice, guide
from deltamirror.ops.documents import report_document
from deltamirror.ops.report import TableReport, report_on
from deltamirror.pipeline.failures.policy import way_out
from deltamirror.txnlog.content.superseded import KeptSuperseded
from deltamirror.txnlog.queue.escalations import Escalation
from deltamirror.txnlog.queue.status import Attempt, TableStatus
from deltamirror.work import Lane


@click.command("report", epilog="Example: deltamirror report orders 531")
@click.argument("table")
@click.argument("version", type=int, required=False, callback=whole_number(0))
@with_invocation
def report_(invocation: Invocation, *, table: str, version: int | None) -> None:
    """Show the failed attempts to mirror a table, and what to do.

    Of all versions, or of one VERSION: when, where and why each attempt failed. An attempt that succeeded after others
    is shown, too. Objects that another writer changed come with the digest that they should have and the one found;
    versions that `deltamirror adopt` superseded, with those that they have since.
    """
    with database_of(invocation) as opened:
        found = report_on(opened.database, table, version, switch=opened.switch)
    answer(report_document(found), Lines(tuple(_lines(found))), json=invocation.json)


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
    return f"version {version}" if lane == Lane.COMMITS else f"checkpoint of version {version}"
