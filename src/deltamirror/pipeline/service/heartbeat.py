"""Renews the leases of work that is under way, and gives them back."""

import logging
import math
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Self

from deltamirror.errors import DeltaMirrorError
from deltamirror.pipeline.failures.our_errors import our_error
from deltamirror.telemetry.mentions import Mentions
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.leases import release, renew
from deltamirror.work import Lane, Lease

_log = logging.getLogger(__name__)
_BEATS_A_LEASE = 3
_OWED_PAUSE = 1.0


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
        self._owed: list[Lease] = []
        self._lock = threading.Lock()
        self._mentions = Mentions()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="deltamirror-heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
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
        """Renew these no longer; those of them that were renewed. One that was claimed since is another lease."""
        with self._lock:
            return [lease for lease in leases if self._removed(lease)]

    def give_back(self, leases: Iterable[Lease]) -> None:
        """Let other processes have these, and renew them no longer.

        If the database does not answer, that is raised; the leases are given back when it does again, so that their
        tables need not wait for the leases to end.
        """
        ended = list(leases)
        self.remove(ended)
        try:
            release(self._database, ended)
        except DeltaMirrorError:
            with self._lock:
                self._owed += ended
            self._wake.set()
            raise

    def _removed(self, lease: Lease) -> bool:
        place = lease.table_id, lease.lane
        renewed = self._leases.get(place)
        if renewed is None or renewed.epoch != lease.epoch:
            return False
        del self._leases[place]
        return True

    def _beat(self) -> None:
        while not self._stop.is_set():
            self._pause = self._pause_now()
            if self._wake.wait(min(self._pause, _OWED_PAUSE) if self._owed else self._pause):
                self._wake.clear()  # leases are shorter than they were, some are owed, or this ends
                continue
            self._give_back_owed()
            for lane, seconds in self._seconds().items():
                self._renew(lane, seconds)

    def _pause_now(self) -> float:
        return min(self._seconds().values()) / _BEATS_A_LEASE

    def _give_back_owed(self) -> None:
        with self._lock:
            owed, self._owed = self._owed, []
        if owed:
            with suppress(DeltaMirrorError):  # they are owed still
                self.give_back(owed)

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
