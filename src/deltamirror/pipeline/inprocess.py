"""The runner without Spark: threads of this process."""

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from deltamirror.config import Settings
from deltamirror.errors import Unavailable
from deltamirror.pipeline.execution import Resources, execute, failed
from deltamirror.txnlog.database import Database
from deltamirror.work import CommitUnit, Outcome, Unit

__all__ = ["InProcessRunner", "run_in_threads"]


class InProcessRunner:
    """Works on several units at once, in the process of whoever asks."""

    fetches = True

    def __init__(self, database: Database, settings: Settings) -> None:
        self._resources = Resources(database)
        self._settings = settings

    def run(self, units: Sequence[Unit]) -> Iterator[Outcome]:
        """One outcome for each unit, as they finish."""
        return run_in_threads(
            units,
            self._resources,
            threads=self._settings.mirror.threads,
            grace=self._settings.storage.transfer_timeout,
        )

    def close(self) -> None:
        """The database is the caller's; nothing else is open."""


@dataclass(frozen=True, slots=True)
class _Task:
    """A unit at work."""

    unit: Unit
    give_up_at: float
    abandoned: threading.Event = field(default_factory=threading.Event)


def run_in_threads(units: Sequence[Unit], resources: Resources, *, threads: int, grace: float) -> Iterator[Outcome]:
    """Work on units, so many at once; outcomes as they finish.

    A unit of commits that hangs for longer than its budget and ``grace``, which is beyond every time-out of its store,
    is given up: its outcome says so, its thread puts nothing further, and the others go on.
    """
    waiting, done = list(reversed(units)), queue.SimpleQueue[tuple[_Task, Outcome]]()
    running: list[_Task] = []
    while waiting or running:
        while waiting and len(running) < threads:
            running.append(_begin(waiting.pop(), resources, done, grace=grace))
        for task, outcome in _finished(running, done):
            running.remove(task)
            yield outcome


def _begin(
    unit: Unit, resources: Resources, done: "queue.SimpleQueue[tuple[_Task, Outcome]]", *, grace: float
) -> _Task:
    patience = unit.budget + grace if isinstance(unit, CommitUnit) else float("inf")
    task = _Task(unit, time.monotonic() + patience)

    def work() -> None:
        done.put((task, execute(unit, resources, abandoned=task.abandoned)))

    threading.Thread(target=work, name=f"deltamirror-{unit.table}", daemon=True).start()
    return task


def _finished(
    running: Sequence[_Task], done: "queue.SimpleQueue[tuple[_Task, Outcome]]"
) -> list[tuple[_Task, Outcome]]:
    """The next task that ends, or those whose time is over."""
    left = min(task.give_up_at for task in running) - time.monotonic()
    try:
        task, outcome = done.get(timeout=max(left, 0.0) if left < threading.TIMEOUT_MAX else None)
    except queue.Empty:
        late = [task for task in running if task.give_up_at <= time.monotonic()]
        return [(task, _given_up(task)) for task in late]
    return [(task, outcome)] if task in running else []


def _given_up(task: _Task) -> Outcome:
    task.abandoned.set()
    error = Unavailable(
        f"the store of table {task.unit.table!r} does not answer",
        hint="its time-outs are storage.timeout and storage.transfer_timeout; the mirror tries again",
    )
    return failed(task.unit, error)
