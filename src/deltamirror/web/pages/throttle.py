"""How fast tokens can be guessed: slower with each wrong one, for a client and for all together."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ["Throttle"]

_FREE: Final = 3
"""Wrong tokens of one client, by mistake, before it has to wait."""
_LONGEST: Final = 300.0
_FORGOTTEN_AFTER: Final = 900.0
_CLIENTS: Final = 10_000
_IN_A_MINUTE: Final = 60
"""Wrong tokens of all clients in a minute, before those that were never right have to wait."""


@dataclass(slots=True)
class _Client:
    failures: int = 0
    last: float = 0.0
    was_right: bool = False


class Throttle:
    """Counts wrong tokens. Safe to share between threads; its memory is bounded."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._clients: OrderedDict[str, _Client] = OrderedDict()
        self._minute, self._wrong = 0.0, 0

    def wait(self, client: str) -> float:
        """For how many seconds no token of this client is looked at; 0: it may try."""
        with self._lock:
            now, known = self._clock(), self._known(client)
            if known.failures > _FREE:
                pause = min(2.0 ** (known.failures - _FREE), _LONGEST)
                if (left := known.last + pause - now) > 0:
                    return left
            crowded = self._wrong >= _IN_A_MINUTE and not known.was_right
            return max(self._minute + 60.0 - now, 0.0) if crowded else 0.0

    def was_wrong(self, client: str) -> None:
        """A client showed a token that is none."""
        with self._lock:
            now, known = self._clock(), self._known(client)
            known.failures, known.last = known.failures + 1, now
            if now - self._minute > 60.0:
                self._minute, self._wrong = now, 0
            self._wrong += 1

    def was_right(self, client: str) -> None:
        """A client showed a token."""
        with self._lock:
            known = self._known(client)
            known.failures, known.was_right = 0, True

    def _known(self, client: str) -> _Client:
        found = self._clients.pop(client, None)
        if found is None or (found.failures and self._clock() - found.last > _FORGOTTEN_AFTER):
            found = _Client(was_right=found is not None and found.was_right)
        self._clients[client] = found
        if len(self._clients) > _CLIENTS:
            self._clients.popitem(last=False)
        return found
