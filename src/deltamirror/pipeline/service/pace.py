"""How much of its time a service spends on checkpoints: after each job of theirs it rests from them for a while."""

import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

LONGEST_REST: Final = 300.0
"""Seconds: a job that hung, or that a suspended machine kept from ending, holds up no table for longer."""


def rest_of_share(took: float, percent: float) -> float:
    """How many seconds of rest follow work of so many, so that it has this share of the time."""
    return took * (100.0 - percent) / percent


class Pace:
    """The rest that follows work at a lane, and the tables that it does not hold up. Safe to share between threads.

    Work is the time that jobs take, as it passes: on a machine with more to do than it can, checkpoints take longer,
    and the rest grows with them. A table whose checkpoint is late is not held up, so that no log grows without bound.
    """

    def __init__(self, percent: Callable[[], float], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._percent, self._clock = percent, clock
        self._lock = threading.Lock()
        self._rests_until = float("-inf")
        self._late: set[int] = set()

    def worked(self, seconds: float) -> None:
        """A job took so long, and is over."""
        rest = rest_of_share(seconds, self._percent())
        with self._lock:
            begun = self._clock()
            rested = max(self._rests_until, begun) + rest
            self._rests_until = min(rested, begun + LONGEST_REST)

    def rest(self) -> float:
        """For how many seconds from this moment nothing is begun that is not late."""
        with self._lock:
            return max(0.0, self._rests_until - self._clock())

    def hurry(self, table_id: int) -> None:
        """A checkpoint of this table is late."""
        with self._lock:
            self._late.add(table_id)

    def late(self) -> list[int]:
        """The tables with one that is late."""
        with self._lock:
            return sorted(self._late)

    def forget(self, table_ids: Iterable[int]) -> None:
        """These are taken up, or have nothing that can be."""
        with self._lock:
            self._late.difference_update(table_ids)
