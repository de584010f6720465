"""Comparing logs beside a service's other work."""

import logging
import threading
import time
from types import TracebackType
from typing import Final, Self

from deltamirror.errors import DeltaMirrorError, LeaseLost
from deltamirror.ops.reconcile import Reconciler
from deltamirror.pipeline.execution import our_error
from deltamirror.txnlog.database import Database
from deltamirror.txnlog.kept import KeptLog, kept_logs

__all__ = ["BackgroundReconciler"]

_log = logging.getLogger(__name__)
_LONGEST_PAUSE: Final = 30.0


class BackgroundReconciler:
    """A thread that looks at each log once in an interval, unless another service did. It holds up no publishing."""

    def __init__(self, database: Database, reconciler: Reconciler, *, interval: float) -> None:
        self._database, self._reconciler, self._interval = database, reconciler, interval
        self._failed: dict[int, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="deltamirror-reconciler", daemon=True)

    def __enter__(self) -> Self:
        if self._interval > 0:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._interval > 0:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(min(self._interval / 10, _LONGEST_PAUSE)):
            try:
                self._look_at_all()
            except DeltaMirrorError as error:
                _log.debug("the logs are not compared: %s", error)
            except Exception as error:  # noqa: BLE001  this thread has to last as long as the service
                _log.error("the logs are not compared: %s", our_error(error))

    def _look_at_all(self) -> None:
        with self._database.read() as connection:
            due = kept_logs(connection, idle_ms=int(self._interval * 1000))
        for log in due:
            if self._stop.is_set():
                return
            if time.monotonic() - self._failed.get(log.table_id, -self._interval) >= self._interval:
                self._look(log)

    def _look(self, log: KeptLog) -> None:
        try:
            found = self._reconciler.look(log)
        except LeaseLost:
            return  # somebody else's turn
        except Exception as error:  # noqa: BLE001  the others are compared nevertheless
            self._failed[log.table_id] = time.monotonic()
            _log.warning("the log of table %r was not compared: %s", log.name, our_error(error))
            return
        if found.missing or found.checkpoints:
            what = "%d commits and %d checkpoints were gone from the log of table %r; %d objects are written again"
            _log.warning(what, len(found.missing), len(found.checkpoints), log.name, found.repaired)
