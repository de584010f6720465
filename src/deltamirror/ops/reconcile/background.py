"""Comparing logs beside a service's other work."""

import logging
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from deltamirror.errors import LeaseLost
from deltamirror.ops.reconcile.reconciling import Reconciler
from deltamirror.pipeline.run.execution import our_error
from deltamirror.pipeline.service.shutdown import Ending
from deltamirror.telemetry.mentions import Mentions
from deltamirror.telemetry.traces import traced
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.expected_objects import KeptLog, kept_logs

__all__ = ["BackgroundReconciler", "Rounds", "pause_after"]

_log = logging.getLogger(__name__)
_LONGEST_PAUSE: Final = 30.0
_REST: Final = 3.0
"""How many times as long as it looked at logs the thread rests."""
_LONGEST_REST: Final = 300.0


def pause_after(took: float, *, interval: float) -> float:
    """How many seconds pass before it is seen which logs are due, after so many that were spent on looking."""
    return max(min(interval / 10, _LONGEST_PAUSE), min(_REST * took, _LONGEST_REST))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """How a reconciler stands at a moment."""

    is_running: bool
    table: str | None
    """The log that it is at."""
    late: float
    """For how many seconds it has been at that log and nothing came of it, or should have begun another round."""
    error: str
    """Why the last round came to nothing; empty if it did not."""


class BackgroundReconciler:
    """A thread that looks at each log once in an interval, unless another service did. It holds up no publishing.

    Where there is more to look at, it is looked at less often: the thread rests for most of its time. With ``lets_go``
    other processes can open the database meanwhile, where only one of them at a time can.
    """

    def __init__(
        self, database: Database, reconciler: Reconciler, *, interval: float, ending: Ending, lets_go: bool = False
    ) -> None:
        self._database, self._reconciler, self._interval = database, reconciler, interval
        self._ending = ending
        self._lets_go = lets_go
        self._at: tuple[str | None, float] = None, time.monotonic()
        self._error = ""
        self._mentions = Mentions()
        self._failed: dict[int, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="deltamirror-reconciler", daemon=True)

    def __enter__(self) -> Self:
        if self.is_on:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self.is_on:
            self._ending.wait(self._is_over)

    @property
    def is_on(self) -> bool:
        """Whether the settings ask for it."""
        return self._interval > 0

    def rounds(self) -> Rounds:
        """How it stands at this moment."""
        table, since = self._at
        late = max(0.0, min(time.monotonic() - since, self._reconciler.quiet()))
        return Rounds(is_running=self._thread.is_alive(), table=table, late=late, error=self._error)

    def _is_over(self, seconds: float) -> bool:
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        took = 0.0
        while not self._rested(pause_after(took, interval=self._interval)):
            begun = time.monotonic()
            try:
                self._round()
                self._error = ""
            except BaseException as error:  # noqa: BLE001  a panic of a Rust library, too: this thread has to last
                ours = our_error(error)
                level = logging.DEBUG if ours is error else logging.ERROR
                _log.log(level, "the logs are not compared: %s", ours)
                self._error = str(ours)
            took = time.monotonic() - begun

    def _rested(self, seconds: float) -> bool:
        """Wait for the next round; whether there is none."""
        self._at = None, time.monotonic() + seconds
        return self._stop.wait(seconds)

    def _round(self) -> None:
        try:
            self._look_at_all()
        finally:
            if self._lets_go:
                self._database.let_go()

    def _look_at_all(self) -> None:
        with self._database.read() as connection:
            due = kept_logs(connection, idle_ms=int(self._interval * 1000))
        for log in due:
            if self._stop.is_set():
                return
            self._at = log.name, time.monotonic()
            if time.monotonic() - self._failed.get(log.table_id, -self._interval) >= self._interval:
                self._look(log)

    @traced()
    def _look(self, log: KeptLog) -> None:
        try:
            found = self._reconciler.look(log)
        except LeaseLost:
            return  # somebody else's turn
        except Exception as error:  # noqa: BLE001  the others are compared nevertheless
            self._failed[log.table_id] = time.monotonic()
            ours = our_error(error)
            if self._mentions.is_news(log.table_id, ours.code):
                fields = {"table": log.name, "table_id": log.table_id, "code": ours.code}
                _log.warning("the log of table %r was not compared: %s", log.name, ours, extra=fields)
            return
        self._mentions.is_well(log.table_id)
        if found.missing or found.checkpoints:
            what = "%d commits and %d checkpoints were gone from the log of table %r; %d objects are written again"
            fields = {"table": log.name, "table_id": log.table_id, "version": min(found.missing + found.checkpoints)}
            _log.warning(what, len(found.missing), len(found.checkpoints), log.name, found.repaired, extra=fields)
