"""Deleting what of a log is past its retention: decided in SQL, begun in SQL, and only then done in the store.

A cleaning that dies leaves the start of the log raised, and objects before it. The next one deletes all that lies
there, from any writer: also objects of a worker that woke up too late. A reader needs none of it at any moment.
"""

import logging
from dataclasses import dataclass, replace
from typing import Final

from deltamirror.batches import batched
from deltamirror.config import LiveSettings, settings_for
from deltamirror.delta.actions import Metadata
from deltamirror.delta.names import LOG_DIRECTORY
from deltamirror.delta.properties import expired_log_cleanup, in_commit_timestamps, log_retention_ms
from deltamirror.deltalog.expiry import expired_objects, is_usable, pointed_version
from deltamirror.deltalog.pointer import POINTER_KEY
from deltamirror.deltalog.retention import DAY, Window, cutoff, starts
from deltamirror.errors import LeaseLost, LogChanged
from deltamirror.pipeline.failures.circuit import Breakers
from deltamirror.pipeline.service.turns import Turns, logged_trouble
from deltamirror.steps import Step
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.calls import StoreCalls
from deltamirror.storage.location import store_prefix
from deltamirror.storage.open import Stores
from deltamirror.storage.store import Meta, Store
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.cleanups import CleaningTurn, Retention, first_young, is_due, retention_of
from deltamirror.txnlog.queue.expected_objects import KeptLog, kept_log
from deltamirror.txnlog.queue.leases import held_for
from deltamirror.work import CheckpointOutcome, Lease

_log = logging.getLogger(__name__)
_BATCH: Final = 500
_ENABLEMENT: Final = "delta.inCommitTimestampEnablementVersion"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaning:
    """What cleaning the log of a table comes to."""

    table: str
    raised_from: int
    """The oldest version that the log has to hold before it."""
    log_start: int
    """And after it."""
    cutoff: int
    """Commits up to this time are past their retention."""
    abandoned_before: int
    """What a writer left half-written before this time goes, too: no listing shows it."""
    objects: tuple[Meta, ...] = ()
    """What goes, in this order."""
    swept: int = 0
    """All that lies before this version goes; 0: nothing does. What lies before an import is not ours."""
    reason: str = ""
    """Why the log starts where it did; empty where it does not."""

    @property
    def num_bytes(self) -> int:
        """The size of all that goes."""
        return sum(each.size for each in self.objects)


