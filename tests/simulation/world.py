"""The outside world of a schedule: the time, the database, the stores, and what is wrong with them."""

import logging
import random
import sqlite3
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Self, TypeVar

import pytest

from deltamirror.config import StorageSettings
from deltamirror.errors import (
    CapacityExceeded,
    DeltaMirrorError,
    PermissionDenied,
    Throttled,
    Transient,
    Unavailable,
)
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.calls import MOST_HUNG, StoreCalls
from deltamirror.storage.clients import Credentials
from deltamirror.storage.open import open_store
from deltamirror.storage.store import Created, Exists, Replaced, Store
from deltamirror.txnlog.database.migrations import migrate
from deltamirror.txnlog.database.opening import open_database
from tests.simulation.database import ScheduledDatabase
from tests.simulation.stores import ScheduledStore
from tests.simulation.strands import Hands, Process, Schedule
from tests.simulation.threads import ScheduledLock, replace_everywhere, scheduled

T = TypeVar("T")

_EPOCH: Final = 1_700_000_000.0
_WRITES: Final = frozenset({"create", "replace", "put", "delete", "copy"})
_MOST_THREADS: Final = MOST_HUNG + 8
"""So many calls of a process may hang at one table: those that were under way when the first was seen to, and some."""

_LATE: Final = 90.0
"""So many seconds after its client gave it up, a request may still arrive."""

_ERRORS: Final[dict[str, Callable[[], DeltaMirrorError]]] = {
    "away": lambda: Unavailable("the store does not answer"),
    "throttled": lambda: Throttled("the store asks for fewer requests", retry_after=7.0),
    "transient": lambda: Transient("the store had some trouble"),
    "denied": lambda: PermissionDenied("the store refuses us"),
    "full": lambda: CapacityExceeded("the store is full"),
}


