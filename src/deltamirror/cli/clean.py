"""``deltamirror clean``: what of a log is past its retention, deleted or shown."""

from collections.abc import Iterator

import click

from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.opening import local_engine
from deltamirror.cli.output import Lines, answer, counted, moment
from deltamirror.pipeline.service.cleaning import Cleaning


@click.command(epilog="Example: deltamirror clean orders --dry-run")
@click.argument("table")
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@with_invocation
def clean(invocation: Invocation, *, table: str, dry_run: bool) -> None:
    """Delete the part of a table's log that is past its retention.

    That is, commits, checksums and checkpoints. delta.logRetentionDuration of the table says how long its commits are
    kept (30 days unless it is set), counted back to midnight (UTC). The newest checkpoint that is as old as that stays,
    with its commit and all that follows: every version that is younger can be read. Nothing goes where there is no such
    checkpoint, or where the table has delta.enableExpiredLogCleanup=false. Versions stay in the database (see prune). A
    running service does the same after a checkpoint, every cleanup.interval at most.
    """
    with local_engine(invocation) as engine:
        done = engine.clean(table, dry_run=dry_run)
    answer(_document(done, dry_run=dry_run), Lines(tuple(_lines(done, dry_run=dry_run))), json=invocation.json)


def _document(done: Cleaning, *, dry_run: bool) -> dict[str, object]:
    return {
        "table": done.table,
        "dry_run": dry_run,
        "log_start": done.log_start,
        "raised_from": done.raised_from,
        "cutoff": done.cutoff,
        "reason": done.reason,
        "num_objects": len(done.objects),
        "num_bytes": done.num_bytes,
        "objects": [each.key for each in done.objects],
    }


def _lines(done: Cleaning, *, dry_run: bool) -> Iterator[str]:
    if dry_run:
        yield from (each.key for each in done.objects)
    until = f"commits up to {moment(done.cutoff)} are past their retention"
    if done.reason:
        yield f"The log of {done.table} starts with version {done.log_start}, as before: {until}, and {done.reason}."
    else:
        would = "would start" if dry_run else "starts"
        yield f"The log of {done.table} {would} with version {done.log_start}: {until}."
    size = f"{counted(len(done.objects), 'object')}, {done.num_bytes:,} bytes"
    yield f"{'Would be deleted' if dry_run else 'Deleted'}: {size}."
