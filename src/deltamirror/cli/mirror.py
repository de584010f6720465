"""``deltamirror mirror``: publish what the tables committed, once or for as long as there is a service."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass

import click
import msgspec

from deltamirror.cli.failure import EXIT_INTERRUPTED, one_line
from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.listening import Monitoring, listening, with_listen
from deltamirror.cli.opening import checked_engine
from deltamirror.cli.output import Lines, answer, counted
from deltamirror.cli.progress import RunTally, shown
from deltamirror.cli.runners import chosen_runner, with_runner
from deltamirror.cli.signals import reloading, stopped_by_signals
from deltamirror.cli.summaries import summarised
from deltamirror.config import Settings, redact_url
from deltamirror.errors import Diverged
from deltamirror.ops.advice import remedy
from deltamirror.ops.engine import MirrorEngine
from deltamirror.pipeline.failures.policy import policy_of, way_out
from deltamirror.txnlog.queue.status import TableStatus
from deltamirror.txnlog.tables.registry import MirrorState
from deltamirror.web.address import ListenAddress
from deltamirror.work import Failure, Lane


@click.command(epilog="Example: deltamirror mirror --once --runner local")
@click.option("--once", is_flag=True, help="Publish everything that is due, also what failed before, and end.")
@click.option("--follow", is_flag=True, help="Publish commits as they come, until SIGTERM or Ctrl-C.")
@with_listen
@with_runner
@with_invocation
def mirror(
    invocation: Invocation,
    *,
    once: bool,
    follow: bool,
    listen: ListenAddress | None,
    runner: str | None,
    master: str | None,
) -> None:
    """Publish the commits of all tables to their _delta_log/.

    Checkpoints and version checksums are written, too. Any number of these commands may run at once, on any number of
    machines: they share the tables. With --once, the exit status is 0, or that of the first failure; a table in
    quarantine whose versions wait, or whose log holds another writer's commit, is a failure that stands. A failure of
    one table does not keep others from being published. With --follow, the logs are compared with the database in the
    background, every reconcile.interval, a line on standard error says every log.summary what was done, --listen
    serves the health and the metrics of this process, and changed settings are in force within config.reload, or at
    once after SIGHUP. SIGTERM and Ctrl-C end it when the work in hand is finished, and within mirror.lease; a second
    Ctrl-C at once.
    """
    if once == follow:
        raise click.UsageError("say how long to go on: --once or --follow")
    if once and listen is not None:
        raise click.UsageError("--listen is for --follow")
    live = chosen_runner(invocation, runner, master)
    with (
        nullcontext() if once else reloading(live),
        listening(listen) as monitoring,
        checked_engine(live) as engine,
    ):
        if once:
            _run_once(engine, invocation, live.current)
        else:
            _follow(engine, invocation, monitoring)


def _run_once(engine: MirrorEngine, invocation: Invocation, settings: Settings) -> None:
    backlog = sum(status.lag_versions for status in engine.status() if status.state is MirrorState.ACTIVE)
    with stopped_by_signals(engine.stop, quiet=invocation.json) as asked:
        if backlog:
            # Before there is a bar, which the words of a JVM would tear.
            _say_that_spark_starts(invocation, settings)
            engine.start()
        with shown(backlog, quiet=invocation.json, log=settings.log) as advance:
            tally = RunTally(advance)
            engine.run(once=True, observe=tally.observe)
        report = _Report.of(tally, engine, stopped=asked.to_stop)
    answer(report.document(), Lines(tuple(report.lines())), json=invocation.json)
    if status := EXIT_INTERRUPTED if report.stopped else report.exit_status:
        raise click.exceptions.Exit(status)


def _follow(engine: MirrorEngine, invocation: Invocation, monitoring: Monitoring) -> None:
    settings, tally = engine.settings, RunTally(lambda _: None)
    with stopped_by_signals(engine.stop, quiet=invocation.json):
        click.echo(_started(settings, monitoring, json=invocation.json), err=True)
        _say_that_spark_starts(invocation, settings)
        with (
            monitoring.serving(engine.monitor()),
            summarised(tally, engine),
        ):
            engine.run(observe=tally.observe)
        report = _Report.of(tally, engine, stopped=True)
    answer(report.document(), Lines(("Stopped; the work in hand is finished.", *report.lines())), json=invocation.json)


def _say_that_spark_starts(invocation: Invocation, settings: Settings) -> None:
    if settings.mirror.runner == "spark" and not invocation.json:
        click.echo("starting Spark…", err=True)


def _started(settings: Settings, monitoring: Monitoring, *, json: bool) -> str:
    url, master = redact_url(settings.catalog.url), redact_url(settings.spark.master)
    runner, poll = settings.mirror.runner, settings.mirror.poll
    if json:
        where = {"runner": runner, "master": master if runner == "spark" else None, "listen": monitoring.url}
        started = {"catalog": url, **where, "poll": poll}
        return msgspec.json.encode({"started": started}).decode()
    place = f"on Spark ({master})" if runner == "spark" else "in this process"
    what = f"Mirroring {url} {place}; commits are looked for every {poll:g} s."
    return f"{what}{monitoring.sentence} SIGTERM or Ctrl-C ends it."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failed:
    """A failure that stands at the end of a run."""

    table: str
    location: str
    lane: Lane
    failure: Failure

    @property
    def message(self) -> str:
        return one_line(self.failure.error.message)

    @property
    def hint(self) -> str:
        error, stage = self.failure.error, self.failure.stage
        return error.hint or remedy(error.code, stage=stage, location=self.location)

    def line(self) -> str:
        what = "checkpoint of version" if self.lane is Lane.CHECKPOINTS else "version"
        failure, place = self.failure, f"{self.table}, {what} {self.failure.version}"
        return f"{place}: {failure.error.code} at {failure.stage}: {self.message}; {self.hint}"

    def document(self) -> dict[str, object]:
        failure = self.failure
        place = {"table": self.table, "lane": self.lane, "version": failure.version, "stage": failure.stage}
        error = {"code": failure.error.code, "message": self.message, "hint": self.hint}
        return {**place, "key": failure.key, **error}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quarantined:
    """A table that is not published to until an operator acts, though it has something to publish."""

    table: str
    reason: str
    hint: str
    exit_status: int

    @classmethod
    def of(cls, table: TableStatus) -> "_Quarantined":
        code = Diverged.code if table.error is None or table.diverged_version is not None else table.error.code
        reason = one_line(table.quarantine_reason or "")
        exit_status = policy_of(code).error.exit_status
        return cls(table=table.name, reason=reason, hint=way_out(table), exit_status=exit_status)

    def line(self) -> str:
        return f"{self.table} is in quarantine: {self.reason}; {self.hint}"

    def document(self) -> dict[str, object]:
        return {"table": self.table, "reason": self.reason, "hint": self.hint}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Report:
    """What a run came to, with the names of tables."""

    versions: Mapping[str, int]
    checkpoints: int
    failed: tuple[_Failed, ...]
    diverged: Mapping[str, int]
    """Tables whose logs hold foreign commits, with the first such version."""
    quarantined: tuple[_Quarantined, ...]
    """Tables in quarantine whose logs lack versions, or hold foreign commits."""
    unpublished: int
    stopped: bool

    @classmethod
    def of(cls, tally: RunTally, engine: MirrorEngine, *, stopped: bool) -> "_Report":
        tables = engine.status()
        places = {table.table_id: (table.name, table.location) for table in tables}

        def place(key: int) -> tuple[str, str]:
            return places.get(key, (f"table {key}", ""))

        return cls(
            versions={place(key)[0]: number for key, number in sorted(tally.versions.items())},
            checkpoints=tally.checkpoints,
            failed=tuple(
                _Failed(table=place(key)[0], location=place(key)[1], lane=lane, failure=failure)
                for (key, lane), failure in tally.failed.items()
            ),
            diverged={table.name: table.diverged_version for table in tables if table.diverged_version is not None},
            quarantined=tuple(
                _Quarantined.of(table)
                for table in tables
                if table.quarantined_at is not None and (table.lag_versions or table.diverged_version is not None)
            ),
            unpublished=sum(table.lag_versions for table in tables),
            stopped=stopped,
        )

    @property
    def exit_status(self) -> int:
        if self.failed:
            return self.failed[0].failure.error.exit_status
        return self.quarantined[0].exit_status if self.quarantined else 0

    def lines(self) -> list[str]:
        done = [
            f"published {counted(sum(self.versions.values()), 'version')} of {counted(len(self.versions), 'table')}"
        ]
        wrote = [f"wrote {counted(self.checkpoints, 'checkpoint')}"]
        did = (done if self.versions else []) + (wrote if self.checkpoints else [])
        nothing = "Nothing was published." if self.stopped and self.unpublished else "Nothing was due."
        lines = [f"{' and '.join(did).capitalize()}." if did else nothing]
        lines += [failed.line() for failed in self.failed]
        told = {failed.table for failed in self.failed if isinstance(failed.failure.error, Diverged)}
        lines += [each.line() for each in self.quarantined if each.table not in told]
        if self.unpublished:
            interrupted = self.stopped and not (self.failed or self.quarantined)
            then = "`deltamirror mirror --once` goes on" if interrupted else "`deltamirror status` shows why"
            lines.append(f"{counted(self.unpublished, 'version')} not published; {then}.")
        return lines

    def document(self) -> dict[str, object]:
        return {
            "versions": sum(self.versions.values()),
            "tables": self.versions,
            "checkpoints": self.checkpoints,
            "failures": [failed.document() for failed in self.failed],
            "diverged": self.diverged,
            "quarantined": [each.document() for each in self.quarantined],
            "unpublished": self.unpublished,
            "stopped": self.stopped,
        }
