"""A thread beside a service: it lasts as long as that does, and changed settings wake it."""

import threading
from abc import ABC, abstractmethod
from typing import Self

from deltamirror.config import LiveSettings
from deltamirror.pipeline.service.shutdown import Ending


class ServiceThread(ABC):
    """Runs ``work`` while it is entered. The end of the service waits for it, as long as that waits for anything."""

    def __init__(self, live: LiveSettings, ending: Ending, *, name: str) -> None:
        self._live, self._ending = live, ending
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self.work, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._unsubscribe = self._live.on_change(lambda _: self._wake.set())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._unsubscribe()
        self._stop.set()
        self._wake.set()
        self._ending.wait(self.is_over)

    @abstractmethod
    def work(self) -> None:
        """What the thread does, until ``_stop`` is set."""

    def is_over(self, seconds: float) -> bool:
        """Whether the thread has ended, or does within so many seconds."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _is_woken(self, seconds: float | None) -> bool:
        """Rest for some time, or until settings change; whether the latter, or the end, came first."""
        is_woken = self._wake.wait(seconds)
        self._wake.clear()
        return is_woken
