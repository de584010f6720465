"""``deltamirror status``: how far the mirror is, what keeps it, and what to do about it."""

from collections.abc import Iterator, Sequence
from typing import Final

import click

from deltamirror.cli.database import database_of
from deltamirror.cli.failure import one_line
from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.output import Fields, Grid, answer, counted, duration, moment, say
from deltamirror.cli.overview import StatusOverview
from deltamirror.cli.parameters import seconds
from deltamirror.config import redact_text
from deltamirror.errors import Diverged, Late
from deltamirror.ops.advice import errors_of, remedy_of
from deltamirror.ops.documents import slo_row_document, status_document
from deltamirror.ops.slo import SloReport, SloRow
from deltamirror.ops.slo import report as slo_report
from deltamirror.pipeline.failures.policy import way_out
from deltamirror.txnlog.queue.chore_records import ChoreRecord
from deltamirror.txnlog.queue.status import LastError, TableStatus
from deltamirror.txnlog.tables.registry import MirrorState

_MAX_LAG: Final = 300.0
_SLO_COLUMNS: Final = ("TABLE", "WINDOW", "VERSIONS", "WAITING", "P50", "P95", "P99", "BUDGET LEFT", "BURN RATE")


@click.command(epilog="Example: deltamirror status --check --max-lag 60")
@click.argument("table", required=False)
@click.option("--check", is_flag=True, help="Exit with 2 if a table is diverged, with 3 if one lags too much.")
@click.option(
    "--max-lag",
    type=float,
    callback=seconds,
    metavar="SECONDS",
    help=f"How long a commit may wait to be published, for --check; {_MAX_LAG:g} unless given.",
)
@click.option("--slo", "shows_slo", is_flag=True, help="Show how long commits take to become visible, and the budget.")
@with_invocation
def status(invocation: Invocation, *, table: str | None, check: bool, max_lag: float | None, shows_slo: bool) -> None:
    """Show how far the tables are published, and what failed.

    Of one TABLE, everything is shown: head, published, lag, failures, checkpoint with the reason for it, and the time
    that its last versions spent in each stage: reading from the database, serialising, uploading, verifying. The lag
    is counted in versions, and in time since the oldest version that is not published was committed. The exit status
    is 0, unless --check asks for another one. A table whose mirror is switched off by mirror.enabled is disabled, and
    never late.

    With --slo: of the versions that became visible within an hour, a day and 30 days, and of all that wait, the times
    from commit to visible, what is left of the error budget (`slo.p95`, `slo.p99`), and how fast it is spent: at a burn
    rate of 1 it lasts exactly for the window. Versions that wait count with their age, those of paused and quarantined
    tables, too; those of disabled tables do not.
    """
    if max_lag is not None and not check:
        raise click.UsageError("--max-lag is for --check")
    if shows_slo and check:
        raise click.UsageError("--slo shows objectives; --check goes by the lag: give one of them")
    if shows_slo:
        with database_of(invocation) as opened:
            objectives = slo_report(opened.database, opened.settings, table=table)
        answer(_slo_document(objectives), _slo_grid(objectives), json=invocation.json)
        return
    with database_of(invocation) as opened:
        found = StatusOverview.of(opened, table)
    tables = found.tables
    answer(document(found), grid(tables) if table is None else Fields(_fields(tables[0])), json=invocation.json)
    if not invocation.json:
        for line in (*(failure_lines(tables) if table is None else ()), *found.store_lines()):
            say(line)
    if check and (exit_status := _drift(tables, _MAX_LAG if max_lag is None else max_lag)):
        raise click.exceptions.Exit(exit_status)


def _drift(tables: Sequence[TableStatus], max_lag: float) -> int:
    if any(table.quarantined_at is not None or _is_diverged(table) for table in tables):
        return Diverged.exit_status
    late = (table.lag_ms > max_lag * 1000 for table in tables if not table.is_disabled)
    return Late.exit_status if any(late) else 0


def _is_diverged(table: TableStatus) -> bool:
    return any(error.code == Diverged.code for error in errors_of(table))


