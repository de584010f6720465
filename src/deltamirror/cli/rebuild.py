"""``deltamirror rebuild``: the log of a table again, from SQL."""

import re
from dataclasses import asdict
from functools import partial
from typing import Final

import click

from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.opening import catalog_of, local_engine
from deltamirror.cli.output import Lines, answer
from deltamirror.cli.parameters import not_empty
from deltamirror.cli.progress import Advance, shown
from deltamirror.deltalog.gaps import spelled
from deltamirror.ops.rebuild.rebuilding import Rebuilt, rebuild
from deltamirror.ops.rebuild.restoring import restore_log
from deltamirror.storage.store import Store
from deltamirror.wiring import open_location, open_logs
from deltamirror.work import CommitOutcome, Outcome

_RANGE: Final = re.compile(r"([0-9]{1,18})\.\.([0-9]{1,18})")


def _versions(context: click.Context, parameter: click.Parameter, value: str | None) -> range | None:
    """``A..B``, both included; a click callback."""
    if value is None:
        return None
    found = _RANGE.fullmatch(value)
    if found is None or int(found[1]) > int(found[2]):
        raise click.BadParameter(f"`{value}` is not a range of versions, such as 3..7", context, parameter)
    return range(int(found[1]), int(found[2]) + 1)


@click.command("rebuild", epilog="Example: deltamirror rebuild orders --to s3://copies/orders")
@click.argument("table")
@click.option(
    "--to",
    "location",
    callback=not_empty,
    metavar="LOCATION",
    help="Where: a folder outside of every table of the catalog. Without it, and for the table's own: in its place.",
)
@click.option("--versions", callback=_versions, metavar="A..B", help="Only these versions, both included.")
@click.option(
    "--checkpoints",
    is_flag=True,
    help="Write the newest checkpoint that is due, too. In its own place, a log gets those back that are gone, anyway.",
)
@with_invocation
def rebuild_(
    invocation: Invocation, *, table: str, location: str | None, versions: range | None, checkpoints: bool
) -> None:
    """Write the log of a table again, as the database has it.

    In its own place, objects that are gone are written; with --to, the whole log, to LOCATION/_delta_log/. Commits are
    written bit for bit. Those that are there with the same bytes are fine. One with other bytes ends the command with
    exit status 2; no commit is overwritten, and in its own place nothing is changed at all. A log at LOCATION that
    begins above version 0 gets a checkpoint of its first version. Data files are not copied.
    """
    with catalog_of(invocation) as catalog:
        home = catalog.table(table).info().location
        store = None if location is None else open_location(invocation.loaded().settings, location)
    if store is None or store.location == home:
        done = _in_place(invocation, table, versions)
    else:
        done = _elsewhere(invocation, table, store, versions=versions, checkpoints=checkpoints)
    where = home if store is None else store.location
    document = {"table": table, "location": where, **asdict(done)}
    answer(document, Lines((_told(table, where, done),)), json=invocation.json)


def _in_place(invocation: Invocation, table: str, versions: range | None) -> Rebuilt:
    with local_engine(invocation) as engine, open_logs(engine) as logs:
        return restore_log(logs, table, versions=versions)


def _elsewhere(
    invocation: Invocation, table: str, store: Store, *, versions: range | None, checkpoints: bool
) -> Rebuilt:
    with catalog_of(invocation) as catalog:
        settings = invocation.loaded().settings
        total = catalog.table(table).info().head + 1 if versions is None else len(versions)
        with shown(total, quiet=invocation.json, log=settings.log) as advance:
            return rebuild(
                catalog.database,
                table,
                to=store,
                versions=versions,
                checkpoints=checkpoints,
                options=settings.checkpoint,
                observe=partial(_observe, advance),
            )


def _observe(advance: Advance, outcome: Outcome) -> None:
    if isinstance(outcome, CommitOutcome):
        advance(len(outcome.published))


def _told(table: str, location: str, done: Rebuilt) -> str:
    already = f" ({done.already:,} of them were there already)" if done.already else ""
    checkpoint = "" if done.checkpoint is None else f", with a checkpoint of version {done.checkpoint}"
    versions = spelled([range(done.first, done.last + 1)])
    return f"{location} has {versions} of {table}{already}{checkpoint}."
