"""How fast tokens can be guessed: the answer to a wrong one comes later with each, for a client and for all together.

A right token is never counted and never waits: clients behind one proxy have one address, and those that guess would
shut out the others.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_FREE: Final = 3
"""Wrong tokens of one client, by mistake, before answers are delayed."""
_LONGEST: Final = 20.0
"""Less than the time after which the server closes a connection."""
_FORGOTTEN_AFTER: Final = 900.0
_CLIENTS: Final = 10_000
_MINUTE: Final = 60.0
_IN_A_MINUTE: Final = 60
"""Wrong tokens of all clients in a minute, before every answer to one is delayed."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """A wrong token: how many the client has shown, and for how many seconds the answer is held back."""

    count: int
    pause: float

    @property
    def is_news(self) -> bool:
        """Whether it is logged: the first few and then each doubling, so that guessing does not flood the log."""
        return self.count <= _FREE or self.count & (self.count - 1) == 0


@dataclass(slots=True)
class _Client:
    count: int = 0
    last: float = 0.0


class Throttle:
    """Counts wrong tokens. Safe to share between threads; its memory is bounded."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._clients: OrderedDict[str, _Client] = OrderedDict()
        self._minute, self._wrong = 0.0, 0

    def was_wrong(self, client: str) -> Wrong:
        """A client showed a token that is none."""
        with self._lock:
            now = self._clock()
            known = self._known(client, now)
            known.count, known.last = known.count + 1, now
            if now - self._minute > _MINUTE:
                self._minute, self._wrong = now, 0
            self._wrong += 1
            return Wrong(known.count, self._pause(known.count))

    def _pause(self, count: int) -> float:
        if self._wrong > _IN_A_MINUTE:
            return _LONGEST
        return 0.0 if count <= _FREE else min(2.0 ** min(count - _FREE, 10), _LONGEST)

    def _known(self, client: str, now: float) -> _Client:
        found = self._clients.pop(client, None)
        if found is None or now - found.last > _FORGOTTEN_AFTER:
            found = _Client()
        self._clients[client] = found
        if len(self._clients) > _CLIENTS:
            self._clients.popitem(last=False)
        return found
