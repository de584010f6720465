"""``deltamirror reconcile``: logs compared with the database, and repaired where that harms no other writer."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import partial
from typing import Final

import click
import msgspec

from deltamirror.cli.failure import one_line
from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.listening import Monitoring, listening, with_listen
from deltamirror.cli.opening import checked_engine, local_engine
from deltamirror.cli.output import Lines, answer, counted
from deltamirror.cli.parameters import seconds
from deltamirror.cli.runners import RUNNERS, exported_runner
from deltamirror.cli.signals import reloading, stopped_by_signals
from deltamirror.config import Settings, redact_text, redact_url
from deltamirror.deltalog.expiry import SAVED
from deltamirror.errors import Diverged
from deltamirror.ops.engine import MirrorEngine
from deltamirror.ops.health import HealthMonitor, ProcessParts
from deltamirror.ops.monitoring.collector import exported
from deltamirror.ops.reconcile.background import BackgroundReconciler
from deltamirror.ops.reconcile.reconciling import Reconciled, Reconciler, Strategy, TableReconciled
from deltamirror.web.address import ListenAddress
from deltamirror.wiring import open_logs

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
@click.option("--follow", is_flag=True, help="Compare the logs of all tables again and again, until SIGTERM or Ctrl-C.")
@click.option(
    "--interval",
    type=float,
    callback=seconds,
    metavar="SECONDS",
    help="How often each log is compared, with --follow; over the setting reconcile.interval.",
)
@with_listen
@with_invocation
def reconcile(
    invocation: Invocation,
    *,
    tables: tuple[str, ...],
    strategy: str,
    runner: str | None,
    follow: bool,
    interval: float | None,
    listen: ListenAddress | None,
) -> None:
    """Compare logs with the database, and publish what is missing.

    The logs of all tables are compared, or those of TABLEs. incremental publishes what is not, and reads nothing. full
    reads every object. smart lists the log, and reads what is missing from it, has another size or was touched since it
    was put, and a sample that moves on each time. Objects that another writer changed, or put there, are never
    overwritten: their table is put into quarantine, and the exit status is 2. Checkpoints, compactions, checksums and a
    pointer that mislead readers are moved to where no reader looks.

    With --follow it is what services do in the background, by a process of its own, for services whose
    reconcile.interval is 0: each log is compared by smart once in an interval, and findings are logged. Changed
    settings are in force within config.reload, or at once after SIGHUP. SIGTERM and Ctrl-C end it within mirror.lease;
    a second Ctrl-C at once.
    """
    runner = exported_runner(invocation.lasting(), runner)
    if follow:
        _follow(invocation.comparing_every(interval), tables, strategy, runner=runner, listen=listen)
        return
    if interval is not None or listen is not None:
        raise click.UsageError("--interval and --listen are for --follow")
    with local_engine(invocation) as engine, open_logs(engine, runner=runner) as logs:
        done = Reconciler(logs).run(Strategy(strategy), tables)
    answer(_document(done), Lines(tuple(_lines(done))), json=invocation.json)
    if status := _exit_status(done):
        raise click.exceptions.Exit(status)


def _require_follow(settings: Settings, tables: Sequence[str], strategy: str) -> None:
    if tables or strategy != Strategy.SMART.value:
        raise click.UsageError("--follow compares the logs of all tables, by --strategy smart")
    if settings.reconcile.interval <= 0:
        raise click.UsageError("reconcile.interval is 0, which is never: say how often with --interval SECONDS")


def _follow(
    invocation: Invocation, tables: Sequence[str], strategy: str, *, runner: str, listen: ListenAddress | None
) -> None:
    stop, live = threading.Event(), invocation.on_runner("local", None).live()
    _require_follow(live.current, tables, strategy)
    with (
        reloading(live),
        listening(listen) as monitoring,
        checked_engine(live) as engine,
        stopped_by_signals(partial(_stop, engine, stop), quiet=invocation.json),
        exported(engine.database, live),
        open_logs(engine, runner=runner) as logs,
    ):
        _compare_until(stop, engine, Reconciler(logs), monitoring, json=invocation.json)
    answer({"stopped": True}, Lines(("Stopped; the log in hand is finished.",)), json=invocation.json)


def _stop(engine: MirrorEngine, stop: threading.Event) -> None:
    engine.stop()
    stop.set()


def _compare_until(
    stop: threading.Event,
    engine: MirrorEngine,
    reconciler: Reconciler,
    monitoring: Monitoring,
    *,
    json: bool,
) -> None:
    with BackgroundReconciler(
        engine.database, reconciler, live=engine.live, ending=engine.ending, lets_go=True
    ) as background:
        parts = ProcessParts(owner=engine.owner, reconciler=lambda: background, lets_go=True)
        click.echo(_started(engine.settings, monitoring, json=json), err=True)
        with monitoring.serving(HealthMonitor(engine.database, engine.live, parts)):
            stop.wait()


def _started(settings: Settings, monitoring: Monitoring, *, json: bool) -> str:
    url, interval = redact_url(settings.catalog.url), settings.reconcile.interval
    if json:
        started = {"catalog": url, "interval": interval, "listen": monitoring.url}
        return msgspec.json.encode({"started": started}).decode()
    what = f"Comparing the logs of {url}, each every {interval:g} s."
    return f"{what}{monitoring.sentence} SIGTERM or Ctrl-C ends it."


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
            yield f"{table.table}, {spelled_versions(versions)}: {what}"
    for key in table.misleading:
        yield f"{table.table}, {key}: misled readers, and is kept in {SAVED}"
    if table.altered or table.foreign:
        yield f"{table.table} is in quarantine: run `deltamirror report {table.table}`"
    if table.error is not None:
        yield f"{table.table}: {table.error.code}: {one_line(table.error.message)}"


def spelled_versions(versions: Sequence[int]) -> str:
    """Versions in words, of many the first."""
    more = f" and {len(versions) - _NAMED:,} more" if len(versions) > _NAMED else ""
    return f"{'version' if len(versions) == 1 else 'versions'} {', '.join(map(str, versions[:_NAMED]))}{more}"
