"""Calls of stores that end in time: a dead mount hangs in a system call, which no time-out of ours can end.

So each call is made by a thread that may be left behind. A caller that waits for a store can also be told to give up,
which is how a service comes to its end while a store is silent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from deltamirror.errors import LeaseLost, Unavailable
from deltamirror.storage.object_store import LARGE
from deltamirror.storage.store import Changed, Created, Data, ETag, Exists, Meta, Object, Obstacle, Replaced, Store

if TYPE_CHECKING:
    from deltamirror.config import StorageSettings

T = TypeVar("T")

MOST_HUNG: Final = 4
"""So many calls may hang at one location, one after the other; then none is made until one of them comes back."""

_REST: Final = 20.0
"""A location rests so many times as long as a call was waited for in vain: callers wait a twentieth of their time."""

_IDLE_SECONDS: Final = 5.0
_PAGE: Final = 1_000
_WITH_OWN_LIMITS: Final = ("s3://", "gs://", "az://", "abfs://")
"""Remote stores: their clients give up by themselves, by the same settings."""


class _Call(Generic[T]):
    """Something to do, and what came of it."""

    def __init__(self, act: Callable[[], T], location: str) -> None:
        self._act, self.location = act, location
        self.over = threading.Event()
        self.is_done = self.is_left = False
        self._result: T | None = None
        self._error: BaseException | None = None

    def perform(self) -> None:
        """Do it: in a thread that may be left behind."""
        try:
            self._result = self._act()
        except BaseException as error:  # noqa: BLE001  the caller raises it; a panic of a Rust library is no Exception
            self._error = error
        self.is_done = True

    def result(self) -> T:
        """What came of it."""
        if self._error is not None:
            raise self._error
        return cast("T", self._result)


@dataclass(slots=True)
class _Hanging:
    """The calls that hang at one location."""

    since: float
    number: int = 0
    rests_until: float = 0.0


class _Worker:
    """A thread that makes one call at a time. It is a daemon, since one that hangs cannot be ended."""

    def __init__(self, serve: Callable[[_Worker], None]) -> None:
        self.inbox: SimpleQueue[_Call[Any]] = SimpleQueue()
        self.thread = threading.Thread(target=serve, args=(self,), name="deltamirror-store", daemon=True)


class StoreCalls:
    """The calls of one owner to stores, each within its time. Safe to share between threads.

    While a call hangs at a location, others fail there at once, but for one in a while: it might never come back.
    So the threads that are left behind are few, however often something is tried again. An owner that never gives up
    has the calls of remote stores made by its own threads: their clients end them in time.
    """

    def __init__(self, *, gives_up: bool = True) -> None:
        self._gives_up = gives_up
        self._lock = threading.Lock()
        self._under_way: set[_Call[Any]] = set()
        self._hanging: dict[str, _Hanging] = {}
        self._idle: list[_Worker] = []
        self._is_given_up = False

    def bounded(self, opening: Callable[[], Store], location: str, options: StorageSettings) -> Store:
        """A store, every call of which ends in time. Opening one looks at its folder, which may hang as any call."""
        limits = None if location.startswith(_WITH_OWN_LIMITS) else options
        if limits is None and not self._gives_up:
            return opening()
        seconds = None if limits is None else limits.timeout
        return BoundedStore(self.run(opening, location=location, doing="open", seconds=seconds), self, limits)

    def run(
        self,
        act: Callable[[], T],
        *,
        location: str,
        doing: str,
        key: str = "",
        seconds: float | None,
        hint: str = "",
        is_final: bool = False,
        further: Callable[[], float] = lambda: 0.0,
    ) -> T:
        """What ``act`` comes to; ``Unavailable`` if it takes longer than so many seconds, or others hang there.

        ``hint`` is the advice for that; without one, that of a disk. A call that ``is_final`` makes earlier ones count:
        it is made though another one hangs, which may wait for something of its own. ``further`` is asked how many
        seconds more a call may take that is not over by then.
        """
        call, what = _Call(act, location), f"cannot {doing} {location}/{key}".rstrip("/")
        self._begin(call, what, hint, is_final=is_final)
        try:
            if not call.over.wait(seconds) and (more := further()):
                seconds = (seconds or 0.0) + more
                call.over.wait(more)
        finally:
            self._leave(call, seconds)
        if call.is_done:
            return call.result()
        if self._is_given_up:
            raise _given_up(what)
        raise Unavailable(
            f"{what}: no answer within {seconds or 0:g} s",
            hint=hint or "check the disk and its mount; raise `storage.timeout` if it is only slow",
        )

    def give_up(self) -> None:
        """End every wait: calls under way, and all calls from here on, raise ``LeaseLost``."""
        with self._lock:
            self._is_given_up = True
            for call in self._under_way:
                call.over.set()

    def _begin(self, call: _Call[Any], what: str, hint: str, *, is_final: bool) -> None:
        with self._lock:
            if self._is_given_up:
                raise _given_up(what)
            self._admit(call.location, what, hint, is_final=is_final)
            worker = self._free_worker()
            self._under_way.add(call)
        worker.inbox.put(call)

    def _admit(self, location: str, what: str, hint: str, *, is_final: bool) -> None:
        now, hanging = time.monotonic(), self._hanging.get(location)
        if hanging is None or (hanging.number < MOST_HUNG and (is_final or now >= hanging.rests_until)):
            return
        raise Unavailable(
            f"{what}: an earlier call has been hanging there for {now - hanging.since:.0f} s",
            hint=hint
            or "check the disk and its mount; the mirror goes on when that call comes back, or when it is restarted",
        )

    def _free_worker(self) -> _Worker:
        while self._idle:
            worker = self._idle.pop()
            if worker.thread.is_alive():  # not one that this process was forked away from
                return worker
        worker = _Worker(self._serve)
        worker.thread.start()
        return worker

    def _leave(self, call: _Call[Any], seconds: float | None) -> None:
        """Wait for a call no longer. If it is not done, it hangs."""
        with self._lock:
            self._under_way.discard(call)
            if call.is_done or call.is_left:
                return
            call.is_left = True
            hanging = self._hanging.setdefault(call.location, _Hanging(time.monotonic() - (seconds or 0.0)))
            hanging.number += 1
            hanging.rests_until = time.monotonic() + _REST * (seconds or 0.0)

    def _serve(self, worker: _Worker) -> None:
        while (call := self._next(worker)) is not None:
            call.perform()
            self._came_back(call, worker)

    def _next(self, worker: _Worker) -> _Call[Any] | None:
        try:
            return worker.inbox.get(timeout=_IDLE_SECONDS)
        except Empty:
            with self._lock:
                if worker in self._idle:
                    self._idle.remove(worker)
                    return None
            return worker.inbox.get()  # another thread took it at the last moment

    def _came_back(self, call: _Call[Any], worker: _Worker) -> None:
        with self._lock:
            if call.is_left and (hanging := self._hanging.get(call.location)) is not None:
                hanging.number -= 1
                hanging.rests_until = 0.0
                if not hanging.number:
                    del self._hanging[call.location]
            self._idle.append(worker)
        call.over.set()


def _given_up(what: str) -> LeaseLost:
    return LeaseLost(f"{what}: the service stops, and does not wait for it any longer")


@dataclass(frozen=True, slots=True)
class BoundedStore:
    """A store whose calls end in time: within ``limits``, or, where there are none, within those of its client."""

    inner: Store
    calls: StoreCalls
    limits: StorageSettings | None

    def __reduce__(self) -> tuple[Callable[..., Store], tuple[Any, ...]]:
        return _arrived, (self.inner, self.limits)

    @property
    def location(self) -> str:
        """The canonical location."""
        return self.inner.location

    def create(self, key: str, data: Data, *, synced: bool = True) -> Created | Exists:
        """As the store does; it may also happen after it was given up, as after any lost reply."""
        return self._run("create", key, partial(self.inner.create, key, data, synced=synced), moves=len(data))

    def sync(self, folder: str) -> None:
        """As the store does. It is made though another call hangs: without it none of a unit's objects counts.

        It has the time of a small call: each object's bytes were synced as it was made. A disk that is too busy fails
        the attempt, and the next one finds the objects.
        """
        self._run("sync", folder, partial(self.inner.sync, folder), is_final=True)

    def replace(self, key: str, data: Data, *, if_match: ETag | None) -> Replaced | Changed:
        """As the store does."""
        return self._run("replace", key, partial(self.inner.replace, key, data, if_match=if_match), moves=len(data))

    def put(self, key: str, data: Data) -> ETag:
        """As the store does."""
        return self._run("write", key, partial(self.inner.put, key, data), moves=len(data))

    def read(self, key: str) -> Object | None:
        """As the store does; its size says how long it may take."""
        if self.limits is None:
            return self._run("read", key, partial(self.inner.read, key))
        limits, sizes = self.limits, list[int]()

        def act() -> Object | None:
            if (found := self.inner.head(key)) is None:
                return None
            sizes.append(found.size)
            return self.inner.read(key)

        def further() -> float:
            return max(0.0, limits.transfer_timeout - limits.timeout) if sizes and sizes[0] > LARGE else 0.0

        return self.calls.run(
            act, location=self.location, doing="read", key=key, seconds=limits.timeout, further=further
        )

    def read_range(self, key: str, start: int, length: int) -> bytes | None:
        """As the store does. Many ask for more than there is: that says nothing of how long it may take."""
        size = 0
        if self.limits is not None and length > LARGE:
            if (found := self.head(key)) is None:
                return None
            size = min(length, found.size - start)
        return self._run("read", key, partial(self.inner.read_range, key, start, length), moves=size)

    def head(self, key: str) -> Meta | None:
        """As the store does."""
        return self._run("look at", key, partial(self.inner.head, key))

    def list(self, folder: str = "", *, after: str | None = None) -> Iterator[Meta]:
        """As the store does, each page within its time."""
        return self._paged(self._run("list", folder, partial(self.inner.list, folder, after=after)), folder)

    def walk(self) -> Iterator[Meta]:
        """As the store does, each page within its time."""
        return self._paged(self._run("list", "", self.inner.walk), "")

    def folders(self, folder: str = "") -> Sequence[str]:
        """As the store does."""
        return self._run("list", folder, partial(self.inner.folders, folder))

    def obstacles(self, folder: str) -> Sequence[Obstacle]:
        """As the store does."""
        return self._run("list", folder, partial(self.inner.obstacles, folder))

    def delete(self, keys: Iterable[str]) -> None:
        """As the store does."""
        self._run("delete from", "", partial(self.inner.delete, list(keys)))

    def copy(self, source: str, target: str) -> None:
        """As the store does."""
        self._run("copy", source, partial(self.inner.copy, source, target), moves=LARGE + 1)

    def sweep_temporaries(self, folder: str = "", *, before: int) -> int:
        """As the store does."""
        return self._run("sweep", folder, partial(self.inner.sweep_temporaries, folder, before=before), moves=LARGE + 1)

    def _paged(self, listed: Iterator[Meta], folder: str) -> Iterator[Meta]:
        page = partial(self._run, "list", folder, lambda: list(islice(listed, _PAGE)))
        return chain(page(), chain.from_iterable(iter(page, [])))

    def _run(self, doing: str, key: str, act: Callable[[], T], *, moves: int = 0, is_final: bool = False) -> T:
        seconds = None
        if self.limits is not None:
            seconds = self.limits.transfer_timeout if moves > LARGE else self.limits.timeout
        return self.calls.run(act, location=self.location, doing=doing, key=key, seconds=seconds, is_final=is_final)


def _arrived(inner: Store, limits: StorageSettings | None) -> Store:
    """A store that came from another process, where others wait for it."""
    return inner if limits is None else BoundedStore(inner, StoreCalls(), limits)
