"""Whose turn it is at a table: one at a time compares, repairs, rebuilds or cleans its log, or maintains its files."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from deltamirror.config import LiveSettings
from deltamirror.errors import DeltaMirrorError, LeaseLost
from deltamirror.pipeline.service.heartbeat import Heartbeat
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.leases import take
from deltamirror.work import CheckpointOutcome, Lane, Lease

_BUSY = {
    Lane.RECONCILIATION: "compares or cleans the log of",
    Lane.CHECKPOINTS: "writes a checkpoint of",
    Lane.MAINTENANCE: "optimizes or vacuums",
}
"""What another process does that holds the lease."""


class Turns:
    """Takes turns at tables with all processes that share the database. A turn is kept for as long as it takes."""

    def __init__(self, database: Database, live: LiveSettings, *, owner: str, lane: Lane = Lane.RECONCILIATION) -> None:
        self._database, self._live, self._owner, self._lane = database, live, owner, lane
        self._heartbeat = Heartbeat(database, lambda: {lane: self.seconds})

    @property
    def seconds(self) -> float:
        """How long a turn is held for without a renewal."""
        return self._live.current.mirror.lease

    def __enter__(self) -> Self:
        self._heartbeat.__enter__()
        return self

    def __exit__(self, *outcome: object) -> None:
        self._heartbeat.__exit__(*outcome)

    @contextmanager
    def at(self, table_id: int, table: str, *, waits: bool) -> Iterator[Lease]:
        """A turn at a table; ``LeaseLost`` if another process has it, at once or after waiting a while."""
        lease = self._taken(table_id, table, self._lane, waits=waits)
        self._heartbeat.add([lease])
        try:
            yield lease
        finally:
            if held := self._heartbeat.remove([lease]):
                self._heartbeat.give_back(held)

    def forget(self, lease: Lease) -> None:
        """The lease was given back with the last thing that was written under it."""
        self._heartbeat.remove([lease])

    @contextmanager
    def without_checkpoints(self, table_id: int, table: str, *, waits: bool) -> Iterator[None]:
        """For a moment no process writes a checkpoint of a table, or moves its pointer; ``LeaseLost`` if one does."""
        lease = self._taken(table_id, table, Lane.CHECKPOINTS, waits=waits)
        try:
            yield
        finally:
            self._heartbeat.give_back([lease])

    def _taken(self, table_id: int, table: str, lane: Lane, *, waits: bool) -> Lease:
        deadline = time.monotonic() + (self.seconds if waits else 0.0)
        while (lease := self._take(table_id, lane)) is None:
            if time.monotonic() >= deadline:
                message = f"another process {_BUSY[lane]} table {table!r}"
                raise LeaseLost(message, hint="try again later", table=table)
            time.sleep(self._live.current.mirror.poll)
        return lease

    def _take(self, table_id: int, lane: Lane) -> Lease | None:
        return take(self._database, table_id, lane=lane, owner=self._owner, seconds=self.seconds)


@contextmanager
def logged_trouble(log: logging.Logger, outcome: CheckpointOutcome, what: str) -> Iterator[None]:
    """What follows a checkpoint, and may be left for the next one: trouble is for the log of the service.

    ``what`` names the table by ``%r``, as in "the log of table %r is not cleaned".
    """
    try:
        yield
    except LeaseLost:
        reason = "another process holds the lease; no action needed"
        log.debug(f"{what}: %s", outcome.table, reason, extra=outcome.log_fields)
    except DeltaMirrorError as error:
        log.warning(f"{what}: %s", outcome.table, error, extra={**outcome.log_fields, "code": error.code})
