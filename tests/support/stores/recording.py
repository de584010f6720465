"""A store that remembers what was asked of it, in order, and fails where it is told to."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Lock
from typing import TypeVar

from deltamirror.errors import Unavailable
from deltamirror.storage.store import Changed, Created, Data, ETag, Exists, Meta, Object, Obstacle, Replaced, Store

T = TypeVar("T")


class RecordingStore:
    """Passes everything on to a store. ``puts`` are the keys that were created, replaced or put.

    The put number ``fail_at`` (from 1) fails: before it happens, or after it, so that its reply is lost. ``before_put``
    is called with the key ahead of every put: another writer, say, who comes in between.
    """

    def __init__(
        self,
        store: Store,
        *,
        fail_at: int | None = None,
        lost_reply: bool = False,
        before_put: Callable[[str], None] | None = None,
    ) -> None:
        self._store = store
        self._fail_at = fail_at
        self._lost_reply = lost_reply
        self._before_put = before_put
        self._lock = Lock()
        self.calls: list[tuple[str, str]] = []
        self.puts: list[str] = []

    @property
    def location(self) -> str:
        return self._store.location

    def create(self, key: str, data: Data, *, synced: bool = True) -> Created | Exists:
        return self._put("create", key, lambda: self._store.create(key, data, synced=synced))

    def sync(self, folder: str) -> None:
        self._record("sync", folder)
        self._store.sync(folder)

    def replace(self, key: str, data: Data, *, if_match: ETag | None) -> Replaced | Changed:
        return self._put("replace", key, lambda: self._store.replace(key, data, if_match=if_match))

    def put(self, key: str, data: Data) -> ETag:
        return self._put("put", key, lambda: self._store.put(key, data))

    def read(self, key: str) -> Object | None:
        self._record("read", key)
        return self._store.read(key)

    def read_range(self, key: str, start: int, length: int) -> bytes | None:
        self._record("read_range", key)
        return self._store.read_range(key, start, length)

    def head(self, key: str) -> Meta | None:
        self._record("head", key)
        return self._store.head(key)

    def list(self, folder: str = "", *, after: str | None = None) -> Iterator[Meta]:
        self._record("list", folder)
        return self._store.list(folder, after=after)

    def delete(self, keys: Iterable[str]) -> None:
        self._store.delete(keys)

    def copy(self, source: str, target: str) -> None:
        self._store.copy(source, target)

    def folders(self, folder: str = "") -> Sequence[str]:
        return self._store.folders(folder)

    def walk(self) -> Iterator[Meta]:
        self._record("walk", "")
        return self._store.walk()

    def obstacles(self, folder: str) -> Sequence[Obstacle]:
        return self._store.obstacles(folder)

    def sweep_temporaries(self, folder: str = "", *, before: int) -> int:
        return self._store.sweep_temporaries(folder, before=before)

    def _put(self, operation: str, key: str, effect: Callable[[], T]) -> T:
        if self._before_put is not None:
            self._before_put(key)
        fails = self._record_put(operation, key) == self._fail_at
        if fails and not self._lost_reply:
            raise Unavailable(f"injected: {key} was not put")
        result = effect()
        if fails:
            raise Unavailable(f"injected: the reply for {key} was lost")
        return result

    def _record_put(self, operation: str, key: str) -> int:
        with self._lock:
            self.calls.append((operation, key))
            self.puts.append(key)
            return len(self.puts)

    def _record(self, operation: str, key: str) -> None:
        with self._lock:
            self.calls.append((operation, key))
