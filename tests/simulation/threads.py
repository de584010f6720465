"""``threading``, ``time``, ``random`` and ``concurrent.futures`` as a schedule has them, put in their places."""

import random
import secrets
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as OutOfTime
from functools import partial
from queue import Empty, SimpleQueue
from types import FunctionType, TracebackType
from typing import Any, Generic, Self, TypeVar

import pytest

from tests.simulation.strands import Schedule, Strand

T = TypeVar("T")


class ScheduledEvent:
    """``threading.Event``."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule, self._is_set = schedule, False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        return self._schedule.wait(self.is_set, timeout)


class ScheduledLock:
    """``threading.Lock``, for what is held while others have the turn."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._owner: Strand | None = None

    def __enter__(self) -> Self:
        self._schedule.wait(lambda: self._owner is None or self._owner.is_done)
        self._owner = self._schedule.current
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._owner = None


class ScheduledThread:
    """``threading.Thread``."""

    def __init__(
        self,
        schedule: Schedule,
        target: Callable[..., None],
        args: Iterable[Any] = (),
        name: str = "thread",
        daemon: bool | None = None,
    ) -> None:
        self._schedule, self._target, self._args, self._name = schedule, target, tuple(args), name
        self._is_daemon = bool(daemon)
        self._strand: Strand | None = None

    def start(self) -> None:
        work = partial(self._target, *self._args)
        self._strand = self._schedule.spawn(self._name, work, is_daemon=self._is_daemon)

    def is_alive(self) -> bool:
        return self._strand is not None and not self._strand.is_done

    def join(self, timeout: float | None = None) -> None:
        self._schedule.wait(lambda: not self.is_alive(), timeout)


class ScheduledQueue(Generic[T]):
    """``queue.SimpleQueue``."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule, self._items = schedule, deque[T]()

    def put(self, item: T) -> None:
        self._items.append(item)

    def get(self, timeout: float | None = None) -> T:
        if not self._schedule.wait(lambda: bool(self._items), timeout):
            raise Empty
        return self._items.popleft()

    def get_nowait(self) -> T:
        return self._items.popleft()

    def qsize(self) -> int:
        return len(self._items)


class _ScheduledFuture(Future[T]):
    def __init__(self, schedule: Schedule) -> None:
        super().__init__()
        self._schedule = schedule

    def result(self, timeout: float | None = None) -> T:
        if not self._schedule.wait(self.done, timeout):
            raise OutOfTime
        return super().result()


class ScheduledExecutor:
    """``concurrent.futures.ThreadPoolExecutor``."""

    def __init__(self, schedule: Schedule, max_workers: int = 1, thread_name_prefix: str = "pool") -> None:
        self._schedule, self._most, self._name = schedule, max_workers, thread_name_prefix
        self._waiting: deque[tuple[_ScheduledFuture[Any], Callable[[], Any]]] = deque()
        self._workers = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.shutdown()

    def submit(self, work: Callable[..., T], *args: Any, **kwargs: Any) -> Future[T]:
        future: _ScheduledFuture[T] = _ScheduledFuture(self._schedule)
        self._waiting.append((future, lambda: work(*args, **kwargs)))
        if self._workers < self._most:
            self._workers += 1
            self._schedule.spawn(self._name, self._work)
        return future

    def map(self, work: Callable[..., T], *items: Iterable[Any]) -> Iterator[T]:
        futures = [self.submit(work, *each) for each in zip(*items, strict=False)]
        return (future.result() for future in futures)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if cancel_futures:
            for future, _ in self._waiting:
                future.cancel()
            self._waiting.clear()
        if wait:
            self._schedule.wait(lambda: not self._workers)

    def _work(self) -> None:
        try:
            while self._waiting:
                future, work = self._waiting.popleft()
                try:
                    future.set_result(work())
                except BaseException as error:  # noqa: BLE001 - as the real one does
                    future.set_exception(error)
        finally:
            self._workers -= 1


class _Replaced:
    """A module, of which some names mean something else."""

    def __init__(self, module: object, **names: object) -> None:
        self._module = module
        self.__dict__.update(names)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def scheduled(
    patch: pytest.MonkeyPatch,
    schedule: Callable[[], Schedule],
    *,
    wall: Callable[[], float],
    lots: Callable[[], random.Random],
) -> None:
    """Let all of deltamirror run by a schedule: its threads, its waiting, its chances, and what it takes for the time.

    ``wall`` is the time of day, which may jump.
    """

    def made(cls: Callable[..., T]) -> Callable[..., T]:
        return lambda *args, **kwargs: cls(schedule(), *args, **kwargs)

    def monotonic() -> float:
        return schedule().now

    def sleep(seconds: float) -> None:
        schedule().sleep(seconds)

    def uuid4() -> uuid.UUID:
        return uuid.UUID(int=lots().getrandbits(128), version=4)

    clock = {"monotonic": monotonic, "perf_counter": monotonic, "sleep": sleep, "time": wall}
    own: Mapping[int, object] = {
        id(threading): _Replaced(threading, Event=made(ScheduledEvent), Thread=made(ScheduledThread)),
        id(time): _Replaced(time, **clock, time_ns=lambda: int(wall() * 1e9), thread_time=lambda: 0.0),
        id(random): _Replaced(random, uniform=lambda low, high: lots().uniform(low, high)),
        id(secrets): _Replaced(secrets, randbits=lambda bits: lots().getrandbits(bits)),
        id(uuid): _Replaced(uuid, uuid4=uuid4),
        id(uuid.uuid4): uuid4,
        id(ThreadPoolExecutor): made(ScheduledExecutor),
        id(SimpleQueue): made(ScheduledQueue),
        id(time.monotonic): monotonic,
        id(time.time): wall,
    }
    replace_everywhere(patch, own)


def replace_everywhere(patch: pytest.MonkeyPatch, own: Mapping[int, object]) -> None:
    """Put other things in the places of some, by their identity, in all modules and defaults of deltamirror."""
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] == "deltamirror"]
    for module in modules:
        for name, value in list(vars(module).items()):
            if id(value) in own:
                patch.setattr(module, name, own[id(value)])
            for function in _functions(value):
                defaults = function.__kwdefaults__ or {}
                for argument, default in list(defaults.items()):
                    if id(default) in own:
                        patch.setitem(defaults, argument, own[id(default)])


def _functions(value: object) -> list[FunctionType]:
    if isinstance(value, FunctionType):
        return [value]
    return [each for each in vars(value).values() if isinstance(each, FunctionType)] if isinstance(value, type) else []
