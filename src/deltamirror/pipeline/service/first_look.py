"""What a service finds past the heads of its tables when it starts."""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from deltamirror.config import LiveSettings, Switch
from deltamirror.errors import DeltaMirrorError, NotFound
from deltamirror.pipeline.failures.circuit import Breakers
from deltamirror.pipeline.failures.policy import STORE_CODES
from deltamirror.pipeline.service.foreign_versions import LookAhead
from deltamirror.storage.location import store_prefix
from deltamirror.telemetry.mentions import Mentions
from deltamirror.telemetry.traces import traced
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.tables.registry import MirrorState, TableInfo, list_tables

_log = logging.getLogger(__name__)

_AT_ONCE: Final = 16
_PAUSE: Final = 30.0


class Outlook:
    """Looks past the head of every table once, many at a time; what could not be looked at, again every half minute.

    Nothing is published to a store until its tables were looked at; other stores go on meanwhile. One that cannot be
    reached is asked for one table only, and delays no publication: the put itself will find foreign commits.
    """

    def __init__(self, database: Database, look: LookAhead, breakers: Breakers, *, live: LiveSettings) -> None:
        self._database, self._look, self._breakers, self._live = database, look, breakers, live
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="deltamirror-look")
        self._lock = threading.Lock()
        self._mentions = Mentions()
        self._begun = False
        self._waiting: dict[str, set[int]] = {}
        self._left: set[int] = set()
        self._again_at = 0.0

    def look(self, wake: Callable[[], None]) -> None:
        """Begin to look, the first time, and again at what is left when that is due; ``wake`` when a store is done."""
        if not self._begun:
            self._begin(self._active(), wake)
            self._begun = True
        elif self._left and not self._waiting and time.monotonic() >= self._again_at:
            self._begin([info for info in self._active() if info.id in self._left], wake)

    def awaited(self) -> list[str]:
        """The stores that nothing is published to before their tables were looked at."""
        with self._lock:
            return list(self._waiting)

    def close(self) -> None:
        """Begin nothing more, and wait for what is under way."""
        self._pool.shutdown(cancel_futures=True)

    def _active(self) -> list[TableInfo]:
        switch = Switch.of(self._live.current)
        with self._database.read() as connection:
            return [info for info in list_tables(connection, switch) if info.state is MirrorState.ACTIVE]

    def _begin(self, infos: Sequence[TableInfo], wake: Callable[[], None]) -> None:
        shut, by_store = self._breakers.gate().shut, defaultdict[str, list[TableInfo]](list)
        for info in infos:
            by_store[store_prefix(info.location)].append(info)
        reachable = {store: some for store, some in by_store.items() if store not in shut}
        with self._lock:
            self._left = {info.id for info in infos}
            self._again_at = time.monotonic() + _PAUSE
            self._waiting = {store: {info.id for info in some} for store, some in reachable.items()}
        for first, *others in reachable.values():
            self._pool.submit(self._look_at, first, others, wake)

    @traced()
    def _look_at(self, info: TableInfo, others: Sequence[TableInfo], wake: Callable[[], None]) -> None:
        """Look at a table, then at others of the same store, unless it is the store that cannot be reached."""
        answers = False
        try:
            answers = self._answers(info)
        finally:
            given_up = () if answers else others
            self._end(store_prefix(info.location), {info.id, *(other.id for other in given_up)})
            wake()
        for other in others if answers else ():
            self._pool.submit(self._look_at, other, (), wake)

    def _answers(self, info: TableInfo) -> bool:
        """Look at a table; whether its store can be reached."""
        try:
            if (sighting := self._look.sighting(info)) is not None:
                self._look.mark(info, sighting)
        except NotFound:  # the table was dropped meanwhile
            pass
        except DeltaMirrorError as error:
            self._tell(info, error)
            return error.code not in STORE_CODES
        with self._lock:
            self._left.discard(info.id)
        return True

    def _tell(self, info: TableInfo, error: DeltaMirrorError) -> None:
        if self._mentions.is_news(info.id, error.code):
            fields = {"table": info.name, "table_id": info.id, "code": error.code}
            _log.info("the log of table %r cannot be looked at: %s", info.name, error, extra=fields)

    def _end(self, store: str, done: set[int]) -> None:
        with self._lock:
            self._again_at = time.monotonic() + _PAUSE
            self._waiting[store] -= done
            if not self._waiting[store]:
                del self._waiting[store]
