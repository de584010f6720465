"""Where logs start, and what the last cleaning of each did.

A cleaning raises the start of a log here before it deletes anything there: from then on nothing before it is missing,
and the next cleaning finishes what this one leaves behind. It has the lease of the lane RECONCILIATION, so that
no process compares, repairs or rebuilds the log meanwhile.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass

from sqlalchemy import Connection, delete, exists, func, or_, select, update
from sqlalchemy.sql import ColumnElement

from deltamirror.delta.actions import Metadata
from deltamirror.errors import LogChanged
from deltamirror.steps import Step
from deltamirror.txnlog.content.state import in_force
from deltamirror.txnlog.database.access import Database, Session
from deltamirror.txnlog.database.clock import CLOCK, time_of
from deltamirror.txnlog.database.schema import checkpoints, cleanups, mirror_status, tables, versions
from deltamirror.txnlog.database.upsert import upsert
from deltamirror.txnlog.queue.expected_objects import KeptCheckpoint, KeptLog, kept_checkpoints, kept_log_again
from deltamirror.txnlog.queue.leases import surrender, under
from deltamirror.work import Lease, Status

_UNFINISHED = 0
"""In place of the time of a cleaning that has raised the start of a log, and not yet come to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What is known of a log that is to be cleaned."""

    log: KeptLog
    metadata: Metadata
    checkpoints: tuple[KeptCheckpoint, ...]
    """Those above the start of the log."""
    swept: int
    """The start that a cleaning gave the log; 0: none did. What lies before an import is not ours."""
    at: int
    """The time by the database's clock."""


def retention_of(connection: Connection, log: KeptLog) -> Retention:
    """What is known of a log by now."""
    log = kept_log_again(connection, log)
    written = kept_checkpoints(connection, log.table_id, first=log.log_start + 1)
    swept = select(cleanups.c.log_start).where(cleanups.c.table_id == log.table_id)
    return Retention(
        log=log,
        metadata=in_force(connection, log.table_id, log.head)[1],
        checkpoints=tuple(written),
        swept=connection.execute(swept).scalar_one_or_none() or 0,
        at=time_of(connection),
    )


def first_young(connection: Connection, log: KeptLog, *, cutoff: int, by_files: bool) -> int | None:
    """The oldest version of a log that is younger than a time; None where there is none.

    ``by_files``: also by when its object was put, for tables whose commits do not carry their time. Readers know the
    age of these by the object's.
    """
    v, status = versions.c, mirror_status.c
    is_young = v.committed_at > cutoff
    query = select(func.min(v.version)).where(v.table_id == log.table_id, v.version >= log.log_start)
    if by_files:
        query = query.join(mirror_status, (status.table_id == v.table_id) & (status.version == v.version))
        is_young = or_(is_young, status.published_at > cutoff)
    found: int | None = connection.execute(query.where(is_young)).scalar_one()
    return found


def is_due(connection: Connection, table_id: int, *, interval_ms: int) -> bool:
    """Whether the log of a table was not cleaned for so long, or a cleaning of it did not come to its end."""
    recent = (cleanups.c.table_id == table_id) & (cleanups.c.cleaned_at > CLOCK - interval_ms)
    return connection.execute(select(cleanups.c.table_id).where(recent)).first() is None


def _is_base(table_id: int, version: int) -> ColumnElement[bool]:
    """Whether other checkpoints build on that of a version."""
    c = checkpoints.c
    own = (c.table_id == table_id) & (c.version == version) & (c.state == Status.SUCCESS) & c.digest.is_not(None)
    return exists().where(own)


class CleaningTurn:
    """A process's turn to clean the log of one table. Once the turn is lost, its records are refused."""

    def __init__(self, database: Database, lease: Lease, *, seconds: float) -> None:
        self._database, self._lease, self._seconds = database, lease, seconds

    def begin(self, log_start: int) -> None:
        """Let the log start with a version that has a checkpoint; nothing builds on an earlier one from here on.

        Nothing did since that one was written, or else it is refused: a checkpoint that is being put at this moment
        may name sidecars of the one that it builds on, and the checkpoints that stay have to name them, too.
        """
        table_id = self._lease.table_id
        with self._held(Step.RAISE_LOG_START) as session:
            may_rise = (tables.c.table_id == table_id) & (tables.c.published_version >= log_start)
            may_rise &= (tables.c.log_start <= log_start) & tables.c.quarantined_at.is_(None)
            may_rise &= _is_base(table_id, log_start)
            raised = update(tables).where(may_rise).values(log_start=log_start).returning(tables.c.table_id)
            if session.execute(raised).first() is None:
                raise LogChanged("the log turned out to be incomplete, and is not cleaned", hint="try again later")
            earlier = (checkpoints.c.table_id == table_id) & (checkpoints.c.version < log_start)
            session.execute(delete(checkpoints).where(earlier))
            self._record(session, cleaned_at=_UNFINISHED, log_start=log_start, num_objects=0, num_bytes=0)

    def end(self, *, swept: int, num_objects: int, num_bytes: int) -> None:
        """End the turn: so much is gone, and nothing is left before a version."""
        with self._held(Step.RECORD_CLEANING) as session:
            self._record(session, cleaned_at=CLOCK, log_start=swept, num_objects=num_objects, num_bytes=num_bytes)
            surrender(session, self._lease)

    def _record(self, session: Session, **values: object) -> None:
        done = upsert(cleanups).values(table_id=self._lease.table_id, **values)
        again = {name: done.excluded[name] for name in values}
        session.execute(done.on_conflict_do_update(index_elements=[cleanups.c.table_id], set_=again))

    def _held(self, step: Step) -> AbstractContextManager[Session]:
        return under(self._database, step, self._lease, seconds=self._seconds)
