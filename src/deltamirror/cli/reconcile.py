"""``deltamirror reconcile``: logs compared with the database, and repaired where that harms no other writer."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Final

import click
from msgspec.structs import replace

from deltamirror.cli.failure import one_line
from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.opening import local_engine
from deltamirror.cli.output import Lines, answer, counted
from deltamirror.cli.runners import RUNNERS
from deltamirror.config import redact_text
from deltamirror.deltalog.expiry import SAVED
from deltamirror.errors import Diverged
from deltamirror.ops.reconcile.reconciling import Reconciled, Reconciler, Strategy, TableReconciled
from deltamirror.pipeline.run.spark.environment import exported_environment
from deltamirror.wiring import open_logs

__all__ = ["reconcile"]

_STRATEGIES: Final = [strategy.value for strategy in Strategy]
_FIELDS: Final = [field.name for field in fields(TableReconciled)]
_NAMED: Final = 20


@click.command(epilog="Example: deltamirror reconcile orders --strategy full")
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@click.option(
    "--strategy",
    type=click.Choice(_STRATEGIES),
    default=Strategy.SMART.value,
    show_default=True,
    metavar="|".join(_STRATEGIES),
    help="What is read: nothing, every object, or what a listing and a sample say.",
)
@click.option(
    "--runner",
    type=RUNNERS,
    metavar="spark|local",
    help="Read large logs on Spark, or all in this process; over the setting mirror.runner.",
)
@with_invocation
def reconcile(invocation: Invocation, *, tables: tuple[str, ...], strategy: str, runner: str | None) -> None:
    """Compare logs with the database, and publish what is missing.

    The logs of all tables are compared, or those of TABLEs. incremental publishes what is not, and reads nothing. full
    reads every object. smart lists the log, and reads what is missing from it, has another size or was touched since it
    was put, and a sample that moves on each time. Objects that another writer changed, or put there, are never
    overwritten: their table is put into quarantine, and the exit status is 2. Checkpoints, compactions, checksums and a
    pointer that mislead readers are moved to where no reader looks.
    """
    loaded = invocation.lasting()
    settings = loaded.settings
    settings = replace(settings, mirror=replace(settings.mirror, runner=runner or settings.mirror.runner))
    if settings.mirror.runner == "spark":
        os.environ.update(exported_environment(loaded))
    with local_engine(invocation) as engine, open_logs(engine, settings) as logs:
        done = Reconciler(logs).run(Strategy(strategy), tables)
    answer(_document(done), Lines(tuple(_lines(done))), json=invocation.json)
    if status := _exit_status(done):
        raise click.exceptions.Exit(status)


def _exit_status(done: Reconciled) -> int:
    if any(table.altered or table.foreign for table in done.tables):
        return Diverged.exit_status
    return next((table.error.exit_status for table in done.tables if table.error is not None), 0)


def _document(done: Reconciled) -> dict[str, object]:
    return {"strategy": done.strategy, "tables": [_table_document(table) for table in done.tables]}


def _table_document(table: TableReconciled) -> dict[str, object]:
    error = table.error
    told = None if error is None else {"code": error.code, "message": redact_text(error.message), "hint": error.hint}
    return {**{name: getattr(table, name) for name in _FIELDS}, "error": told}


def _lines(done: Reconciled) -> Iterator[str]:
    for table in done.tables:
        yield from _told(table)
    checked = sum(table.checked for table in done.tables)
    found = sum(map(_num_found, done.tables))
    repaired, left = (sum(getattr(table, name) for table in done.tables) for name in ("repaired", "left"))
    looked = f"{counted(len(done.tables), 'table')}, {counted(checked, 'object')} read"
    yield f"{looked}: {found:,} found wrong, {repaired:,} written, {left:,} left."


def _num_found(table: TableReconciled) -> int:
    versions = table.missing + table.altered + table.foreign + table.checkpoints
    return len(versions) + len(table.misleading)


def _told(table: TableReconciled) -> Iterator[str]:
    for versions, what in (
        (table.missing, "gone from the log"),
        (table.altered, "changed after publication, and not overwritten"),
        (table.foreign, "put there by another writer, and not overwritten"),
        (table.checkpoints, "checkpoint gone or changed"),
    ):
        if versions:
            yield f"{table.table}, {_versions(versions)}: {what}"
    for key in table.misleading:
        yield f"{table.table}, {key}: misled readers, and is kept in {SAVED}"
    if table.altered or table.foreign:
        yield f"{table.table} is in quarantine: run `deltamirror report {table.table}`"
    if table.error is not None:
        yield f"{table.table}: {table.error.code}: {one_line(table.error.message)}"


def _versions(versions: Sequence[int]) -> str:
    more = f" and {len(versions) - _NAMED:,} more" if len(versions) > _NAMED else ""
    return f"{'version' if len(versions) == 1 else 'versions'} {', '.join(map(str, versions[:_NAMED]))}{more}"
