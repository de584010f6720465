"""Units on threads, some at once. A unit that hangs is given up; it holds up no other."""

import threading
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from itertools import count, islice
from queue import Empty, SimpleQueue
from typing import Final

from deltamirror.errors import Unavailable
from deltamirror.pipeline.run.execution import Resources, execute, failed
from deltamirror.work import CommitUnit, Outcome, Stage, Unit, Verification

_CALLS_OF_A_CHECKPOINT: Final = 6
"""Reading the base, writing, reading back, the pointer: each may take as long as a transfer may."""


def patience(unit: Unit) -> float:
    """After how many seconds a unit is given up: longer than its store's own time-outs let it take."""
    transfer = unit.address.options.transfer_timeout
    reading = transfer if unit.verify is Verification.PARANOID else 0.0
    publishing = unit.budget + transfer if isinstance(unit, CommitUnit) else _CALLS_OF_A_CHECKPOINT * transfer
    return publishing + reading


def work_on(
    units: Iterable[Unit],
    *,
    threads: int,
    resources: Resources,
    patience: Callable[[Unit], float] = patience,
) -> Generator[list[Outcome]]:
    """One outcome for each unit, as they finish. A caller that stops listening stops the work before its next put."""
    crew, waiting = _Crew(resources, patience), iter(units)
    try:
        for unit in islice(waiting, threads):
            crew.start(unit)
        while crew.busy:
            outcomes = crew.next_outcomes()
            for unit in islice(waiting, len(outcomes)):
                crew.start(unit)
            yield outcomes
    finally:
        crew.give_up_all()


@dataclass(frozen=True, slots=True)
class _Task:
    unit: Unit
    deadline: float
    given_up: threading.Event = field(default_factory=threading.Event)


class _Crew:
    """Threads at work. They are daemons, since one that hangs in a system call cannot be ended."""

    def __init__(self, resources: Resources, patience: Callable[[Unit], float]) -> None:
        self.busy: dict[int, _Task] = {}
        self._resources = resources
        self._patience = patience
        self._numbers = count()
        self._finished: SimpleQueue[tuple[int, Outcome]] = SimpleQueue()

    def start(self, unit: Unit) -> None:
        """Begin with a unit."""
        number = next(self._numbers)
        task = self.busy[number] = _Task(unit, time.monotonic() + self._patience(unit))
        threading.Thread(target=self._work, args=(number, task), name=f"mirror {unit.table}", daemon=True).start()

    def next_outcomes(self) -> list[Outcome]:
        """The next outcome and those that are there with it; of a unit that is given up, if its time comes first."""
        while True:
            number, task = min(self.busy.items(), key=lambda item: item[1].deadline)
            try:
                first = self._finished.get(timeout=max(0.0, task.deadline - time.monotonic()))
            except Empty:
                return [self._give_up(number)]
            finished = [first, *(self._finished.get_nowait() for _ in range(self._finished.qsize()))]
            if outcomes := [outcome for number, outcome in finished if self.busy.pop(number, None) is not None]:
                return outcomes

    def give_up_all(self) -> None:
        """Let nothing more be put."""
        for task in self.busy.values():
            task.given_up.set()

    def _work(self, number: int, task: _Task) -> None:
        self._finished.put((number, execute(task.unit, resources=self._resources, given_up=task.given_up)))

    def _give_up(self, number: int) -> Outcome:
        task = self.busy.pop(number)
        task.given_up.set()
        unit = task.unit
        error = Unavailable(
            f"the work on table {unit.table!r} hung for {self._patience(unit):.0f} s and was given up",
            hint=f"look after the store of {unit.address.location}; the mirror tries again",
        )
        return failed(unit, error, Stage.PUT)
