"""Comparing logs beside a service's other work."""

import logging
import math
import time
from dataclasses import dataclass
from typing import Final

from deltamirror.config import LiveSettings, Switch
from deltamirror.errors import LeaseLost
from deltamirror.ops.reconcile.reconciling import Reconciler
from deltamirror.ops.service_thread import ServiceThread
from deltamirror.pipeline.failures.our_errors import our_error
from deltamirror.pipeline.service.shutdown import Ending
from deltamirror.telemetry.mentions import Mentions
from deltamirror.telemetry.traces import traced
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.expected_objects import KeptLog, kept_logs

_log = logging.getLogger(__name__)
_LONGEST_PAUSE: Final = 30.0
_REST: Final = 3.0
"""How many times as long as it looked at a log the thread rests."""
_REST_OF_PROCESSOR: Final = 400.0
"""How many times as long as it computed meanwhile it rests: threads of the store compute about as much as this one, so
that it takes some hundredth of a core."""
_LOGS_AT_ONCE: Final = 20
"""After so many it is seen again which logs are due: other services look at them, too."""


def rest_after(took: float, computed: float, *, interval: float) -> float:
    """How many seconds pass after a look at a log, which took so many, before the next log is looked at."""
    return min(max(_REST * took, _REST_OF_PROCESSOR * computed), interval)


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


class BackgroundReconciler(ServiceThread):
    """A thread that looks at each log once in an interval, unless another service did. It holds up no publishing.

    Where there are very many logs, each is looked at less often: the thread rests after each look, so that a service
    with nothing to publish computes next to nothing. With ``lets_go`` other processes can open the database
    meanwhile, where only one of them at a time can.
    """

    def __init__(
        self, database: Database, reconciler: Reconciler, *, live: LiveSettings, ending: Ending, lets_go: bool = False
    ) -> None:
        super().__init__(live, ending, name="deltamirror-reconciler")
        self._database, self._reconciler = database, reconciler
        self._lets_go = lets_go
        self._at: tuple[str | None, float] = None, time.monotonic()
        self._error = ""
        self._mentions = Mentions()
        self._failed: dict[int, float] = {}

    @property
    def is_on(self) -> bool:
        """Whether the settings ask for it."""
        return self._interval > 0

    def rounds(self) -> Rounds:
        """How it stands at this moment."""
        table, since = self._at
        late = max(0.0, min(time.monotonic() - since, self._reconciler.quiet()))
        return Rounds(is_running=self._thread.is_alive(), table=table, late=late, error=self._error)

    def work(self) -> None:
        """Round after round."""
        while not self._stop.is_set():
            if not self._rested(min(self._interval / 10, _LONGEST_PAUSE)):
                continue  # settings have changed, or this ends
            try:
                self._look_at_all()
                self._error = ""
            except BaseException as error:  # noqa: BLE001  a panic of a Rust library, too: this thread has to last
                ours = our_error(error)
                level = logging.DEBUG if ours is error else logging.ERROR
                _log.log(level, "the logs are not compared: %s", ours)
                self._error = str(ours)

    @property
    def _interval(self) -> float:
        return self._live.current.reconcile.interval

    def _rested(self, seconds: float) -> bool:
        """Wait; whether nothing woke it before. Without an interval, wait until the settings have changed."""
        if self._lets_go:
            self._database.let_go()
        pause = seconds if self._interval > 0 else None
        self._at = None, time.monotonic() + (math.inf if pause is None else pause)
        return not self._is_woken(pause)

    def _look_at_all(self) -> None:
        """Look once at each log that is due, those first that wait longest."""
        done = set[int]()
        while due := [log for log in self._due() if log.table_id not in done][:_LOGS_AT_ONCE]:
            for log in due:
                done.add(log.table_id)
                self._at = log.name, time.monotonic()
                begun, computed = time.monotonic(), time.thread_time()
                self._look(log)
                took, computed = time.monotonic() - begun, time.thread_time() - computed
                if not self._rested(rest_after(took, computed, interval=self._interval)):
                    return  # settings have changed, or this ends

    def _due(self) -> list[KeptLog]:
        interval, switch = self._interval, Switch.of(self._live.current)
        with self._database.read() as connection:
            due = kept_logs(connection, switch, idle_ms=int(interval * 1000))
        long_ago = time.monotonic() - interval
        return [log for log in due if self._failed.get(log.table_id, long_ago) <= long_ago]

    @traced()
    def _look(self, log: KeptLog) -> None:
        try:
            found = self._reconciler.look(log)
        except LeaseLost:
            return  # another process compares or cleans it
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
