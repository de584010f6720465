"""Browsers that are signed in: a random id in a cookie, everything else in the memory of this process."""

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

_MOST: Final = 1_000


@dataclass(slots=True)
class BrowserSession:
    """One browser that is signed in."""

    token_id: str
    ends: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    """What every form of this browser sends along, and no other site knows."""
    notice: tuple[str, str] | None = None
    """What the next page says about the last act, and whether it is good or bad."""


class BrowserSessions:
    """The sessions of a process, by the digest of their ids. Safe to share between threads."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock, self._lock = seconds, clock, threading.Lock()
        self._found: OrderedDict[bytes, BrowserSession] = OrderedDict()

    def begin(self, token_id: str) -> str:
        """Sign a browser in; the id for its cookie. The oldest session gives way to one too many."""
        session_id = secrets.token_urlsafe(32)
        with self._lock:
            self._found[_key(session_id)] = BrowserSession(token_id, self._clock() + self._seconds)
            if len(self._found) > _MOST:
                self._found.popitem(last=False)
        return session_id

    def of(self, session_id: str) -> BrowserSession | None:
        """The session of an id, until its time is over."""
        with self._lock:
            found = self._found.get(_key(session_id))
            if found is not None and found.ends <= self._clock():
                del self._found[_key(session_id)]
                return None
            return found

    def end(self, session_id: str) -> None:
        """Sign a browser out."""
        with self._lock:
            self._found.pop(_key(session_id), None)


def _key(session_id: str) -> bytes:
    return sha256(session_id.encode()).digest()
