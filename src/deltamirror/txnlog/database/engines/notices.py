"""Telling services that there are commits, by PostgreSQL's NOTIFY. A service that misses a notice polls.

A writer sends at most one notice in a while, the first at once. A commit that comes in that while sends none: so a
listener, having heard a notice, looks again when that while is over. A listener polls less often once it has heard one,
and sends one itself to find out: behind a pool that shares its connections it hears none.
"""

import select
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import psycopg

from deltamirror.errors import DeltaMirrorError

NOTIFY: Final = "SELECT pg_notify('deltamirror', '')"

_LISTEN: Final = "LISTEN deltamirror"
_SILENCE = 0.1
_GLANCE = 0.2  # for how long a listener may not notice that it is stopped
_LESS_OFTEN: Final = 4.0
"""How many times as long a listener waits that hears notices, if that is below ``_OFTEN_ENOUGH`` seconds: retries, and
commits whose writer was killed before its notice, need it."""
_OFTEN_ENOUGH: Final = 2.0


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
    """A connection that listens, whether it heard a notice yet, and until when others may be kept back after one."""

    connection: "psycopg.Connection[Any]"
    has_heard: bool = False
    silent_until: float | None = None

    def wait(self, seconds: float, stop: threading.Event) -> None:
        deadline = time.monotonic() + (_less_often(seconds) if self.has_heard else seconds)
        if self.silent_until is not None:
            stop.wait(max(0.0, min(self.silent_until, deadline) - time.monotonic()))
            self.silent_until = None
            return
        is_heard = self._hears()
        while not is_heard and not stop.is_set() and (left := deadline - time.monotonic()) > 0:
            is_heard = _has_input(self.connection, min(left, _GLANCE)) and self._hears()

    def _hears(self) -> bool:
        """Whether there is a notice."""
        if not any(self.connection.notifies(timeout=0, stop_after=1)):
            return False
        self.has_heard = True
        self.silent_until = time.monotonic() + _SILENCE
        return True


class Listeners:
    """Waits for notices, in any number of threads, each on a connection of its own."""

    def __init__(self, connect: "Callable[[], psycopg.Connection[Any]]", notify: Callable[[], None]) -> None:
        self._open, self._notify = connect, notify
        self._idle: deque[_Listener] = deque()

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Return at a notice, when one may have been missed, when stopped, or after this many seconds.

        Where notices are heard it may be some times as many, up to two seconds.
        """
        try:
            listener = self._idle.pop()
        except IndexError:
            self._connect(seconds, stop)
            return
        try:
            listener.wait(seconds, stop)
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
            self._notify()
        except (psycopg.Error, DeltaMirrorError):  # a connection that broke is found out by the next wait
            stop.wait(seconds)


def _has_input(connection: "psycopg.Connection[Any]", seconds: float) -> bool:
    """Whether the server sends something within so many seconds: psycopg's own wait looks ten times in each."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _less_often(seconds: float) -> float:
    return max(seconds, min(seconds * _LESS_OFTEN, _OFTEN_ENOUGH))
