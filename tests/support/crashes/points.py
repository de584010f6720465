"""The points of a process at which it can be struck: before each of its steps, and after it (``deltamirror.steps``).

A step has to be marked where it takes place. What is committed, or written to a store, outside of any step is told as
well, as a point that no list of steps has: so nothing is forgotten. On a disk, every file is written in two halves.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from deltamirror.steps import Moment, Step, observed
from deltamirror.storage.calls import BoundedStore
from deltamirror.storage.disk import DiskStore
from deltamirror.storage.object_store import ObjectStore
from deltamirror.txnlog.database.access import Database

T = TypeVar("T")

_WRITES: Final = ("create", "replace", "put", "copy", "delete")


@contextmanager
def observing(tell: Callable[[str], None]) -> Iterator[None]:
    """Tell of every point, as ``before commit.ratify``. For a process of its own: patches are not put back."""
    marks, halves = _Marks(tell), _Halves(tell)
    patched: Any = Database
    patched.commit_by = marks.required(Database.commit_by, "COMMIT")
    for kind in (BoundedStore, DiskStore, ObjectStore):
        patched = kind
        for operation in _WRITES:
            setattr(patched, operation, marks.required(getattr(kind, operation), operation))
    patched = os
    patched.write = halves.writing(os.write)

    def see(moment: Moment, step: Step) -> None:
        if step is Step.WRITE_FILE:
            halves.see(moment)
        else:
            marks.see(moment, step)

    with observed(see):
        yield


class _Marks:
    """Which thread is in a step whose one write is still to come."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell, self._thread = tell, threading.local()
        self._passed_on: list[tuple[str, str, str]] = []

    def see(self, moment: Moment, step: Step) -> None:
        if step is not Step.DELETE_FILE:  # which is part of what a store does in a step
            self._thread.is_marked = moment is Moment.BEFORE
        self._tell(f"{moment} {step}")

    def required(self, call: Callable[..., T], operation: str) -> Callable[..., T]:
        """A call that is one step, or part of a call that is one: a store calls itself, and by another thread."""

        def observed(target: Any, key: Any, *args: Any, **kwargs: Any) -> T:
            if getattr(self._thread, "is_inside", False):
                return call(target, key, *args, **kwargs)
            key = list(key) if isinstance(key, Iterator) else key
            self._require_mark(target, operation, str(key))
            self._thread.is_inside = True
            try:
                return call(target, key, *args, **kwargs)
            finally:
                self._thread.is_inside = False

        return observed

    def _require_mark(self, target: Any, operation: str, key: str) -> None:
        write = (getattr(target, "location", ""), operation, key)
        if getattr(self._thread, "is_marked", False):
            self._thread.is_marked = False
            if isinstance(target, BoundedStore):  # another thread calls the store for it
                self._passed_on.append(write)
        elif write in self._passed_on:
            self._passed_on.remove(write)
        else:
            self._tell(f"outside of any step: {' '.join(write)}")


class _Halves:
    """Short writes, as a kernel may make them: half of what a file gets first, then the rest, which is told of."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell, self._thread = tell, threading.local()

    def see(self, moment: Moment) -> None:
        is_rest = getattr(self._thread, "is_rest", False)
        if is_rest:
            self._tell(f"{moment} {Step.WRITE_FILE}")
        self._thread.is_first_half = moment is Moment.BEFORE and not is_rest
        if moment is Moment.AFTER:
            self._thread.is_rest = not is_rest

    def writing(self, write: Callable[[int, Any], int]) -> Callable[[int, Any], int]:
        def write_some(descriptor: int, data: Any) -> int:
            is_first_half = getattr(self._thread, "is_first_half", False)
            return write(descriptor, data[: len(data) // 2] if is_first_half else data)

        return write_some
