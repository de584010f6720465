"""``deltamirror restore``: an earlier version of a table, brought back."""

from datetime import datetime

import click

from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.opening import catalog_of
from deltamirror.cli.output import Lines, answer
from deltamirror.cli.parameters import point_in_time, whole_number
from deltamirror.cli.views import metrics_of


@click.command(epilog="Example: deltamirror restore orders --version 41")
@click.argument("table")
@click.option("--version", type=int, callback=whole_number(0), metavar="N", help="The version to bring back.")
@click.option(
    "--as-of", callback=point_in_time, metavar="TIME", help="The time to go back to: ISO 8601, or milliseconds."
)
@with_invocation
def restore(invocation: Invocation, *, table: str, version: int | None, as_of: datetime | None) -> None:
    """Bring back an earlier version of a table, as one more version.

    Its rows and its metadata are those of that version again; the versions in between stay in the history. Its files
    have to be in the store: vacuum deletes those that are past their retention. A commit to the table meanwhile is a
    conflict.
    """
    if (version is None) == (as_of is None):
        raise click.UsageError("give --version or --as-of, one of them")
    with catalog_of(invocation) as catalog:
        found = catalog.table(table)
        done = found.restore(version, as_of=as_of)
        head = found.info().head if done is None else done.versions[table]
        metrics = {} if done is None else metrics_of(found, head)
    said = (
        "{0} is so already; version {1} is still its head." if done is None else "Restored {0}: it is at version {1}."
    )
    document = {"table": table, "version": head, "changed": done is not None, "metrics": metrics}
    answer(document, Lines((said.format(table, head),)), json=invocation.json)
