"""Whose turn it is to compare the log of a table."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Self

from deltamirror.errors import LeaseLost
from deltamirror.pipeline.engine import MirrorEngine
from deltamirror.pipeline.heartbeat import Heartbeat
from deltamirror.txnlog.findings import Turn
from deltamirror.txnlog.kept import KeptLog
from deltamirror.txnlog.leases import release, take
from deltamirror.work import Lane, Lease

__all__ = ["Turns"]


class Turns:
    """Takes turns with everybody else who compares logs. A turn is kept for as long as the comparison takes."""

    def __init__(self, engine: MirrorEngine) -> None:
        self._engine = engine
        self._seconds = engine.settings.mirror.lease
        self._resources = ExitStack()
        seconds = {Lane.RECONCILIATION: self._seconds}
        self._heartbeat = self._resources.enter_context(Heartbeat(engine.database, seconds))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.close()

    @contextmanager
    def turn(self, log: KeptLog, *, patience: float) -> Iterator[Turn]:
        """One's turn at a table; ``LeaseLost`` if somebody else has it for longer than one is patient."""
        database, lease = self._engine.database, self._taken(log, patience)
        self._heartbeat.add([lease])
        try:
            yield Turn(database, lease, seconds=self._seconds)
        finally:
            self._heartbeat.remove([lease])
            release(database, [lease])

    def _taken(self, log: KeptLog, patience: float) -> Lease:
        deadline = time.monotonic() + patience
        while True:
            lease = take(
                self._engine.database,
                log.table_id,
                lane=Lane.RECONCILIATION,
                owner=self._engine.owner,
                seconds=self._seconds,
            )
            if lease is not None:
                return lease
            if time.monotonic() >= deadline:
                raise LeaseLost(
                    f"somebody else compares the log of table {log.name!r}", hint="try again later", table=log.name
                )
            time.sleep(self._engine.settings.mirror.poll)
