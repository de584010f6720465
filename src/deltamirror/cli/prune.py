"""``deltamirror prune``: versions that neither the log nor the settings keep, deleted from the database or shown."""

from collections.abc import Iterator
from dataclasses import asdict

import click

from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.opening import local_engine
from deltamirror.cli.output import Lines, answer, counted, moment
from deltamirror.cli.parameters import span_or_none
from deltamirror.pipeline.service.pruning import Pruning


@click.command(epilog="Example: deltamirror prune orders --keep 90d --dry-run")
@click.argument("table")
@click.option("--keep", callback=span_or_none, metavar="TIME", help="How long versions are kept; or history.keep.")
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@with_invocation
def prune(invocation: Invocation, *, table: str, keep: float | None, dry_run: bool) -> None:
    """Delete versions from the database that the log does not hold.

    Of these, versions of TABLE go that are older than TIME, counted back to midnight (UTC); without --keep the setting
    history.keep says how old. The version that was the newest at that time stays, as the state that the history begins
    with. Pruned versions cannot be read, restored or streamed, and transactions that read them conflict. What the log
    holds stays: `deltamirror clean` goes first. Commits go on meanwhile. A running service does the same after a
    checkpoint, where history.keep is set.
    """
    with local_engine(invocation) as engine:
        done = engine.prune(table, keep=keep, dry_run=dry_run)
    document = {**asdict(done), "dry_run": dry_run}
    answer(document, Lines(tuple(_lines(done, dry_run=dry_run))), json=invocation.json)


def _lines(done: Pruning, *, dry_run: bool) -> Iterator[str]:
    held = f"its log starts with version {done.log_start}, and versions since {moment(done.cutoff)} are kept"
    number = done.history_start - done.raised_from
    if not number:
        yield f"The history of {done.table} begins with version {done.history_start}, as before: {held}."
        return
    would, were = ("would begin", "would be") if dry_run else ("begins", "are")
    yield f"The history of {done.table} {would} with version {done.history_start}: {held}."
    yield f"{counted(number, 'version')} {were} pruned."
