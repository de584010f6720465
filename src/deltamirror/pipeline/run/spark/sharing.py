"""How jobs share Spark: what one of them carries, and how many slots it takes."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from deltamirror.work import CommitWork, Unit

LARGEST: Final = 24 * 1024 * 1024
"""How many bytes one job carries. The JVM holds several copies of them, and hangs or ends when it has no room."""


class Shares:
    """The slots of Spark, divided among jobs so that one that hangs leaves a slot for each of the others."""

    def __init__(self, jobs: Callable[[], int]) -> None:
        self._jobs = jobs
        self._taken: list[int] = []
        self._lock = threading.Lock()

    @contextmanager
    def taken(self, slots: int, *, wanted: int) -> Iterator[int]:
        """How many slots a job may use while it runs, up to what it wants; at least one."""
        with self._lock:
            to_come = self._jobs() - len(self._taken) - 1
            free = slots - sum(self._taken) - max(0, to_come)
            share = max(1, min(wanted, free))
            self._taken.append(share)
        try:
            yield share
        finally:
            with self._lock:
                self._taken.remove(share)


def carried_bytes(work: CommitWork) -> int:
    """How many bytes of chunks a commit carries."""
    return sum(len(chunk.data) for chunk in work.chunks or ())


def unit_bytes(unit: Unit) -> int:
    """How many bytes of chunks a unit carries."""
    return sum(map(carried_bytes, unit.commits))
