"""Reconciling logs with their records: missing objects are published again, foreign commits stop their table."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from deltamirror.config import Switch
from deltamirror.deltalog.retention import DAY
from deltamirror.errors import DeltaMirrorError, Throttled
from deltamirror.ops.reconcile.examination import CLOCKS_APART, Findings, Look
from deltamirror.ops.reconcile.failures import diverged, gone, lost_commits, obstructed, place_gone, reason
from deltamirror.ops.reconcile.rereading import Rereading
from deltamirror.ops.reconcile.table_logs import Logs
from deltamirror.pipeline.failures.policy import STORE_CODES
from deltamirror.telemetry import metrics
from deltamirror.txnlog.database.clock import time_of
from deltamirror.txnlog.queue.expected_objects import KeptLog, count_unpublished, kept_log, kept_logs, lost_checkpoints
from deltamirror.txnlog.queue.findings import Turn

_log = logging.getLogger(__name__)
_OVER: Final = tuple(code for code in STORE_CODES if code != Throttled.code)
"""The troubles of a store that are over once it answers. One that asks for pauses answers, too."""


class Strategy(StrEnum):
    """How thoroughly logs are compared."""

    INCREMENTAL = "incremental"
    """Nothing is read: versions that are not SUCCESS are published."""
    FULL = "full"
    """Every object of the log is read."""
    SMART = "smart"
    """The log is listed; a sample is read, and what is missing, of another size, or was touched since it was put."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReconciled:
    """What was found in the log of a table, and what came of it."""

    table: str
    checked: int = 0
    """How many objects were read."""
    missing: tuple[int, ...] = ()
    altered: tuple[int, ...] = ()
    foreign: tuple[int, ...] = ()
    checkpoints: tuple[int, ...] = ()
    misleading: tuple[str, ...] = ()
    """Objects that readers went by, and that said something else than the database: moved to where no reader looks."""
    repaired: int = 0
    """How many commits, checkpoints and checksums were written."""
    left: int = 0
    """How many commits and checkpoints are not in the log as they should be."""
    error: DeltaMirrorError | None = None
    """What kept the table from being compared, or from being repaired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """What reconciling came to."""

    strategy: Strategy
    tables: tuple[TableReconciled, ...]


class Reconciler:
    """Compares logs and repairs what can be repaired without harm to data of other writers."""

    def __init__(self, logs: Logs) -> None:
        self._logs, self._engine = logs, logs.engine

    def run(self, strategy: Strategy, tables: Sequence[str] = ()) -> Reconciled:
        """Reconcile tables, or all that are mirrored, and publish what is not; trouble of one stops no other."""
        done = tuple(self._tried(log, strategy) for log in self._chosen(tables))
        return Reconciled(strategy=strategy, tables=done)

    def quiet(self) -> float:
        """For how many seconds nothing came of publishing what was missing; infinite if nothing ever was."""
        return self._engine.progress.noted()

    def look(self, log: KeptLog) -> TableReconciled:
        """Compare one log as a service does, beside its other work, which publishes the backlog."""
        if self._logs.is_left_alone(log):
            return TableReconciled(table=log.name)
        return self._compared(log, Strategy.SMART, insist=False)

    def _chosen(self, tables: Sequence[str]) -> list[KeptLog]:
        with self._engine.database.read() as connection:
            if not tables:
                return kept_logs(connection, Switch.of(self._engine.settings))
            named = [kept_log(connection, name) for name in tables]
        for log in named:
            self._logs.require_mirrored(log.name)
        return named

    def _tried(self, log: KeptLog, strategy: Strategy) -> TableReconciled:
        try:
            if strategy is Strategy.INCREMENTAL:
                return self._finished(log, TableReconciled(table=log.name), last=None)
            return self._compared(log, strategy, insist=True)
        except DeltaMirrorError as error:
            return TableReconciled(table=log.name, error=error)

    def _compared(self, log: KeptLog, strategy: Strategy, *, insist: bool) -> TableReconciled:
        full = strategy is Strategy.FULL
        sample = range(0) if full else self._sample(log)
        since = max(0, log.looked_at - CLOCKS_APART)
        with self._logs.turn(log, waits=insist) as turn:
            began_at = self._time()
            look = Look(full=full, sample=sample, rereading=self._rereading(log, began_at), since=since)
            findings = self._logs.examine(log, look)
            done = self._settled(log, findings, turn, insist=insist)
            if not findings.foreign:  # shortcuts of foreign commits are looked at once these are settled
                cursor = log.log_start if sample.stop > log.published else sample.stop
                turn.end(cursor=cursor, full=full, looked_at=began_at)
        return done

    def _time(self) -> int:
        with self._engine.database.read() as connection:
            return time_of(connection)

    def _rereading(self, log: KeptLog, began_at: int) -> Rereading | None:
        period = int(self._engine.settings.reconcile.reread_days * DAY)
        if not period:
            return None
        return Rereading(table_id=log.table_id, after=log.looked_at, upto=began_at, period=period)

    def _sample(self, log: KeptLog) -> range:
        first = max(log.cursor, log.log_start)
        return range(first, first + self._engine.settings.reconcile.sample)

    def _settled(self, log: KeptLog, findings: Findings, turn: Turn, *, insist: bool) -> TableReconciled:
        """Publish what is missing, before what is not ours stops the table."""
        done = TableReconciled(
            table=log.name,
            checked=findings.checked,
            missing=tuple(sorted(each.version for each in findings.missing)),
            altered=tuple(each.version for each in findings.altered),
            foreign=tuple(each.version for each in findings.foreign),
            checkpoints=tuple(sorted(each.version for each in findings.checkpoints)),
            misleading=tuple(each.meta.key for each in findings.misleading),
        )
        _count(findings)
        if findings.is_place_gone:
            return self._stopped_without_place(log, done, turn)
        turn.take_back(lost_commits(log, findings))
        self._logs.set_aside(log, findings, turn, waits=insist)
        for each in findings.checkpoints:
            turn.take_checkpoint_back(gone(log, each))
        stops = bool(findings.altered or findings.foreign or findings.obstacles)
        if findings.missing or findings.checkpoints or insist:
            done = self._finished(log, done, last=None if insist and not stops else log.published)
        elif log.head > log.published:
            turn.make_due(_OVER)  # the store answers
        if stops:
            self._stop(log, findings, turn)
            left = done.left + len(findings.altered) + len(findings.foreign)
            error = obstructed(log, findings.obstacles) if findings.obstacles else done.error
            return replace(done, left=left, error=error)
        return replace(done, repaired=done.repaired + self._logs.write_checksums(log, findings))

    def _finished(self, log: KeptLog, done: TableReconciled, *, last: int | None) -> TableReconciled:
        """Publish a table up to a version, or to its head. Lost objects count, also if another process writes them."""
        database, upto, error, checkpoint = self._engine.database, log.head if last is None else last, None, None
        with database.read() as connection:
            before = max(count_unpublished(connection, log.table_id, last=upto), len(done.missing))
            lost_before = max(len(lost_checkpoints(connection, log.table_id)), len(done.checkpoints))
        try:
            if upto >= 0:
                checkpoint = self._engine.mirror_again(log.table_id, log.name, upto).checkpoint
        except DeltaMirrorError as trouble:
            error = trouble
        with database.read() as connection:
            left = count_unpublished(connection, log.table_id, last=upto)
            lost = len(lost_checkpoints(connection, log.table_id))
        repaired = before - left + max(lost_before - lost, int(checkpoint is not None))
        return replace(done, repaired=repaired, left=left + lost, error=error)

    def _stopped_without_place(self, log: KeptLog, done: TableReconciled, turn: Turn) -> TableReconciled:
        """Nothing is begun anew in the place of a disk that is not mounted, or of a bucket that is another one."""
        failure = place_gone(log)
        turn.stop([failure], reason=failure.error.message, diverged=None)
        fields = {"table": log.name, "table_id": log.table_id, "version": failure.version}
        _log.error("table %r is in quarantine: %s", log.name, failure.error, extra=fields)
        return replace(done, left=len(done.missing), error=failure.error)

    def _stop(self, log: KeptLog, findings: Findings, turn: Turn) -> None:
        database = self._engine.database
        failures = [diverged(database, log, each) for each in (*findings.altered, *findings.foreign)]
        blocked = [obstructed(log, findings.obstacles).message] if findings.obstacles else []
        why = "; ".join(filter(None, [reason(findings), *blocked]))
        turn.stop(failures, reason=why, diverged=min((each.version for each in findings.foreign), default=None))
        first = min((failure.version for failure in failures), default=log.published)
        fields = {"table": log.name, "table_id": log.table_id, "version": first}
        _log.error("table %r is in quarantine: %s; run `deltamirror report %s`", log.name, why, log.name, extra=fields)


def _count(findings: Findings) -> None:
    for kind in ("missing", "altered", "foreign", "checkpoints", "checksums", "misleading", "obstacles"):
        metrics.count_findings(kind, len(getattr(findings, kind)))
