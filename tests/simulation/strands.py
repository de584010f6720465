"""Threads that take turns: one runs at a time, which one is next is drawn by lot, and time is a number.

A *strand* is a thread of a simulated process. It goes on until it makes a *step* (a call of the database or of a store)
or waits; then whoever holds the turn draws the next one. Time moves a little with each step, and to the next deadline
when everybody waits. So a run is the same each time that the lots are the same.

A process ends when all of its strands have come to their ends, but for daemons, which end with it. One that is killed
takes no step any more: each of its strands is unwound by ``Dropped``, and whatever it still tries on the way out comes
to nothing. One that is suspended is not drawn.
"""

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

_UNWINDING: Final = 2_000
"""A killed process that takes more turns than this to come to its end never does."""

_LONGEST_STEP: Final = 0.02


class Dropped(BaseException):
    """The process was killed."""


@dataclass(eq=False)
class Process:
    """Strands that live and die together."""

    name: str
    is_alive: bool = True
    is_suspended: bool = False
    strands: list["Strand"] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        """Whether all of it has come to its end; daemons end with the rest."""
        return all(strand.is_done or strand.is_daemon for strand in self.strands)


class Strand:
    """A thread that runs when it has the turn."""

    def __init__(self, name: str, process: Process, *, is_daemon: bool = False) -> None:
        self.name, self.process, self.is_daemon = name, process, is_daemon
        self.turn = threading.Lock()
        self.turn.acquire()
        self.ready: Callable[[], bool] | None = None
        self.deadline: float | None = None
        self.is_done = False

    def is_runnable(self, now: float) -> bool:
        """Whether it could go on; one of a killed process can, to its end."""
        if self.is_done:
            return False
        if not self.process.is_alive:
            return True
        if self.process.is_suspended:
            return False
        return self.ready is None or self.ready() or (self.deadline is not None and now >= self.deadline)


class Hands:
    """The threads of the operating system that strands run on. One that is done takes up another."""

    def __init__(self) -> None:
        self._idle: list[_Hand] = []
        self._own = threading.local()

    def lend(self, work: Callable[[], None]) -> None:
        """Do this in a thread."""
        if self._idle:
            hand = self._idle.pop()
            hand.work = work
            hand.woken.release()
        else:
            _Hand(work, self._work).thread.start()

    def give_back(self) -> None:
        """This thread is about to end what it does: others may have it."""
        self._idle.append(self._own.hand)

    def close(self) -> None:
        """End the threads: all strands have come to their ends."""
        for hand in self._idle:
            hand.work = None
            hand.woken.release()
            hand.thread.join()

    def _work(self, hand: "_Hand") -> None:
        self._own.hand = hand
        while hand.work is not None:
            hand.work()
            hand.woken.acquire()


class _Hand:
    def __init__(self, work: Callable[[], None], run: Callable[["_Hand"], None]) -> None:
        self.work: Callable[[], None] | None = work
        self.thread = threading.Thread(target=run, args=(self,), name="strand", daemon=True)
        self.woken = threading.Lock()
        self.woken.acquire()


