"""Where time goes: the clock runs for one stage at a time."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

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

    def at(self, stage: str) -> "_Visit":
        """The time of the block is the stage's."""
        return _Visit(self, stage)

    def each(self, stage: str, items: Iterable[T]) -> Iterator[T]:
        """The items; the time until each of them is there is the stage's, the time that the caller takes is not."""
        waiting = iter(items)
        while True:
            with self.at(stage):
                try:
                    item = next(waiting)
                except StopIteration:
                    return
            yield item

    def move(self, stage: str) -> str:
        """Go on to another stage; the one before it."""
        before, now = self._stage, self._clock()
        self._seconds[before] += now - self._since
        self._stage, self._since = stage, now
        return before


class _Visit:
    """A stage for the length of a block. A class, since a version goes through several: a generator costs twice."""

    __slots__ = ("_before", "_stage", "_watch")

    def __init__(self, watch: Stopwatch, stage: str) -> None:
        self._watch, self._stage, self._before = watch, stage, ""

    def __enter__(self) -> None:
        self._before = self._watch.move(self._stage)

    def __exit__(self, *_: object) -> None:
        self._watch.move(self._before)
