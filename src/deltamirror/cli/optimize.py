"""``deltamirror optimize``: fewer, larger files with the same rows."""

import click

from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.output import Lines, answer, counted
from deltamirror.cli.parameters import not_empty, whole_number
from deltamirror.cli.runners import chosen_runner, with_runner
from deltamirror.cli.views import metrics_of
from deltamirror.wiring import open_catalog


@click.command(epilog="Example: deltamirror optimize orders --where \"day = '2026-11-16'\"")
@click.argument("table")
@click.option("--where", callback=not_empty, metavar="CONDITION", help="Only partitions of which this is true.")
@click.option(
    "--zorder-by",
    multiple=True,
    metavar="COLUMN",
    help="Write all files again, with rows that are near each other in these columns in one file; may be repeated.",
)
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
    zorder_by: tuple[str, ...],
    target_size: int | None,
    runner: str | None,
    master: str | None,
) -> None:
    """Put fewer, larger files in the place of small ones.

    Files with deletion vectors are written again, too. In a table with clustering columns, rows are ordered by them.
    The rows stay as they are, and the files that are replaced stay
    in the store until vacuum deletes them. Appends meanwhile are no conflict; a commit that removes one of the files
    is, and then nothing has changed.
    """
    settings = chosen_runner(invocation, runner, master).current
    with open_catalog(settings) as catalog:
        catalog.check()
        found = catalog.table(table)
        chosen = "spark" if master is not None else runner
        done = found.optimize(where, zorder_by=zorder_by, target_size=target_size, runner=chosen)
        version = found.info().head if done is None else done.versions[table]
        metrics = {} if done is None else metrics_of(found, version)
    document = {"table": table, "version": version, "changed": done is not None, "metrics": metrics}
    said = f"{table} has no files to be put together; version {version} is still its head."
    if done is not None:
        files = f"{counted(int(metrics['numRemovedFiles']), 'file')} became {metrics['numAddedFiles']}"
        said = f"Optimized {table}: {files}; it is at version {version}."
    answer(document, Lines((said,)), json=invocation.json)
