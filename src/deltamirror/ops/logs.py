"""The logs of an engine's tables, compared by whoever has the turn."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Self

from deltamirror.errors import LeaseLost
from deltamirror.ops.examination import Findings, Look, examine
from deltamirror.pipeline.engine import MirrorEngine
from deltamirror.pipeline.heartbeat import Heartbeat
from deltamirror.pipeline.inspection import Inspector
from deltamirror.storage.location import store_prefix
from deltamirror.storage.open import StoreAddress
from deltamirror.storage.store import Store
from deltamirror.txnlog.findings import Turn
from deltamirror.txnlog.kept import KeptLog
from deltamirror.txnlog.leases import release, take
from deltamirror.work import Lane, Lease

__all__ = ["Logs"]


class Logs:
    """Compares logs, in turns with everybody else who does. A turn is kept for as long as it takes.

    Engine and inspector stay the caller's.
    """

    def __init__(self, engine: MirrorEngine, inspector: Inspector) -> None:
        self.engine = engine
        self._inspector = inspector
        self._seconds = engine.settings.mirror.lease
        self._resources = ExitStack()
        heartbeat = Heartbeat(engine.database, {Lane.RECONCILIATION: self._seconds})
        self._heartbeat = self._resources.enter_context(heartbeat)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.close()

    def store(self, log: KeptLog) -> Store:
        """The store that a log is in."""
        return self._inspector.store(self._address(log))

    def is_left_alone(self, log: KeptLog) -> bool:
        """Whether nobody makes requests to the store of a log, or only whoever tries it."""
        return store_prefix(log.location) in self.engine.breakers.gate().shut

    def examine(self, log: KeptLog, look: Look) -> Findings:
        """What is not in a log as it should be."""
        return examine(self.engine.database, log, self._inspector, self._address(log), look)

    @contextmanager
    def turn(self, log: KeptLog, *, waits: bool) -> Iterator[Turn]:
        """One's turn at a log; ``LeaseLost`` if somebody else has it, at once or after waiting for a while."""
        self.engine.breakers.require(log.location)
        database, lease = self.engine.database, self._taken(log, self._seconds if waits else 0.0)
        self._heartbeat.add([lease])
        try:
            yield Turn(database, lease, seconds=self._seconds)
        finally:
            self._heartbeat.remove([lease])
            release(database, [lease])

    def _taken(self, log: KeptLog, patience: float) -> Lease:
        deadline = time.monotonic() + patience
        while (lease := self._take(log)) is None:
            if time.monotonic() >= deadline:
                message = f"somebody else compares the log of table {log.name!r}"
                raise LeaseLost(message, hint="try again later", table=log.name)
            time.sleep(self.engine.settings.mirror.poll)
        return lease

    def _take(self, log: KeptLog) -> Lease | None:
        lane, owner = Lane.RECONCILIATION, self.engine.owner
        return take(self.engine.database, log.table_id, lane=lane, owner=owner, seconds=self._seconds)

    def _address(self, log: KeptLog) -> StoreAddress:
        return StoreAddress.of(log.location, self.engine.settings.storage)
