"""Fuses: something happens to this process before a chosen step of its work, counted in all threads.

Steps are every statement of a transaction that may write, every bulk insert, COMMIT before and after it took place, and
every call of a store before it and after it took effect.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from deltamirror.storage.disk import DiskStore
from deltamirror.storage.object_store import ObjectStore
from deltamirror.storage.store import Store
from deltamirror.txnlog.database.access import Database, Session
from deltamirror.txnlog.database.engines.duckdb import DuckdbDatabase
from deltamirror.txnlog.database.engines.postgresql import PostgresqlDatabase
from deltamirror.txnlog.database.engines.sqlite import SqliteDatabase

T = TypeVar("T")

_PUTS = ("create", "replace", "put")
_OTHERS = ("sync", "read", "read_range", "head", "list", "delete", "copy")

Witness = Callable[[str, str, object], None]
"""Told of every call of a store that took effect: operation, location and key, answer."""


def die() -> None:
    """kill -9."""
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class Fuse:
    """Strikes before the n-th step that passes it; 0 never does."""

    at: int
    strike: Callable[[], None] = die
    passed: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def burn(self) -> None:
        """A step is about to be taken."""
        with self.lock:
            self.passed += 1
            strikes = self.passed == self.at
        if strikes:
            self.strike()

    def before(self, function: Callable[..., T]) -> Callable[..., T]:
        """A function that is one step."""

        def burning(*args: Any, **kwargs: Any) -> T:
            self.burn()
            return function(*args, **kwargs)

        return burning

    def around(self, function: Callable[..., T]) -> Callable[..., T]:
        """A function that is two steps: doing it, and hearing of it."""

        def burning(*args: Any, **kwargs: Any) -> T:
            self.burn()
            result = function(*args, **kwargs)
            self.burn()
            return result

        return burning


def arm_database(fuse: Fuse, *, commits_only: bool = False) -> None:
    """Count COMMIT before and after it took place; and, unless told otherwise, every statement and bulk insert."""
    patched: Any
    if not commits_only:
        patched = Session
        patched.run, patched.execute = fuse.before(Session.run), fuse.before(Session.execute)
        for engine in (SqliteDatabase, DuckdbDatabase, PostgresqlDatabase):
            patched = engine
            patched.insert_many = fuse.before(engine.insert_many)
            patched.insert_columns = fuse.before(engine.insert_columns)
    patched = Database
    patched.commit_by = fuse.around(Database.commit_by)


def arm_stores(fuse: Fuse, witness: Witness, *, puts_only: bool = False) -> None:
    """Count every call of a store, before it and after it took effect; the witness sees that before the caller does."""
    for kind in (DiskStore, ObjectStore):
        patched: Any = kind
        for name in (*_PUTS, *_OTHERS):
            call = _witnessed(name, getattr(kind, name), witness)
            setattr(patched, name, call if puts_only and name in _OTHERS else fuse.around(call))


def _witnessed(name: str, call: Callable[..., T], witness: Witness) -> Callable[..., T]:
    def calling(store: Store, key: Any = "", *args: Any, **kwargs: Any) -> T:
        answer = call(store, key, *args, **kwargs)
        witness(name, f"{store.location}/{key}", answer)
        return answer

    return calling


def wait_between_transactions(reached: int, released: int) -> Callable[[], None]:
    """What says that it is reached, and waits to be released, both by pipes: somebody may stop the process meanwhile.

    None of its threads has begun to write to the database then: a process that is stopped in the middle of such a
    transaction keeps its locks, and nobody can do its work.
    """
    gate, write = threading.RLock(), Database.write

    @contextmanager
    def writing(*args: Any, **kwargs: Any) -> Iterator[Session]:
        with gate, write(*args, **kwargs) as session:
            yield session

    def wait() -> None:
        with gate:
            os.write(reached, b"!")
            os.read(released, 1)

    patched: Any = Database
    patched.write = writing
    return wait
