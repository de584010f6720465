"""The points of a process at which it can be struck, told by name: every COMMIT, and every write to a store.

A COMMIT is named after the function whose transaction it ends (``COMMIT txnlog.outcomes.record_commits``), that of a
lease also after the lane; a write to a store after what is written (``create N.json``). Each is a point before it
happens, and one after it happened, before anybody got to know. On a disk, so are the second half of
every file, and the end of each.
"""

import re
import sys
import threading
from collections.abc import Callable, Iterator
from enum import StrEnum
from inspect import CO_GENERATOR
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias, TypeVar

from deltamirror.delta.names import LOG_DIRECTORY
from deltamirror.storage import files
from deltamirror.storage.disk import DiskStore
from deltamirror.storage.object_store import ObjectStore
from deltamirror.storage.store import Store
from deltamirror.txnlog.database import Database

__all__ = ["Moment", "Observer", "observe"]

T = TypeVar("T")

_PACKAGE = "deltamirror."
_PLUMBING = (f"{_PACKAGE}txnlog.database", f"{_PACKAGE}txnlog.engines")
_WRITES = ("create", "replace", "put", "copy", "delete")
_REST, _REMOVAL = "write the rest of a file", "delete a file"
_NUMBER = re.compile(r"\b(\d{20}|\d{10})\b")
_INSIDE = threading.local()
_UNIQUE = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\.[0-9a-f]{12,64}\b")


class Moment(StrEnum):
    """On which side of a step a process is struck."""

    BEFORE = "before"
    AFTER = "after"


Observer: TypeAlias = Callable[[Moment, str], None]
"""Told of every point that this process comes to, in whatever thread."""


def observe(observer: Observer) -> None:
    """Tell the observer of every point from here on. For a process of its own: nothing is put back."""
    patched: Any = Database
    patched.commit_by = _around(Database.commit_by, observer, lambda *_: _transaction(sys._getframe(2)))
    patched = files
    patched._write_all = _in_halves(observer)
    patched.remove = _one_by_one(observer)
    for kind in (DiskStore, ObjectStore):
        patched = kind
        for operation in _WRITES:
            setattr(patched, operation, _around(getattr(kind, operation), observer, _naming(operation)))


def _around(call: Callable[..., T], observer: Observer, naming: Callable[..., str]) -> Callable[..., T]:
    def observed(*args: Any, **kwargs: Any) -> T:
        if getattr(_INSIDE, "call", False):
            return call(*args, **kwargs)  # how a store does what it was asked
        args = tuple(list(each) if isinstance(each, Iterator) else each for each in args)
        name = naming(*args)
        observer(Moment.BEFORE, name)
        _INSIDE.call = True
        try:
            result = call(*args, **kwargs)
        finally:
            _INSIDE.call = False
        observer(Moment.AFTER, name)
        return result

    return observed


def _in_halves(observer: Observer) -> Callable[[int, memoryview], None]:
    """How a file is written: in two halves, which is a point between them, and one after them."""
    write_all = files._write_all

    def write(descriptor: int, data: memoryview) -> None:
        write_all(descriptor, data[: len(data) // 2])
        observer(Moment.BEFORE, _REST)
        write_all(descriptor, data[len(data) // 2 :])
        observer(Moment.AFTER, _REST)

    return write


def _one_by_one(observer: Observer) -> Callable[[Path], bool]:
    """How files are deleted."""
    remove = files.remove

    def remove_one(path: Path) -> bool:
        observer(Moment.BEFORE, _REMOVAL)
        found = remove(path)
        observer(Moment.AFTER, _REMOVAL)
        return found

    return remove_one


def _transaction(frame: FrameType | None) -> str:
    """The function that a transaction belongs to: the innermost of ours that is neither plumbing nor a context."""
    while frame is not None:
        module, code = str(frame.f_globals.get("__name__", "")), frame.f_code
        ours = module.startswith(_PACKAGE) and not module.startswith(_PLUMBING)
        if ours and not code.co_flags & CO_GENERATOR:
            lane = frame.f_locals.get("lane")
            named = f"COMMIT {module.removeprefix(_PACKAGE)}.{code.co_qualname}"
            return named if lane is None else f"{named} {lane}"
        frame = frame.f_back
    return "COMMIT"


def _naming(operation: str) -> Callable[..., str]:
    def name(store: Store, key: Any, target: str = "", *_: object) -> str:
        if operation == "delete":
            key = next(iter(key), "nothing")
        written = target if operation == "copy" else str(key)
        plain = _UNIQUE.sub("*", _NUMBER.sub("N", written.removeprefix(f"{LOG_DIRECTORY}/")))
        return f"{operation} {plain}"

    return name