class Cleaner:
    """Cleans the logs of tables, in turns with the processes that compare or repair them."""

    def __init__(
        self, database: Database, live: LiveSettings, *, turns: Turns, breakers: Breakers, calls: StoreCalls
    ) -> None:
        self._database, self._live = database, live
        self._turns, self._breakers = turns, breakers
        self._stores = Stores.with_keys(live, calls)

    def plan(self, table: str) -> Cleaning:
        """What would be deleted. Nothing is changed, neither there nor here."""
        log = self._log_of(table)
        self._breakers.require(log.location)
        return self._planned(log, self._store(log))

    def clean(self, table: str, *, waits: bool = True) -> Cleaning:
        """Delete what is past its retention, and what an earlier cleaning left behind.

        ``LeaseLost`` if another process has the turn, at once or after waiting for a while.
        """
        log = self._log_of(table)
        self._breakers.require(log.location)
        with self._turns.at(log.table_id, table, waits=waits) as lease:
            turn, store = CleaningTurn(self._database, lease, seconds=self._turns.seconds), self._store(log)
            found = self._planned(log, store)
            if found.log_start > found.raised_from:
                turn.begin(found.log_start)
            self._delete(found, store, lease)
            store.sweep_temporaries(LOG_DIRECTORY, before=found.abandoned_before)
            turn.end(swept=found.swept, num_objects=len(found.objects), num_bytes=found.num_bytes)
        return found

    def clean_after(self, outcome: CheckpointOutcome) -> None:
        """Clean the log of a table that has got a checkpoint, if that is due. Trouble is for the log of the service."""
        with logged_trouble(_log, outcome, "the log of table %r is not cleaned"):
            if self._is_due(outcome):
                _say(self.clean(outcome.table, waits=False))

    def _is_due(self, outcome: CheckpointOutcome) -> bool:
        settings = self._live.current
        interval_ms = int(settings.cleanup.interval * 1000)
        with self._database.read() as connection:
            if not is_due(connection, outcome.table_id, interval_ms=interval_ms):
                return False
        facts = _facts(self._database, self._log_of(outcome.table))
        if not settings_for(settings, outcome.table, facts.known.metadata.configuration).cleanup.enabled:
            return False
        if not facts.known.swept and not facts.old:
            return False  # the common case: the store is not asked, and nothing is written down
        return store_prefix(facts.known.log.location) not in self._breakers.gate().shut

    def _planned(self, log: KeptLog, store: Store) -> Cleaning:
        facts = _facts(self._database, log)
        known, until = facts.known, facts.cutoff
        start, reason = _start(facts, store)
        swept = known.swept if start is None else start
        yesterday = cutoff(known.at, DAY)
        objects: list[Meta] = []
        if swept and expired_log_cleanup(known.metadata):
            objects = expired_objects(store, log_start=swept, unversioned_before=min(until, yesterday))
        return Cleaning(
            table=log.name,
            raised_from=known.log.log_start,
            log_start=known.log.log_start if start is None else start,
            cutoff=until,
            abandoned_before=yesterday,
            objects=tuple(objects),
            swept=swept,
            reason=reason,
        )

    def _delete(self, found: Cleaning, store: Store, lease: Lease) -> None:
        for batch in batched(found.objects, _BATCH):
            if not held_for(self._database, lease):
                raise LeaseLost("the turn to clean this log is over", hint="the next cleaning finishes it")
            pointer = pointed_version(store)
            if pointer is None or pointer < found.log_start:
                raise LogChanged(
                    f"{POINTER_KEY} in {store.location} does not send readers to version {found.log_start} or beyond",
                    hint="`deltamirror checkpoint` writes a checkpoint and the pointer to it",
                )
            with Step.DELETE_EXPIRED:
                store.delete([each.key for each in batch])

    def _log_of(self, table: str) -> KeptLog:
        with self._database.read() as connection:
            return kept_log(connection, table)

    def _store(self, log: KeptLog) -> Store:
        return self._stores.at(StoreAddress.of(log.location, self._live.current.storage))


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the database says of a log that is to be cleaned."""

    known: Retention
    cutoff: int
    window: Window
    """As if readers were sent to the newest version."""

    @property
    def old(self) -> list[int]:
        """The checkpoints that the log may come to start with, as far as the database knows; the best one first."""
        usable = (each.version for each in self.known.checkpoints if each.digest is not None)
        return starts(usable, self.window) if expired_log_cleanup(self.known.metadata) else []


def _facts(database: Database, log: KeptLog) -> _Facts:
    with database.read() as connection:
        known = retention_of(connection, log)
        log, until = known.log, cutoff(known.at, log_retention_ms(known.metadata))
        young = first_young(connection, log, cutoff=until, by_files=not _has_own_times(known.metadata))
    window = Window(log_start=log.log_start, published=log.published, first_young=young, pointer=log.published)
    return _Facts(known, until, window)


def _start(facts: _Facts, store: Store) -> tuple[int | None, str]:
    """The checkpoint that the log comes to start with; None, and why, where there is no such."""
    if not expired_log_cleanup(facts.known.metadata):
        return None, "the table has delta.enableExpiredLogCleanup=false"
    if not facts.old:
        return None, "there is no later checkpoint that is as old as that"
    admitted = starts(facts.old, replace(facts.window, pointer=pointed_version(store)))
    if not admitted:
        return None, f"{POINTER_KEY} sends readers to no checkpoint that is as young as that of version {facts.old[-1]}"
    written = {each.version: each for each in facts.known.checkpoints}
    for checkpoint in (written[version] for version in admitted):
        if is_usable(store, checkpoint.name, checkpoint.digest or b""):
            return checkpoint.version, ""
    return None, f"the checkpoint of version {admitted[0]} is not in the log as it was written"


def _has_own_times(metadata: Metadata) -> bool:
    """Whether every commit carries its time; otherwise readers go by the times of some objects."""
    return in_commit_timestamps(metadata) and _ENABLEMENT not in metadata.configuration


def _say(done: Cleaning) -> None:
    if done.objects:
        said = "the log of table %r starts with version %d: %d objects are deleted"
        fields = {"table": done.table, "version": done.log_start}
        _log.info(said, done.table, done.log_start, len(done.objects), extra=fields)