def document(found: StatusOverview) -> dict[str, object]:
    """As ``--json`` shows it."""
    return {
        "all_paused": found.all_paused,
        "stores": [each.document() for each in found.stores],
        "tables": [status_document(each) for each in found.tables],
    }


_COLUMNS: Final = (
    "TABLE", "STATE", "HEAD", "PUBLISHED", "LAG", "FOR", "PENDING", "FAILED", "CHECKPOINT", "ERROR"
)  # fmt: skip
_OPTIONAL: Final = ("PENDING", "CHECKPOINT", "ERROR", "FOR")
"""On a narrow terminal the errors are read below the table, and the rest of one table in its own status."""


def grid(tables: Sequence[TableStatus]) -> Grid:
    """A row a table."""
    rows, empty = [_row(table) for table in tables], "No tables. `deltamirror table create` makes one."
    return Grid(_COLUMNS, rows, empty, optional=_OPTIONAL, colour=_colour)


def _colour(row: Sequence[object]) -> str:
    """Red: the table waits for an operator. Yellow: something failed, and is tried again."""
    shown = dict(zip(_COLUMNS, row, strict=True))
    return "red" if shown["STATE"] == MirrorState.QUARANTINED else "yellow" if shown["ERROR"] else ""


def _row(table: TableStatus) -> tuple[object, ...]:
    checkpoint = None if table.checkpoint is None else table.checkpoint.version
    lag = table.lag_versions, duration(table.lag_ms) if table.lag_versions else ""
    counts = table.pending, table.failed, checkpoint
    return table.name, table.state, table.head, table.published, *lag, *counts, _codes(table)


def _codes(table: TableStatus) -> str:
    commit = [] if table.error is None else [table.error.code]
    checkpoint = [] if table.checkpoint_error is None else [f"checkpoint: {table.checkpoint_error.code}"]
    return ", ".join(commit + checkpoint)


def failure_lines(tables: Sequence[TableStatus]) -> Iterator[str]:
    """What failed, and what to do about it: a line a failure."""
    for table in tables:
        more = f"; `deltamirror report {table.name}` shows all attempts" if table.escalations else ""
        if table.quarantined_at is not None:
            yield f"{table.name} is in quarantine: {table.quarantine_reason}; {way_out(table)}{more}"
            continue
        for error in errors_of(table):
            cause = one_line(error.message)
            yield f"{table.name}, version {error.version}: {error.code}: {cause}; {remedy_of(table, error)}{more}"


def _fields(table: TableStatus) -> dict[str, object]:
    published = "nothing" if table.published is None else f"version {table.published}"
    since = f", for {duration(table.lag_ms)}" if table.lag_versions else ""
    fields = {
        "table": table.name,
        "location": table.location,
        "state": table.state,
        "head": f"version {table.head}, {moment(table.head_timestamp)}",
        "published": published,
        "lag": f"{counted(table.lag_versions, 'version')}{since}",
        "quarantine": _quarantine(table),
        "switched off": _switched_off(table),
        "waiting": f"{table.pending:,} pending, {table.failed:,} failed",
        "checkpoint": _checkpoint(table),
        "time": _times(table),
        "log": _log(table),
        "history": f"begins with version {table.history_start}" if table.history_start else "",
        "maintenance": _maintenance(table),
        "error": _told(table, table.error),
        "checkpoint error": _told(table, table.checkpoint_error),
        "escalated": _escalated(table),
        "at work": _at_work(table),
    }
    return {name: value for name, value in fields.items() if value}


def _quarantine(table: TableStatus) -> str:
    if table.quarantined_at is None:
        return ""
    since = f"since {moment(table.quarantined_at)}: {table.quarantine_reason}"
    return f"{since}\nwhat to do: {way_out(table)}"


def _switched_off(table: TableStatus) -> str:
    shown = f"by mirror.enabled; `deltamirror config show --table {table.name}` shows where"
    return shown if table.is_disabled else ""


def _escalated(table: TableStatus) -> str:
    return f"yes; `deltamirror report {table.name}` shows all attempts" if table.escalations else ""


def _at_work(table: TableStatus) -> str:
    """The processes that hold leases of the table."""
    return "\n".join(
        f"{lease.lane}: {lease.owner} since {moment(lease.since)}, until {moment(lease.until)} if it is not renewed"
        for lease in table.leases
    )


