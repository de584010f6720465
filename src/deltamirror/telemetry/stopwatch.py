"""Where time goes: the clock runs for one stage at a time."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

__all__ = ["Stopwatch"]

T = TypeVar("T")


class Stopwatch:
    """The time that one thread spent in each stage. While it is in a stage inside of another, that other one waits."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stage, self._since = "", clock()
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def seconds(self, stage: str) -> float:
        """How long it was in a stage that it has left."""
        return self._seconds[stage]

    @contextmanager
    def at(self, stage: str) -> Iterator[None]:
        """The time of the block is the stage's."""
        before = self._move(stage)
        try:
            yield
        finally:
            self._move(before)

    def each(self, stage: str, items: Iterable[T]) -> Iterator[T]:
        """The items; the time until each of them is there is the stage's, what is done with them is not."""
        waiting = iter(items)
        while True:
            with self.at(stage):
                try:
                    item = next(waiting)
                except StopIteration:
                    return
            yield item

    def _move(self, stage: str) -> str:
        """Go on to another stage; the one before it."""
        before, now = self._stage, self._clock()
        self._seconds[before] += now - self._since
        self._stage, self._since = stage, now
        return before
