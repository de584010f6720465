"""Looking past the heads of tables: whether a log holds versions that the database lacks.

Our versions are in the database before they are in the log. So a version that is in the log, and not in the database
when that is asked afterwards, is foreign: another writer wrote it, or the database was restored from a backup that is
older than the log. A version that is committed on top of it could not be published.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from deltamirror.config import LiveSettings, Settings
from deltamirror.delta.names import LOG_DIRECTORY, commit_key
from deltamirror.deltalog.expiry import pointed_version
from deltamirror.deltalog.pointer import POINTER_KEY
from deltamirror.errors import DeltaMirrorError
from deltamirror.pipeline.failures.circuit import Breakers
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.location import store_prefix
from deltamirror.storage.open import Stores
from deltamirror.storage.store import Store
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.quarantine import mark_diverged
from deltamirror.txnlog.tables.registry import TableInfo, table_again, table_info

_log = logging.getLogger(__name__)

_SECONDS: Final = 2.0
"""How long a writer waits for a store that does not answer."""
_REST: Final = 20.0
"""How many times as long as a failed look its store is not asked: writers wait a twentieth of their time."""
_TIMES: Final = ("connect_timeout", "timeout", "transfer_timeout")
_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class Sighting:
    """A version that a log holds past the head that a database has."""

    version: int
    key: str


class LookAhead:
    """Looks past the heads of tables, with little patience: a caller that gets no answer can look again."""

    def __init__(self, database: Database, settings: Settings | LiveSettings) -> None:
        self._database = database
        self._live = LiveSettings.of(settings)
        self._stores = Stores.with_keys(self._live)

    def sighting(self, table: TableInfo) -> Sighting | None:
        """What the log of a table holds past its head. Errors are those of the store."""
        storage = self._live.current.storage
        quick = {name: min(getattr(storage, name), _SECONDS) for name in _TIMES}
        address = StoreAddress.of(table.location, replace(storage, retries=0, **quick))
        return _beyond(self._stores.at(address), table.head)

    def mark(self, table: TableInfo, seen: Sighting) -> bool:
        """Quarantine a table, unless the database has the version by this time; whether it has not."""
        with self._database.write() as session:
            self._database.lock_head(session, table.id)
            current = table_again(session.connection, table.id, table.name)
            if current.head >= seen.version:
                return False
            reason = (
                f"the log holds {seen.key.removeprefix(LOG_DIRECTORY + '/')}, and the database is at version "
                f"{current.head}: it was restored from a backup, or another writer wrote to the log"
            )
            news = mark_diverged(session, table.id, version=seen.version, reason=reason)
        if news:
            fields = {"table": table.name, "table_id": table.id, "version": seen.version}
            what = "table %r is in quarantine: %s; run `deltamirror adopt %s`"
            _log.error(what, table.name, reason, table.name, extra=fields)
        return True


def _beyond(store: Store, head: int) -> Sighting | None:
    """The next version; or, where a log was cleaned up to beyond the head, the newest checkpoint."""
    following = commit_key(head + 1)
    if store.head(following) is not None:
        return Sighting(head + 1, following)
    pointed = pointed_version(store)
    if pointed is None or pointed <= head or store.head(commit_key(pointed)) is None:
        return None  # a pointer to no commit misleads readers: the reconciler moves it aside
    return Sighting(pointed, POINTER_KEY)


class FirstLooks:
    """Looks past the head of each table before a process commits to it for the first time.

    A store that does not answer keeps no writer from committing; its tables are looked at again before a later commit.
    Safe to share between threads.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings | LiveSettings,
        *,
        owner: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._live = LiveSettings.of(settings)
        self._look = LookAhead(database, self._live)
        self._breakers = Breakers(database, self._live, owner=owner)
        self._clock = clock
        self._done: set[str] = set()
        self._told: set[str] = set()
        self._rested: dict[str, float] = {}

    def before_commit(self, tables: Iterable[str]) -> None:
        """Make known which of these tables have a log that is ahead of the database: a commit to them is refused."""
        if not self._live.current.writer.look_ahead:
            return
        if fresh := [name for name in tables if name not in self._done]:
            with self._database.read() as connection:
                infos = [table_info(connection, name) for name in fresh]
            self._look_at([info for info in infos if self._clock() >= self._rested.get(_store(info), 0.0)])

    def _look_at(self, infos: Sequence[TableInfo]) -> None:
        shut = self._breakers.gate().shut
        reachable = [info for info in infos if _store(info) not in shut]
        if len(reachable) <= 1:
            seen = [self._seen(info) for info in reachable]
        else:
            with ThreadPoolExecutor(min(_AT_ONCE, len(reachable)), thread_name_prefix="deltamirror-look") as pool:
                seen = list(pool.map(self._seen, reachable))
        for info, (answered, sighting) in zip(reachable, seen, strict=True):
            if sighting is not None:
                self._look.mark(info, sighting)
            if answered:
                self._done.add(info.name)  # only now: until it is marked, no other writer may commit

    def _seen(self, info: TableInfo) -> tuple[bool, Sighting | None]:
        """Whether the store answered, and what its log holds past the head."""
        begun = self._clock()
        try:
            seen = self._look.sighting(info)
        except DeltaMirrorError as error:
            ended = self._clock()
            self._rested[_store(info)] = ended + _REST * (ended - begun)
            self._tell(info, error)
            return False, None
        self._told.discard(_store(info))
        return True, seen

    def _tell(self, info: TableInfo, error: DeltaMirrorError) -> None:
        """Say it once of a store."""
        if (store := _store(info)) not in self._told:
            self._told.add(store)
            fields = {"table": info.name, "table_id": info.id, "store": store, "code": error.code}
            _log.warning("the logs in %s cannot be looked at; commits go on: %s", store, error, extra=fields)


def _store(info: TableInfo) -> str:
    return store_prefix(info.location)