def _checkpoint(table: TableStatus) -> str:
    found = table.checkpoint
    if found is None:
        return "none"
    return f"version {found.version}, {found.num_bytes:,} bytes, {moment(found.at)}\ndue by: {found.reason}"


def _times(table: TableStatus) -> str:
    """Which stage took how long, the longest first: of the last versions on average, and of the newest checkpoint."""
    lines, stages = [], table.stages
    if stages is not None:
        named = {"read": stages.read_ms, "serialise": stages.serialise_ms, "upload": stages.upload_ms}
        taken = sorted({**named, "verify": stages.verify_ms}.items(), key=lambda item: -item[1])
        told = ", ".join(f"{stage} {milliseconds:,.1f} ms" for stage, milliseconds in taken)
        lines.append(f"a version, of the last {stages.versions}: {told}")
    if table.checkpoint is not None and table.checkpoint.milliseconds is not None:
        lines.append(f"checkpoint {table.checkpoint.milliseconds:,} ms")
    return "\n".join(lines)


def _log(table: TableStatus) -> str:
    """Nothing, as long as the log is whole."""
    done, start = table.cleanup, f"starts with version {table.log_start}" if table.log_start else ""
    if done is None or not table.log_start:
        return start
    if done.at is None:
        return f"{start}; a cleaning of it is not finished: `deltamirror clean {table.name}`"
    return f"{start}; cleaned {moment(done.at)}: {counted(done.num_objects, 'object')}, {done.num_bytes:,} bytes"


def _maintenance(table: TableStatus) -> str:
    """What services did to its data files, and could not do; nothing where they have not."""
    return "\n".join(line for each in table.maintenance for line in _chore_lines(each))


def _chore_lines(record: ChoreRecord) -> Iterator[str]:
    if record.at is not None:
        size = f"{counted(record.num_files, 'file')}, {record.num_bytes:,} bytes, {record.chore.deed}"
        yield f"{record.chore}: {moment(record.at)}: {size}"
    if record.error_code is not None and record.next_attempt_at is not None:
        tried = f"{record.chore} failed, {counted(record.attempts, 'time')}: {record.error_code}"
        yield f"{tried}: {redact_text(record.error_message or '')}; next try {moment(record.next_attempt_at)}"


def _told(table: TableStatus, error: LastError | None) -> str:
    if error is None:
        return ""
    lines = [
        f"{error.code} at version {error.version}, {moment(error.at)}",
        redact_text(error.message),
        f"stage {error.stage}{f', object {error.key}' if error.key else ''}",
        f"{counted(error.attempts, 'attempt')}, the next one: {_next_attempt(table, error)}",
    ]
    if table.quarantined_at is None:
        lines.append(f"what to do: {remedy_of(table, error)}")
    return "\n".join(lines)


def _next_attempt(table: TableStatus, error: LastError) -> str:
    if table.quarantined_at is not None:
        return "when the quarantine ends"
    return "at once" if error.next_attempt_at is None else moment(error.next_attempt_at)


def _slo_document(report: SloReport) -> dict[str, object]:
    """As ``--json`` shows it; times are in seconds."""
    named = {"overall": report.overall, "tables": report.tables}
    return {name: [slo_row_document(row) for row in rows] for name, rows in named.items()}


def _slo_grid(report: SloReport) -> Grid:
    """All windows, then those of each table."""
    rows = [_slo_row(row) for row in (*report.overall, *report.tables)]
    return Grid(_SLO_COLUMNS, rows, "", optional=("P50", "VERSIONS"), colour=_slo_colour)


def _slo_row(row: SloRow) -> tuple[object, ...]:
    times = [_time(each) for each in (row.p50, row.p95, row.p99)]
    budgets = "  ".join(f"p{each.percent} {each.budget_left:.0%}" for each in row.objectives)
    return (
        "all tables" if row.table is None else row.table,
        row.window,
        row.versions,
        row.waiting,
        *times,
        budgets,
        f"{row.burn_rate:.2f}",
    )


def _time(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:g} s"


def _slo_colour(row: Sequence[object]) -> str:
    return "red" if float(str(row[-1])) > 1 else ""
