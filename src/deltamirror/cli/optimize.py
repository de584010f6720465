"""``deltamirror optimize``: fewer, larger files with the same rows."""

import click

from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.output import Lines, answer, counted
from deltamirror.cli.parameters import not_empty, whole_number
from deltamirror.cli.runners import chosen_runner, with_runner
from deltamirror.cli.views import metrics_of
from deltamirror.wiring import open_catalog

__all__ = ["optimize"]


@click.command(epilog="Example: deltamirror optimize orders --where \"day = '2026-11-16'\"")
@click.argument("table")
@click.option("--where", callback=not_empty, metavar="CONDITION", help="Only partitions of which this is true.")
@click.option(
    "--target-size",
    type=int,
    callback=whole_number(1),
    metavar="BYTES",
    help="How large files are to be.  [default: the table's, or rows.target_file_size]",
)
@with_runner
@with_invocation
def optimize(
    invocation: Invocation,
    *,
    table: str,
    where: str | None,
    target_size: int | None,
    runner: str | None,
    master: str | None,
) -> None:
    """Put fewer, larger files in the place of small ones.

    Files with deletion vectors are written again, too. The rows stay as they are, and the files that are replaced stay
    in the store until vacuum deletes them. Appends meanwhile are no conflict; a commit that removes one of the files
    is, and then nothing has changed.
    """
    settings = chosen_runner(invocation, runner, master).current
    with open_catalog(settings) as catalog:
        catalog.check()
        found = catalog.table(table)
        done = found.optimize(where, target_size=target_size, runner="spark" if master is not None else runner)
        version = found.info().head if done is None else done.versions[table]
        metrics = {} if done is None else metrics_of(found, version)
    document = {"table": table, "version": version, "changed": done is not None, "metrics": metrics}
    said = f"{table} has no files to be put together; version {version} is still its head."
    if done is not None:
        files = f"{counted(int(metrics['numRemovedFiles']), 'file')} became {metrics['numAddedFiles']}"
        said = f"Optimized {table}: {files}; it is at version {version}."
    answer(document, Lines((said,)), json=invocation.json)
