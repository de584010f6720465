"""The stores of a schedule: objects in memory, dated by its clock; every call is a step."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

from deltamirror.storage.store import Changed, Created, Data, ETag, Exists, Meta, Object, Obstacle, Replaced, Store

T = TypeVar("T")


class Calls(Protocol):
    """What happens around the calls of a store."""

    def call(self, store: Store, operation: str, key: str, act: Callable[[], T]) -> T:
        """Do it, or not, or do it and say that it failed."""

    def modified(self, location: str, key: str) -> int:
        """When an object was put, in milliseconds."""


@dataclass(frozen=True, slots=True)
class ScheduledStore:
    """A store, every call of which is a step."""

    inner: Store
    calls: Calls

    @property
    def location(self) -> str:
        """The canonical location."""
        return self.inner.location

    def create(self, key: str, data: Data, *, synced: bool = True) -> Created | Exists:
        return self.calls.call(self, "create", key, partial(self.inner.create, key, data, synced=synced))

    def sync(self, folder: str) -> None:
        self.calls.call(self, "sync", folder, partial(self.inner.sync, folder))

    def replace(self, key: str, data: Data, *, if_match: ETag | None) -> Replaced | Changed:
        return self.calls.call(self, "replace", key, partial(self.inner.replace, key, data, if_match=if_match))

    def put(self, key: str, data: Data) -> ETag:
        return self.calls.call(self, "put", key, partial(self.inner.put, key, data))

    def read(self, key: str) -> Object | None:
        found = self.calls.call(self, "read", key, partial(self.inner.read, key))
        return None if found is None else Object(self._dated(found.meta), found.data)

    def read_range(self, key: str, start: int, length: int) -> bytes | None:
        return self.calls.call(self, "read", key, partial(self.inner.read_range, key, start, length))

    def head(self, key: str) -> Meta | None:
        found = self.calls.call(self, "head", key, partial(self.inner.head, key))
        return None if found is None else self._dated(found)

    def list(self, folder: str = "", *, after: str | None = None) -> Iterator[Meta]:
        found = self.calls.call(self, "list", folder, lambda: list(self.inner.list(folder, after=after)))
        return map(self._dated, found)

    def folders(self, folder: str = "") -> Sequence[str]:
        return self.calls.call(self, "folders", folder, partial(self.inner.folders, folder))

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.calls.call(self, "delete", key, partial(self.inner.delete, [key]))

    def copy(self, source: str, target: str) -> None:
        self.calls.call(self, "copy", target, partial(self.inner.copy, source, target))

    def walk(self) -> Iterator[Meta]:
        return self.list()

    def obstacles(self, folder: str) -> Sequence[Obstacle]:
        return self.inner.obstacles(folder)

    def sweep_temporaries(self, folder: str = "", *, before: int) -> int:
        return self.calls.call(self, "sweep", folder, partial(self.inner.sweep_temporaries, folder, before=before))

    def _dated(self, meta: Meta) -> Meta:
        return replace(meta, modified=self.calls.modified(self.location, meta.key))
