"""A machine that crashes: names that its disk was not told to sync may be gone afterwards, and in any order."""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, cast

from deltamirror.errors import Unavailable
from deltamirror.storage.store import Created, Data, Exists, Store
from tests.support.logs.commit_units import watched


@dataclass
class Machine:
    """Remembers which objects a crash could take. The store call number ``crash_at`` (from 1) and all after it fail."""

    crash_at: int
    called: int = 0
    dies_at_sync: bool = False
    """Whether the process dies before each sync; the machine stays."""
    unsynced: list[str] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def wrap(self, store: Store) -> Store:
        """The store, on this machine."""
        counted, _ = watched(store, before=self._begin)
        return cast("Store", _Forgetful(counted, self))

    def crash(self, store: Store, *, keep: Callable[[int], bool]) -> None:
        """Take the names that are not on disk, but for those whose place in the order of creation is kept."""
        store.delete([key for place, key in enumerate(self.unsynced) if not keep(place)])
        self.unsynced.clear()

    def _begin(self, operation: str, key: str) -> None:
        """Count a call, which fails when the machine, or at a sync the process, is gone."""
        with self.lock:
            self.called += 1
            if 0 < self.crash_at <= self.called:
                raise Unavailable("the machine is gone")
        if operation == "sync" and self.dies_at_sync:
            raise Unavailable("the process is gone")

    def created(self, key: str) -> None:
        """The object has its name, in memory alone."""
        with self.lock:
            self.unsynced.append(key)

    def synced(self, folder: str) -> None:
        """The names in the folder are on disk."""
        with self.lock:
            self.unsynced = [key for key in self.unsynced if key.rpartition("/")[0] != folder]


@dataclass(frozen=True)
class _Forgetful:
    store: Store
    machine: Machine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def create(self, key: str, data: Data, *, synced: bool = True) -> Created | Exists:
        answer = self.store.create(key, data, synced=synced)
        self.machine.created(key)
        if synced:
            self.machine.synced(key.rpartition("/")[0])
        return answer

    def sync(self, folder: str) -> None:
        self.store.sync(folder)
        self.machine.synced(folder)
