"""Telling services that there are commits, by PostgreSQL's NOTIFY. A service that misses a notice polls.

A writer sends at most one notice in a while, the first at once. A commit that comes in that while sends none: so a
listener, having heard a notice, looks again when that while is over.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import psycopg

from deltamirror.errors import DeltaMirrorError

__all__ = ["NOTIFY", "Listeners", "Sender"]

NOTIFY: Final = "SELECT pg_notify('deltamirror', '')"

_LISTEN: Final = "LISTEN deltamirror"
_SILENCE = 0.1
_GLANCE = 0.2  # for how long a listener may not notice that it is stopped


class Sender:
    """Sends notices, not more often than of use."""

    def __init__(self, notify: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._notify = notify
        self._clock = clock
        self._silent_until = -1.0
        self._lock = threading.Lock()

    def send(self) -> bool:
        """Send a notice, unless one was sent just before. A failure is ignored: the commit is done."""
        moment = self._clock()
        if moment < self._silent_until:
            return False
        with self._lock:
            if moment < self._silent_until:
                return False
            self._silent_until = moment + _SILENCE
        with suppress(DeltaMirrorError, psycopg.Error):
            self._notify()
            return True
        return False


@dataclass(slots=True)
class _Listener:
    """A connection that listens; after a notice, until when others may have been kept back."""

    connection: "psycopg.Connection[Any]"
    silent_until: float | None = None

    def wait(self, deadline: float, stop: threading.Event) -> None:
        if self.silent_until is not None:
            stop.wait(max(0.0, min(self.silent_until, deadline) - time.monotonic()))
            self.silent_until = None
            return
        while not stop.is_set() and (left := deadline - time.monotonic()) > 0:
            if any(self.connection.notifies(timeout=min(left, _GLANCE), stop_after=1)):
                self.silent_until = time.monotonic() + _SILENCE
                return


class Listeners:
    """Waits for notices, in any number of threads, each on a connection of its own."""

    def __init__(self, connect: "Callable[[], psycopg.Connection[Any]]") -> None:
        self._open = connect
        self._idle: deque[_Listener] = deque()

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Return at a notice, when one may have been missed, when stopped, or after this many seconds."""
        deadline = time.monotonic() + seconds
        try:
            listener = self._idle.pop()
        except IndexError:
            self._connect(seconds, stop)
            return
        try:
            listener.wait(deadline, stop)
        except psycopg.Error:
            listener.connection.close()  # the next wait connects again
            return
        self._idle.append(listener)

    def close(self) -> None:
        """Give back the connections that no thread waits on."""
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().connection.close()

    def _connect(self, seconds: float, stop: threading.Event) -> None:
        """Begin to listen. That comes back at once: there may have been commits while no thread listened."""
        try:
            connection = self._open()
            self._idle.append(_Listener(connection))
            connection.execute(_LISTEN)
        except (psycopg.Error, DeltaMirrorError):  # a connection that broke is found out by the next wait
            stop.wait(seconds)
