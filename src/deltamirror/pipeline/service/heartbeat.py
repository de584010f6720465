"""Renews the leases of work that is under way."""

import logging
import math
import threading
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Self

from deltamirror.pipeline.run.execution import our_error
from deltamirror.telemetry.mentions import Mentions
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.leases import renew
from deltamirror.work import Lane, Lease

__all__ = ["Heartbeat"]

_log = logging.getLogger(__name__)
_BEATS_A_LEASE = 3


class Heartbeat:
    """A thread that renews leases, three times within the shortest of them, until they are removed.

    ``seconds`` says how long leases are; when they become shorter, the next lease makes the thread hurry.
    """

    def __init__(self, database: Database, seconds: Callable[[], Mapping[Lane, float]]) -> None:
        self._database = database
        self._seconds = seconds
        self._pause = math.inf
        self._wake = threading.Event()
        self._leases: dict[tuple[int, Lane], Lease] = {}
        self._lock = threading.Lock()
        self._mentions = Mentions()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="deltamirror-heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._wake.set()
        self._thread.join()

    def add(self, leases: Iterable[Lease]) -> None:
        """Renew these from here on."""
        with self._lock:
            self._leases.update({(lease.table_id, lease.lane): lease for lease in leases})
        if self._pause_now() < self._pause:
            self._wake.set()

    def remove(self, leases: Iterable[Lease]) -> list[Lease]:
        """Renew these no longer; those of them that were renewed."""
        with self._lock:
            return [lease for lease in leases if self._leases.pop((lease.table_id, lease.lane), None) is not None]

    def _beat(self) -> None:
        while not self._stop.is_set():
            self._pause = self._pause_now()
            if self._wake.wait(self._pause):
                self._wake.clear()  # leases are shorter than they were, or this ends
                continue
            for lane, seconds in self._seconds().items():
                self._renew(lane, seconds)

    def _pause_now(self) -> float:
        return min(self._seconds().values()) / _BEATS_A_LEASE

    def _renew(self, lane: Lane, seconds: float) -> None:
        with self._lock:
            leases = [lease for lease in self._leases.values() if lease.lane is lane]
        try:
            if leases:
                renew(self._database, leases, seconds=seconds)
        except Exception as error:  # noqa: BLE001  a beat that is lost is no reason to lose all that follow
            # Who loses a lease stops before its next put; the next beat may succeed.
            ours = our_error(error)
            if self._mentions.is_news(lane, ours.code):
                what = "leases of %d tables could not be renewed: %s"
                _log.warning(what, len(leases), ours, extra={"lane": lane.value, "code": ours.code})
        else:
            self._mentions.is_well(lane)
