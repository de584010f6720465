"""What can befall a request on its way through a proxy, and the rules by which it does."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from tests.support.faults.answering import Answer

__all__ = [
    "UNAVAILABLE",
    "Answer",
    "Cut",
    "Delay",
    "Fault",
    "Reset",
    "Rules",
    "Silence",
    "Throttle",
    "Truncate",
    "every",
]

UNAVAILABLE: Final = Answer(503, "ServiceUnavailable")


class Reset(StrEnum):
    """The connection is reset."""

    BEFORE = "reset before the request was passed on"
    WITHIN = "reset after half of the request was passed on"
    AFTER = "reset in place of the answer: what was asked took place"


class Silence(StrEnum):
    """Nothing is heard any more, and the connection stays open: the client's own patience ends it."""

    BEFORE = "the request is not passed on"
    AFTER = "the answer is not passed on: what was asked took place"


@dataclass(frozen=True, slots=True)
class Delay:
    """The request is passed on later."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Throttle:
    """Request and answer pass at this rate."""

    bytes_per_second: int


@dataclass(frozen=True, slots=True)
class Truncate:
    """The answer ends after so many bytes, of an HTTP answer's body; then the connection is closed."""

    keep: int


@dataclass(frozen=True, slots=True)
class Cut:
    """The store gets so many bytes of the request, as of a client that is killed; the connections are reset."""

    sent: int


Fault: TypeAlias = Answer | Cut | Delay | Reset | Silence | Throttle | Truncate


class Request(Protocol):
    """What is on its way."""

    @property
    def identity(self) -> str:
        """What it has in common with its repetitions."""


R = TypeVar("R", bound=Request)


def every(request: object) -> bool:
    """Any request is meant."""
    return True


@dataclass(slots=True)
class _Rule(Generic[R]):
    what: Fault
    which: Callable[[R], bool]
    times: int | None
    chance: float
    asked: Counter[str] = field(default_factory=Counter)


@dataclass
class Rules(Generic[R]):
    """The first rule that means a request, and is not used up, says what befalls it."""

    seed: int = 0
    _rules: list[_Rule[R]] = field(default_factory=list)

    def add(self, what: Fault, which: Callable[[R], bool], *, times: int | None, chance: float) -> None:
        """Let a fault befall the next requests that are meant; ``times`` None: for ever."""
        self._rules.append(_Rule(what, which, times, chance))

    def clear(self) -> None:
        """Nothing befalls anybody any more."""
        self._rules = []

    def choose(self, request: R) -> Fault | None:
        """What befalls a request; None: nothing."""
        for number, rule in enumerate(self._rules):
            if rule.times != 0 and rule.which(request) and self._happens(number, rule, request):
                rule.times = None if rule.times is None else rule.times - 1
                return rule.what
        return None

    def _happens(self, number: int, rule: _Rule[R], request: R) -> bool:
        """By the seed, the rule, the request, and how often it was asked: not by the order of different requests."""
        identity = request.identity
        rule.asked[identity] += 1
        if rule.chance >= 1:
            return True
        return random.Random(f"{self.seed} {number} {identity} {rule.asked[identity]}").random() < rule.chance
