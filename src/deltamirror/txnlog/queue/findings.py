"""What becomes of the records of a table whose log is not what they say.

A log is compared under a lease of the lane RECONCILIATION, so that services take turns. It is no right to publish:
a version that was published and is gone is FAILED from here on, and published again as every other one. A table
whose log holds other bytes is put into quarantine: no service publishes to it until it is repaired.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import islice

from sqlalchemy import BigInteger, literal, update

from deltamirror.batches import batched
from deltamirror.errors import LeaseLost
from deltamirror.steps import Step
from deltamirror.txnlog.database.access import Database, Session
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.schema import checkpoints, mirror_status, reconciliations, tables
from deltamirror.txnlog.database.upsert import upsert
from deltamirror.txnlog.queue.attempts import error_values, insert_attempt
from deltamirror.txnlog.queue.backlog import request_checkpoint
from deltamirror.txnlog.queue.escalations import open_escalation
from deltamirror.txnlog.queue.leases import held_for, surrender, under
from deltamirror.txnlog.queue.quarantine import clear_divergence, lift_quarantine, mark_diverged, quarantine
from deltamirror.work import Failure, Lane, Lease, Status

_AT_ONCE = 500


class Turn:
    """A process's turn to compare the log of one table. Once the turn is lost, its records are refused."""

    def __init__(self, database: Database, lease: Lease, *, seconds: float) -> None:
        self._database, self._lease, self._seconds = database, lease, seconds
        self.is_over = False
        """Whether it has ended, and the lease is given back."""

    def take_back(self, lost: Iterable[Failure]) -> None:
        """Versions are not in the log as they should be: they are FAILED, due at once, and published no longer."""
        for some in batched(lost, _AT_ONCE):
            with self._held(Step.TAKE_COMMITS_BACK) as session:
                self._fail_all(session, some)
                self._lower(session, some)

    def take_checkpoint_back(self, lost: Failure) -> None:
        """A checkpoint is not in the log as it should be: nothing builds on it, and it is due at once."""
        with self._held(Step.TAKE_CHECKPOINT_BACK) as session:
            request_checkpoint(session, self._lease.table_id, lost.version, reason="the log begins with it")
            self._fail(session, lost, Lane.CHECKPOINTS)
            c = checkpoints.c
            own = (c.table_id == self._lease.table_id) & (c.version == lost.version)
            session.execute(update(checkpoints).where(own).values(digest=None))

    def stop(self, changed: Iterable[Failure], *, reason: str, diverged: int | None) -> None:
        """Versions have other bytes than they should: they are FAILED, and the table is quarantined.

        ``diverged`` is the first foreign commit, if there is one. An operator has to look in any case.
        """
        waiting = iter(changed)
        with self._held(Step.QUARANTINE) as session:
            # In the order in which outcomes are recorded: rows of versions first, then the head, then the table.
            some = list(islice(waiting, _AT_ONCE))
            self._fail_all(session, some)
            if diverged is not None:
                mark_diverged(session, self._lease.table_id, version=diverged, reason=reason)
            elif some:
                first = min(some, key=lambda failure: failure.version)
                open_escalation(session, self._lease.table_id, Lane.COMMITS, first.version, first.error)
            quarantine(session, self._lease.table_id, reason=reason)
            self._lower(session, some)
        self.take_back(waiting)

    def lift_quarantine(self) -> None:
        """Let the table be published to again, what failed at once: nothing in its log is foreign."""
        with self._held(Step.LIFT_QUARANTINE) as session:
            clear_divergence(session, self._lease.table_id)
            lift_quarantine(session, self._lease.table_id)
            for records in (mirror_status, checkpoints):
                failed = (records.c.table_id == self._lease.table_id) & (records.c.state == Status.FAILED)
                session.execute(update(records).where(failed).values(next_attempt_at=None))

    def require(self) -> None:
        """Raise ``LeaseLost`` once the turn is over: before anything in the log is moved."""
        if held_for(self._database, self._lease) <= 0:
            raise LeaseLost("the turn to compare this log is over", hint="the next comparison finishes it")

    def make_due(self, codes: Sequence[str]) -> None:
        """Let what failed in these classes be tried at once."""
        with self._held(Step.RETRY_FOUND) as session:
            for records in (mirror_status, checkpoints):
                c = records.c
                failed = (c.table_id == self._lease.table_id) & (c.state == Status.FAILED) & c.error_code.in_(codes)
                session.execute(update(records).where(failed).values(next_attempt_at=None))

    def end(self, *, cursor: int, full: bool, looked_at: int | None = None) -> None:
        """The log was compared: the turn ends. The next sample begins with this version.

        ``looked_at`` is when the comparison began, by the clock of the database; None: nothing depends on it.
        """
        at = CLOCK if looked_at is None else literal(looked_at, BigInteger)
        seen = {"cursor": cursor, "reconciled_at": at, **({"full_at": at} if full else {})}
        with self._held(Step.END_TURN) as session:
            looked = upsert(reconciliations).values(table_id=self._lease.table_id, **seen)
            again = {name: looked.excluded[name] for name in seen}
            session.execute(looked.on_conflict_do_update(index_elements=[reconciliations.c.table_id], set_=again))
            surrender(session, self._lease)
        self.is_over = True

    def _held(self, step: Step) -> AbstractContextManager[Session]:
        return under(self._database, step, self._lease, seconds=self._seconds)

    def _fail_all(self, session: Session, lost: Sequence[Failure]) -> None:
        for failure in lost:
            self._fail(session, failure, Lane.COMMITS)

    def _lower(self, session: Session, lost: Sequence[Failure]) -> None:
        """The table is published up to before the first of these."""
        if not lost:
            return
        first = min(failure.version for failure in lost)
        lower = (tables.c.table_id == self._lease.table_id) & (tables.c.published_version >= first)
        session.execute(update(tables).where(lower).values(published_version=first - 1))

    def _fail(self, session: Session, failure: Failure, lane: Lane) -> None:
        records = mirror_status if lane is Lane.COMMITS else checkpoints
        c = records.c
        own = (c.table_id == self._lease.table_id) & (c.version == failure.version)
        failed = {"state": Status.FAILED, "attempts": c.attempts + 1, "updated_at": CLOCK, "next_attempt_at": None}
        found = update(records).where(own).values({**failed, **error_values(failure)}).returning(c.attempts)
        count = session.execute(found).scalar_one_or_none()  # None: a foreign commit, above the head
        # The epochs of this lane are none of that one.
        finder = replace(self._lease, lane=lane, epoch=-self._lease.epoch)
        insert_attempt(session, finder, failure.version, count or 1, CLOCK, failure)
