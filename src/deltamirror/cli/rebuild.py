"""``deltamirror rebuild``: the log of a table again, from SQL."""

import re
from dataclasses import asdict
from functools import partial
from typing import Final

import click

from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.output import Lines, answer
from deltamirror.cli.parameters import not_empty
from deltamirror.cli.progress import Advance, shown
from deltamirror.ops.rebuild import Rebuilt, rebuild
from deltamirror.wiring import open_location
from deltamirror.work import CommitOutcome, Outcome

__all__ = ["rebuild_"]

_RANGE: Final = re.compile(r"([0-9]{1,18})\.\.([0-9]{1,18})")


def _versions(context: click.Context, parameter: click.Parameter, value: str | None) -> range | None:
    """``A..B``, both included; a click callback."""
    if value is None:
        return None
    found = _RANGE.fullmatch(value)
    if found is None or int(found[1]) > int(found[2]):
        raise click.BadParameter(f"`{value}` is not a range of versions, such as 3..7", context, parameter)
    return range(int(found[1]), int(found[2]) + 1)


@click.command("rebuild")
@click.argument("table")
@click.option(
    "--to",
    "location",
    required=True,
    callback=not_empty,
    metavar="LOCATION",
    help="Where: a folder outside of every table of the catalog, or the table's own.",
)
@click.option("--versions", callback=_versions, metavar="A..B", help="Only these versions, both included.")
@click.option("--checkpoints", is_flag=True, help="Write the newest checkpoint that is due, too.")
@with_invocation
def rebuild_(invocation: Invocation, *, table: str, location: str, versions: range | None, checkpoints: bool) -> None:
    """Write the log of TABLE to LOCATION/_delta_log/, as the database has it, bit for bit.

    Commits that are there with the same bytes are fine. One with other bytes ends the command with exit status 2; no
    commit is overwritten. A log that begins above version 0 gets a checkpoint of its first version. Data files are not
    copied.
    """
    with invocation.open() as catalog:
        settings = invocation.loaded().settings
        store = open_location(settings, location)
        total = catalog.table(table).info().head + 1 if versions is None else len(versions)
        with shown(total, quiet=invocation.json, log=settings.log) as advance:
            done = rebuild(
                catalog.database,
                table,
                to=store,
                versions=versions,
                checkpoints=checkpoints,
                options=settings.checkpoint,
                observe=partial(_observe, advance),
            )
    document = {"table": table, "location": store.location, **asdict(done)}
    answer(document, Lines((_told(table, store.location, done),)), json=invocation.json)


def _observe(advance: Advance, outcome: Outcome) -> None:
    if isinstance(outcome, CommitOutcome):
        advance(len(outcome.published))


def _told(table: str, location: str, done: Rebuilt) -> str:
    already = f" ({done.already:,} of them were there already)" if done.already else ""
    checkpoint = "" if done.checkpoint is None else f", with a checkpoint of version {done.checkpoint}"
    versions = f"versions {done.first} to {done.last}" if done.last > done.first else f"version {done.first}"
    return f"{location} has {versions} of {table}{already}{checkpoint}."
