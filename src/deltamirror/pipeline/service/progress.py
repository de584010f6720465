"""What a service has in hand, and when it last got something done: one that hangs is told from an idle one by this."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from deltamirror.pipeline.service.jobs import Job
from deltamirror.work import Lane


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """A job in hand, and for how many seconds nothing has come of it."""

    lane: Lane
    tables: tuple[str, ...]
    seconds: float
    lane_seconds: float
    """For how long nothing has come of any job of its lane."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a service stands at a moment. Times are in seconds."""

    turned: float | None
    """How long ago it last looked for work; None before the first time."""
    advanced: float
    """How long ago anything came of a job; since the service began, if nothing did."""
    jobs: tuple[Quiet, ...]
    """What is in hand, the longest without an outcome first."""


@dataclass(slots=True)
class _InHand:
    lane: Lane
    tables: tuple[str, ...]
    since: float


class WorkInHand:
    """The record of one service. Safe to share between threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._jobs: dict[Job, _InHand] = {}
        self._begun: float | None = None
        self._turned: float | None = None
        self._advanced: dict[Lane, float] = {}
        self._noted = float("-inf")

    def turn(self) -> None:
        """The service looks for work."""
        with self._lock:
            self._turned = self._clock()
            self._begun = self._turned if self._begun is None else self._begun

    def begin(self, lane: Lane, job: Job) -> None:
        """A job is begun."""
        with self._lock:
            self._jobs[job] = _InHand(lane, job.tables, self._clock())

    def advance(self, job: Job) -> None:
        """Something came of a job, be it a failure."""
        with self._lock:
            found = self._jobs[job]
            found.since = self._advanced[found.lane] = self._clock()

    def end(self, job: Job) -> None:
        """A job is over."""
        with self._lock:
            found = self._jobs.pop(job)
            self._advanced[found.lane] = self._clock()

    def note(self) -> None:
        """Work that no service does, but a caller of its engine, gets on."""
        self._noted = self._clock()

    def noted(self) -> float:
        """How many seconds ago it did; infinite if it never did."""
        return self._clock() - self._noted

    def standing(self) -> Standing:
        """How the service stands at this moment."""
        with self._lock:
            now = self._clock()
            jobs = [self._quiet(job, now) for job in self._jobs.values()]
            last = max(self._advanced.values(), default=self._begun)
            return Standing(
                turned=None if self._turned is None else now - self._turned,
                advanced=0.0 if last is None else now - last,
                jobs=tuple(sorted(jobs, key=lambda job: -job.seconds)),
            )

    def _quiet(self, job: _InHand, now: float) -> Quiet:
        first = min(each.since for each in self._jobs.values() if each.lane is job.lane)
        # Before the first of its jobs the lane had nothing to do.
        since = max(self._advanced.get(job.lane, first), first)
        return Quiet(lane=job.lane, tables=job.tables, seconds=now - job.since, lane_seconds=now - since)
