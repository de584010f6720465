"""Stores in trouble below a mirror: puts that fail, calls of the system that fail, somebody who looks on."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from deltamirror import Catalog
from deltamirror.config import Settings
from deltamirror.errors import Unavailable
from deltamirror.pipeline.run.local.runner import InProcessRunner
from deltamirror.storage.store import Store
from tests.support.logs.commit_units import watched

_PUTS = ("create", "replace", "put")
Wrap = Callable[[Store], Store]


def runner_over(catalog: Catalog, settings: Settings, wrap: Wrap) -> InProcessRunner:
    """A runner that works on wrapped stores."""
    runner = InProcessRunner(catalog.database, settings)
    resources: Any = runner._resources
    opened = resources.store
    resources.store = lambda address: wrap(opened(address))
    return runner


@dataclass
class FailingPut:
    """Lets one put of all fail, counted over all stores: before it happens, or after it, so that its reply is lost."""

    at: int
    lost_reply: bool
    keys: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def failed(self) -> str | None:
        """The key of the put that failed."""
        return self.keys[self.at - 1] if 0 < self.at <= len(self.keys) else None

    def wrap(self, store: Store) -> Store:
        """The store, in trouble."""
        moment = "after" if self.lost_reply else "before"
        return watched(store, **{moment: self._put})[0]

    def _put(self, operation: str, key: str) -> None:
        if operation not in _PUTS:
            return
        with self.lock:
            self.keys.append(key)
            fails = len(self.keys) == self.at
        if fails:
            raise Unavailable(f"injected: {key}, reply lost: {self.lost_reply}")


class FailingCalls:
    """Stands in for the module ``os``: one of all calls that make a file durable fails, a write half way."""

    def __init__(self, at: int, error: int) -> None:
        self.called = 0
        self._at, self._error = at, error
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def write(self, descriptor: int, data: memoryview) -> int:
        """As a disk that is full writes: some of it."""
        if self._fails():
            os.write(descriptor, data[: len(data) // 2])
            raise self._trouble()
        return os.write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        """Of a file, or of a folder that has got a name."""
        self._pass()
        os.fsync(descriptor)

    def link(self, source: Any, target: Any) -> None:
        """What gives an object its name."""
        self._pass()
        os.link(source, target)

    def _pass(self) -> None:
        if self._fails():
            raise self._trouble()

    def _fails(self) -> bool:
        with self._lock:
            self.called += 1
            return self.called == self._at

    def _trouble(self) -> OSError:
        return OSError(self._error, os.strerror(self._error))