class Schedule:
    """Who runs when. ``stickiness`` is how often, of ten times, whoever has the turn keeps it."""

    def __init__(self, hands: Hands, lots: random.Random, *, stickiness: int = 0) -> None:
        self.now = 0.0
        self.steps = 0
        self.trace: list[str] = []
        self.failure: BaseException | None = None
        self.before_step: Callable[[int], None] = lambda _: None
        self._hands, self._lots, self._stickiness = hands, lots, stickiness
        self._strands: list[Strand] = []
        self._is_over: Callable[[], bool] = lambda: False
        self._is_stuck = False
        self._unwound = 0
        self._director = self.current = Strand("director", Process("director"))

    @property
    def process(self) -> Process:
        """Whose turn it is."""
        return self.current.process

    @property
    def is_directed(self) -> bool:
        """Whether nobody's turn it is: the schedule is being prepared, or looked at."""
        return self.current is self._director

    def spawn(
        self, name: str, work: Callable[[], None], process: Process | None = None, *, is_daemon: bool = False
    ) -> Strand:
        """Another strand, of the process that asks for it or of a fresh one."""
        strand = Strand(name, self.process if process is None else process, is_daemon=is_daemon)
        strand.process.strands.append(strand)
        self._strands.append(strand)
        self._hands.lend(lambda: self._live(strand, work))
        return strand

    def run(self, until: Callable[[], bool]) -> bool:
        """Let everybody run until something is the case; whether it is. It is not where all wait for each other."""
        self._is_over, self._is_stuck = until, False
        self._switch()
        if self.failure is not None:
            raise self.failure
        return not self._is_stuck

    def step(self, what: str) -> None:
        """Say what is about to be done, and let others go first, if the lot says so."""
        if self.is_directed:
            return
        self._require_life()
        self.steps += 1
        self.now += self._lots.random() * _LONGEST_STEP
        self.trace.append(f"{self.steps:5} {self.now:9.3f} {self.process.name:<12} {self.current.name}: {what}")
        self.before_step(self.steps)
        self._require_life()
        if self._lots.randrange(10) >= self._stickiness or self.process.is_suspended:
            self._switch()
            self._require_life()

    def wait(self, ready: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait until something is the case, or for so long; whether it is."""
        if self.is_directed:
            return ready()
        self._require_life()
        me = self.current
        me.ready, me.deadline = ready, None if seconds is None else self.now + seconds
        if not ready():
            self._switch()
        me.ready = me.deadline = None
        self._require_life()
        return ready()

    def sleep(self, seconds: float) -> None:
        """Wait for so long."""
        self.wait(lambda: False, seconds)

    def kill(self, process: Process) -> None:
        """End a process as a crash does."""
        process.is_alive = False
        self._unwound = 0

    def kill_all(self) -> None:
        """End everything. For the director."""
        for strand in self._strands:
            strand.process.is_alive = False
        self._unwound = 0
        self._is_over, self.failure = (lambda: all(strand.is_done for strand in self._strands)), None
        self._switch()

    def fail(self, failure: BaseException) -> None:
        """Something is wrong: the schedule ends here."""
        self.failure = self.failure or failure

    def note(self, what: str) -> None:
        """Write down what happens to everybody."""
        self.trace.append(f"{self.steps:5} {self.now:9.3f} -- {what}")

    def _require_life(self) -> None:
        if not self.process.is_alive:
            raise Dropped

    def _live(self, strand: Strand, work: Callable[[], None]) -> None:
        strand.turn.acquire()
        try:
            if strand.process.is_alive:
                work()
        except Dropped:
            pass
        except BaseException as error:  # noqa: BLE001 - the director raises it
            self.fail(error)
        self._end(strand)
        chosen = self._drawn()
        self._hands.give_back()
        self._pass_on(chosen)

    def _end(self, strand: Strand) -> None:
        strand.is_done = True
        self._strands.remove(strand)
        if strand.process.is_alive and strand.process.is_done:
            self.kill(strand.process)

    def _switch(self) -> None:
        me, chosen = self.current, self._drawn()
        if chosen is not me:
            self._pass_on(chosen)
            me.turn.acquire()

    def _pass_on(self, chosen: Strand) -> None:
        self.current = chosen
        chosen.turn.release()

    def _drawn(self) -> Strand:
        try:
            return self._next()
        except BaseException as error:  # noqa: BLE001 - nobody else could go on
            self.fail(error)
            return self._director

    def _next(self) -> Strand:
        """Who is next: the dying first, then the director, if what it waits for is the case, then anybody."""
        dying = next((strand for strand in self._strands if not strand.process.is_alive), None)
        if dying is not None and self._is_unwinding(dying):
            return dying
        if self.failure is not None or self._is_over():
            return self._director
        runnable = self._runnable()
        while not runnable:
            if not self._advance():
                self._is_stuck = True
                return self._director
            runnable = self._runnable()
        return runnable[self._lots.randrange(len(runnable))] if len(runnable) > 1 else runnable[0]

    def _is_unwinding(self, strand: Strand) -> bool:
        self._unwound += 1
        if self._unwound <= _UNWINDING:
            return True
        self._end(strand)
        self.fail(AssertionError(f"{strand.process.name}/{strand.name} was killed, and does not come to its end"))
        return False

    def _runnable(self) -> Sequence[Strand]:
        return [strand for strand in self._strands if strand.is_runnable(self.now)]

    def _advance(self) -> bool:
        """Let time go by until somebody's waiting is over."""
        waiting = [s.deadline for s in self._strands if s.deadline is not None and not s.process.is_suspended]
        if not waiting:
            return False
        self.now = max(self.now, min(waiting))
        return True