class Witness:
    """Who sees everything that changes. This one does not look."""

    def committed(self) -> None:
        """A transaction may have changed the database."""

    def changed(self, location: str, key: str, *, before: bytes | None, after: bytes | None, ours: bool) -> None:
        """An object changed, by our doing or by somebody else's."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """So many of 100 requests fail in one of these ways, up to a step."""

    kinds: Sequence[str]
    percent: int
    until: int
    only: frozenset[str] = frozenset()
    """The operations that fail; empty: all do."""


@dataclass(slots=True)
class _Troubles:
    database: list[Trouble] = field(default_factory=list)
    stores: list[tuple[str, Trouble]] = field(default_factory=list)
    """Each with what the locations begin with that it concerns."""


class World:
    """It stands in for time, threads, database and stores, wherever deltamirror looks for them. One at a time."""

    def __init__(self) -> None:
        self._hands, self._numbers, self._name = Hands(), count(), f"sim{uuid.uuid4().hex}x"
        self.database = ScheduledDatabase(self)
        self._set_up(0, stickiness=0)
        migrate(self.database)
        self._empty = sqlite3.connect(":memory:", check_same_thread=False)
        self.database.driver.backup(self._empty)

    @classmethod
    @contextmanager
    def open(cls) -> Iterator[Self]:
        """A world, until the end of the block."""
        world = cls()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(logging.getLogger("deltamirror"), "disabled", True)  # the trace says more
            patch.setattr(logging.root.manager, "disable", logging.CRITICAL)
            scheduled(patch, lambda: world.schedule, wall=world.wall, lots=lambda: world.lots)
            replace_everywhere(patch, {id(open_store): world.open_store, id(open_database): lambda _: world.database})
            patch.setattr(StoreCalls, "run", world.bounded(StoreCalls.run))
            yield world
        world._hands.close()

    def begin(self, seed: int, *, stickiness: int) -> None:
        """Begin anew: stores and catalog are empty."""
        self._set_up(seed, stickiness=stickiness)
        self.database.begin(self._empty, ScheduledLock(self.schedule))

    def _set_up(self, seed: int, *, stickiness: int) -> None:
        self.schedule = Schedule(self._hands, random.Random(f"order {seed}"), stickiness=stickiness)
        self.lots = random.Random(f"luck {seed}")
        self.offset = 0.0
        self.troubles = _Troubles()
        self.hangs = False
        self._hanging: Counter[tuple[Process, str]] = Counter()
        self.witness = Witness()
        self.bucket = f"memory://{self._name}{next(self._numbers)}"
        self._dates: dict[tuple[str, str], int] = {}
        self._stores: dict[str, Store] = {}
        self.doomed_writers: dict[Process, Callable[[], None]] = {}
        self.doomed_putters: dict[Process, Callable[[], None]] = {}
        self._network = Process("network")

    def bounded(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """How calls of stores are made: by threads where any may hang, since each of them costs steps."""

        def make(calls: StoreCalls, act: Callable[[], T], **how: Any) -> Any:
            return run(calls, act, **how) if self.hangs and not self.schedule.is_directed else act()

        return make

    def end_troubles(self) -> None:
        """All is well from here on."""
        self.troubles = _Troubles()

    # The time

    def wall(self) -> float:
        """The time of day in seconds, which may be set."""
        return _EPOCH + self.schedule.now + self.offset

    # The database

    def ask_database(self, what: str) -> None:
        """Before each transaction: a step, and perhaps an error."""
        self.schedule.step(f"database {what}")
        if self._drawn(self.troubles.database) == "away":
            raise Unavailable("the database does not answer")

    def loses_reply_of_commit(self) -> bool:
        """Whether nobody hears of what was committed."""
        return self._drawn(self.troubles.database) == "lost"

    def committed(self) -> None:
        """A transaction has ended."""
        self._look(self.witness.committed)
        self._meet_doom(self.doomed_writers)

    # The stores

    def open_store(self, address: StoreAddress, **_: object) -> ScheduledStore:
        """A store of this world, as deltamirror gets it."""
        return ScheduledStore(self.store(address.location), self)

    def store(self, location: str) -> Store:
        """A store, to look into it without anybody's noticing."""
        if location not in self._stores:
            self._stores[location] = open_store(StoreAddress.of(location, StorageSettings()), credentials=Credentials())
        return self._stores[location]

    def modified(self, location: str, key: str) -> int:
        """When an object was put, in milliseconds."""
        return self._dates.get((location, key), 0)

    def call(self, store: Store, operation: str, key: str, act: Callable[[], T]) -> T:
        """A call of a store: it succeeds, fails, succeeds and seems to fail, or fails and happens later."""
        location = store.location
        self.schedule.step(f"{operation} {location.rpartition('/')[2]}/{key}")
        troubles = [trouble for prefix, trouble in self.troubles.stores if f"{location}/".startswith(prefix)]
        kind = self._drawn(each for each in troubles if not each.only or operation in each.only)
        if kind == "hangs":
            self._hang(location)
        if kind in _ERRORS:
            raise _ERRORS[kind]()  # noqa: RSE102 - a function makes it
        if kind == "phantom" and operation == "create":
            return Exists()  # type: ignore[return-value]
        if kind == "late" and operation in _WRITES:
            self._send_late(location, operation, key, act)
            raise Unavailable(f"{operation} {key}: the store takes too long")
        answer = self.apply(location, operation, key, act, ours=True)
        if operation in _WRITES:
            self._meet_doom(self.doomed_putters)
        if kind == "lost":
            raise Unavailable(f"{operation} {key}: the reply was lost")
        return answer

    def apply(self, location: str, operation: str, key: str, act: Callable[[], T], *, ours: bool) -> T:
        """Let something happen to a store, in front of the witness."""
        if operation not in _WRITES:
            return act()
        before, answer, after = self._bytes(location, key), act(), self._bytes(location, key)
        if after is not None and (isinstance(answer, Created | Replaced) or before != after):
            self._dates[location, key] = int(self.wall() * 1000)
        if before != after:
            self._look(lambda: self.witness.changed(location, key, before=before, after=after, ours=ours))
        return answer

    def _send_late(self, location: str, operation: str, key: str, act: Callable[[], object]) -> None:
        delay = self.lots.uniform(0, _LATE)

        def arrive() -> None:
            self.schedule.sleep(delay)
            self.schedule.step(f"late {operation} {location.rpartition('/')[2]}/{key}")
            self.apply(location, operation, key, act, ours=True)

        self.schedule.spawn("late", arrive, self._network)

    def _hang(self, location: str) -> None:
        """A call that does not come back before the trouble is over; then it does what it came for."""
        troubles, who = self.troubles, (self.schedule.process, location)
        until = max(each.until for prefix, each in troubles.stores if f"{location}/".startswith(prefix))
        self._hanging[who] += 1
        if self._hanging[who] > _MOST_THREADS:
            self.schedule.fail(AssertionError(f"G7: {self._hanging[who]} threads hang at {location}"))
        self.schedule.wait(lambda: self.schedule.steps > until or self.troubles is not troubles)
        self._hanging[who] -= 1

    def _meet_doom(self, doomed: dict[Process, Callable[[], None]]) -> None:
        if (end := doomed.pop(self.schedule.process, None)) is not None:
            end()
            self.schedule.step("killed")

    def _bytes(self, location: str, key: str) -> bytes | None:
        found = self.store(location).read(key)
        return None if found is None else found.data

    def _drawn(self, troubles: Iterable[Trouble]) -> str:
        if self.schedule.is_directed:
            return ""
        for trouble in troubles:
            if self.schedule.steps <= trouble.until and self.lots.randrange(100) < trouble.percent:
                return self.lots.choice(trouble.kinds)
        return ""

    def _look(self, look: Callable[[], None]) -> None:
        try:
            look()
        except AssertionError as wrong:
            self.schedule.fail(wrong)
