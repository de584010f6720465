"""``PublishingEngine``: the one way by which commits reach ``_delta_log/``."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, Self, TypeVar

from deltamirror.arguments import (
    flag,
    milliseconds,
    number,
    optional_number,
    require,
    require_function,
    settings_from,
    table_name,
)
from deltamirror.config import LiveSettings, Settings, Switch, configured_values
from deltamirror.deltalog.delta_rs import require_delta_rs
from deltamirror.errors import NotFound, Refused
from deltamirror.pipeline.failures.circuit import Breakers
from deltamirror.pipeline.failures.our_errors import our_error
from deltamirror.pipeline.failures.policy import way_out
from deltamirror.pipeline.run.opening import open_runner
from deltamirror.pipeline.run.runner import Runner
from deltamirror.pipeline.service.cleaning import Cleaner, Cleaning
from deltamirror.pipeline.service.first_look import Outlook
from deltamirror.pipeline.service.foreign_versions import LookAhead
from deltamirror.pipeline.service.heartbeat import Heartbeat
from deltamirror.pipeline.service.jobs import Workshop
from deltamirror.pipeline.service.lanes import CheckpointLane, CommitLane, MirrorLane
from deltamirror.pipeline.service.owners import owner_name
from deltamirror.pipeline.service.pace import Pace
from deltamirror.pipeline.service.progress import WorkInHand
from deltamirror.pipeline.service.pruning import Pruner, Pruning
from deltamirror.pipeline.service.service import Observer, Service, Summary, lasting_failure
from deltamirror.pipeline.service.shutdown import Ending
from deltamirror.pipeline.service.turns import Turns
from deltamirror.storage.calls import StoreCalls
from deltamirror.telemetry import metrics
from deltamirror.telemetry.mentions import Mentions
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.database.migrations import require_current
from deltamirror.txnlog.database.opening import open_database
from deltamirror.txnlog.queue.backlog import make_due, request_checkpoint
from deltamirror.txnlog.queue.breakers import end_pauses
from deltamirror.txnlog.queue.pause import is_paused
from deltamirror.txnlog.queue.status import TableStatus, status_of, statuses
from deltamirror.txnlog.tables.registry import MirrorState
from deltamirror.work import CheckpointOutcome, CommitOutcome, Lane, Outcome, Verification

_log = logging.getLogger(__name__)
_RUNNER_IS_LOOKED_AFTER = 5.0
"""Every so many seconds."""


class _Closeable(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=_Closeable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrored:
    """What mirroring one table came to."""

    table: str
    published: int
    """The newest version in ``_delta_log/``."""
    versions: int
    """How many of them this call put there."""
    checkpoint: int | None
    """The checkpoint that this call wrote."""


class PublishingEngine:
    """Publishes the commits of a catalog's tables; ``MirrorEngine`` adds the comparison of logs, which is above it."""

    def __init__(
        self,
        url: str | None = None,
        *,
        settings: Settings | LiveSettings | None = None,
        database: Database | None = None,
        runner: Runner | None = None,
    ) -> None:
        self.live = live = settings_from(url, settings)
        require(database, Database, "database", hint="give Catalog(…).database, or leave it out and give the url")
        require(runner, Runner, "runner", hint="leave it out: settings name the runner, mirror.runner")
        metrics.limit_tables(live.current.metrics.tables)
        self.owner = owner_name()
        self._resources = ExitStack()
        self._shares_database = database is not None
        self.database = database if database is not None else self._closing(open_database(live.current.catalog))
        self.breakers = Breakers(self.database, live, owner=self.owner)
        self.calls = StoreCalls()
        self.runner = runner if runner is not None else self._closing(open_runner(live, self.database, self.calls))
        self.progress = WorkInHand()
        shop = Workshop(
            database=self.database,
            runner=self.runner,
            live=live,
            owner=self.owner,
            heartbeat=self._resources.enter_context(Heartbeat(self.database, self._leases)),
            breakers=self.breakers,
            pace=Pace(lambda: self.settings.checkpoint.share),
        )
        self._commits, self._checkpoints = CommitLane(shop), CheckpointLane(shop)
        turns = self._resources.enter_context(Turns(self.database, live, owner=self.owner))
        self._cleaner = Cleaner(self.database, live, turns=turns, breakers=self.breakers, calls=self.calls)
        self._pruner = Pruner(self.database, live, turns=turns)
        self.ending = Ending(lease=lambda: self.settings.mirror.lease, give_up=self.calls.give_up)
        self._stopping = threading.Event()
        self._service: Service | None = None

    @property
    def settings(self) -> Settings:
        """Those in force at this moment."""
        return self.live.current

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the runner and of the database."""
        self._resources.close()

    def check(self) -> None:
        """Refuse a database that holds no catalog, or one of another release's schema."""
        require_current(self.database)

    def start(self) -> None:
        """Start Spark, if that is the runner. Otherwise the first unit of work starts it, and waits for it."""
        if self.runner.start():
            _log.info("Spark has started")

    def mirror(self, table: str, version: int | None = None, *, checkpoint: bool = True) -> Mirrored:
        """Publish a table up to a version, or up to its head, and write the checkpoint that it waits for.

        Without ``checkpoint`` that is only asked for, and left to a service. Raises what keeps a version from being
        published. Where another engine is at it, this waits for that one.
        """
        version, checkpoint = optional_number(version, "version"), flag(checkpoint, "checkpoint")
        return self._mirror(self._mirrored(table), version, checkpoint=checkpoint)

    def mirror_again(self, table_id: int, table: str, version: int | None = None) -> Mirrored:
        """The same for a process that has a turn at a table, whatever that is called by now."""
        table_id, table = number(table_id, "table_id"), table_name(table)
        version = optional_number(version, "version")
        return self._mirror(self._mirrored_again(table_id, table), version, checkpoint=True)

    def _mirror(self, status: TableStatus, version: int | None, *, checkpoint: bool) -> Mirrored:
        table, target = status.name, status.head if version is None else version
        if not 0 <= target <= status.head:
            raise NotFound(
                f"table {table!r} has no version {target}: its newest is {status.head}",
                hint=f"`deltamirror table history {table}` shows its versions",
                table=table,
                version=target,
            )
        versions = 0
        while _published(status) < target and not self._stopping.is_set():
            for outcome in self._outcomes(self._commits, status, upto=target):
                versions += len(outcome.published) if isinstance(outcome, CommitOutcome) else 0
                _raise_failure(outcome)
            status = self._mirrored_again(status.table_id, table)
        written = self._write_checkpoint(status) if checkpoint and self.settings.checkpoint.enabled else None
        return Mirrored(table=table, published=_published(status), versions=versions, checkpoint=written)

    def checkpoint(self, table: str) -> int:
        """Write the checkpoint of the newest version that is published, unless there is one; that version."""
        status = self._mirrored(table)
        wanted = status.published
        if wanted is None:
            raise Refused(
                f"no version of table {table!r} is published", hint="run `deltamirror mirror --once`", table=table
            )
        with self.database.write() as session:
            request_checkpoint(session, status.table_id, wanted, reason="asked for")
        while not self._stopping.is_set() and not _has_checkpoint(status, wanted):
            for outcome in self._outcomes(self._checkpoints, status):
                _raise_failure(outcome)
            status = self._mirrored_again(status.table_id, table)
        return wanted

    def clean(self, table: str, *, dry_run: bool = False) -> Cleaning:
        """Delete what of a table's log is past its retention; with ``dry_run`` only say what that is.

        ``delta.logRetentionDuration`` and ``delta.enableExpiredLogCleanup`` of the table decide, by commit times.
        """
        dry_run = flag(dry_run, "dry_run")
        self._mirrored(table)
        return self._cleaner.plan(table) if dry_run else self._cleaner.clean(table)

    def prune(self, table: str, *, keep: float | timedelta | None = None, dry_run: bool = False) -> Pruning:
        """Delete versions of a table from the database that its log does not hold any more, and that are older.

        ``keep`` is how long versions are kept, in seconds; without it the setting ``history.keep`` says so. With
        ``dry_run`` nothing is deleted.
        """
        kept, dry_run = milliseconds(keep, "keep"), flag(dry_run, "dry_run")
        self._mirrored(table)
        return self._pruner.plan(table, keep=kept) if dry_run else self._pruner.prune(table, keep=kept)

    def status(self, table: str | None = None) -> list[TableStatus]:
        """How far the mirror is: with one table, or with all, by name."""
        name = None if table is None else table_name(table)
        with self.database.read() as connection:
            return statuses(connection, name, Switch.of(self.settings))

    def run(self, *, once: bool = False, observe: Observer | None = None) -> Summary:
        """Mirror all tables until stopped; with ``once`` until nothing is due, and what failed is due again.

        Without ``once`` it is the service of ``deltamirror mirror --follow``: Spark is started at once, and the logs
        are compared with the database in the background. MissingExtra where settings ask for an independent reader
        that is not installed.
        """
        once = flag(once, "once")
        require_function(observe, "observe", hint="give a function that takes an outcome")
        if Verification.PARANOID in configured_values(self.settings, "mirror.verify"):
            require_delta_rs()
        if once:
            make_due(self.database)
            end_pauses(self.database)
        self._service = service = Service(
            self.database,
            [self._commits, self._checkpoints],
            poll=lambda: self.settings.mirror.poll,
            observe=observe or _ignore,
            shares_database=self._shares_database,
            outlook=Outlook(self.database, LookAhead(self.database, self.live), self.breakers, live=self.live),
            after_checkpoint=self._tidy_after,
            ending=self.ending,
            progress=self.progress,
        )
        if self._stopping.is_set():
            service.stop()
        with self._when_settings_change(service.refresh), nullcontext() if once else self._beside():
            return service.run(once=once)

    def stop(self) -> None:
        """Begin nothing more; units under way are finished, or given up in time for ``run`` to end within a lease.

        From another thread: a signal handler starts one.
        """
        self._stopping.set()
        if self._service is not None:
            self._service.stop()

    @contextmanager
    def _beside(self) -> Iterator[None]:
        """What a service does beside publishing: it starts Spark, so that the first commit does not wait for that."""
        ended = threading.Event()
        if self.settings.mirror.runner == "spark":
            threading.Thread(target=self._keep_started, args=(ended,), name="deltamirror-start", daemon=True).start()
        try:
            yield
        finally:
            ended.set()

    @contextmanager
    def _when_settings_change(self, refresh: Callable[[], None]) -> Iterator[None]:
        end = self.live.on_change(lambda _: refresh())
        try:
            yield
        finally:
            end()

    def _tidy_after(self, outcome: CheckpointOutcome) -> None:
        """The log first: only what it does not hold any more may be pruned."""
        self._cleaner.clean_after(outcome)
        self._pruner.prune_after(outcome)

    def _leases(self) -> dict[Lane, float]:
        settings = self.settings
        return {Lane.COMMITS: settings.mirror.lease, Lane.CHECKPOINTS: settings.checkpoint.lease}

    def _keep_started(self, ended: threading.Event) -> None:
        """Start Spark, and again when it ended: an idle service is ready for the next commit, too."""
        mentions = Mentions()
        self._start(mentions)
        while not ended.wait(_RUNNER_IS_LOOKED_AFTER):
            if not (self._stopping.is_set() or self._is_runner_ready()):
                self._start(mentions)

    def _is_runner_ready(self) -> bool:
        try:
            return self.runner.is_ready()
        except Exception:  # noqa: BLE001  whatever it is, starting says so, or cures it
            return False

    def _start(self, mentions: Mentions) -> None:
        try:
            self.start()
        except Exception as error:  # noqa: BLE001  the first unit tries again, and the service waits until it can
            ours = our_error(error)
            if mentions.is_news("runner", ours.code):
                _log.warning("the runner does not start: %s", ours)
        else:
            mentions.is_well("runner")

    def _mirrored(self, table: str) -> TableStatus:
        (status,) = self.status(table_name(table))
        return self._required(status)

    def _mirrored_again(self, table_id: int, table: str) -> TableStatus:
        with self.database.read() as connection:
            found = status_of(connection, [table_id], Switch.of(self.settings))
        if not found:
            raise NotFound(f"the table {table!r} is gone", hint="it was dropped a moment ago", table=table)
        return self._required(found[0])

    def _required(self, status: TableStatus) -> TableStatus:
        table = status.name
        if status.state is MirrorState.PAUSED:
            raise self._paused(table)
        if status.is_disabled:
            message = f"the mirror of table {table!r} is switched off by mirror.enabled"
            raise Refused(message, hint=f"`deltamirror config show --table {table}` shows where", table=table)
        if status.state is MirrorState.QUARANTINED:
            raise Refused(
                f"table {table!r} is in quarantine: {status.quarantine_reason}",
                hint=f"{way_out(status)}; `deltamirror report {table}` shows what was found",
                table=table,
            )
        return status

    def _paused(self, table: str) -> Refused:
        with self.database.read() as connection:
            everything = is_paused(connection)
        message = "the mirror of all tables is paused" if everything else f"the mirror of table {table!r} is paused"
        which = "--all" if everything else table
        return Refused(message, hint=f"run `deltamirror table resume {which}`", table=table)

    def _outcomes(self, lane: MirrorLane, status: TableStatus, *, upto: int | None = None) -> Iterator[Outcome]:
        """The outcomes of the next job of one table. While another process holds the lease: none, after a pause."""
        self.progress.note()
        job = lane.job_of(status.table_id, upto=upto)
        if job is None:
            self.breakers.require(status.location)
            if not self._shares_database:
                self.database.let_go()
            self._stopping.wait(self.settings.mirror.poll)
            return
        with closing(job):
            for outcome in job.run():
                self.progress.note()
                yield outcome

    def _write_checkpoint(self, status: TableStatus) -> int | None:
        """The newest checkpoint that a table waited for, if no other process does. Failures are shown by the status.

        There may be several: the newest that is due, and those that were lost.
        """
        written = None
        while not self._stopping.is_set() and (job := self._checkpoints.job_of(status.table_id)) is not None:
            self.progress.note()
            with closing(job):
                outcomes = [each for each in job.run() if isinstance(each, CheckpointOutcome)]
            if not outcomes or any(each.failure is not None and not each.base_unusable for each in outcomes):
                break
            done = [each.version for each in outcomes if not each.base_unusable]
            written = max([*done, *([] if written is None else [written])], default=None)
        return written

    def _closing(self, resource: C) -> C:
        self._resources.callback(resource.close)
        return resource


def _published(status: TableStatus) -> int:
    return -1 if status.published is None else status.published


def _has_checkpoint(status: TableStatus, version: int) -> bool:
    return status.checkpoint is not None and status.checkpoint.version >= version


def _raise_failure(outcome: Outcome) -> None:
    if (failure := lasting_failure(outcome)) is not None:
        raise failure.error


def _ignore(outcome: Outcome) -> None:
    """For callers that did not ask to be told."""
