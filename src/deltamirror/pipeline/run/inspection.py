"""Reading many objects of a log to see whether they are what they should be: in this process, or on Spark."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol, TypeVar

from deltamirror.config import LiveSettings, Settings
from deltamirror.deltalog.comparison import difference
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.calls import StoreCalls
from deltamirror.storage.open import Stores
from deltamirror.storage.store import Store
from deltamirror.work import ExpectedObject, ObjectDifference

T = TypeVar("T")
R = TypeVar("R")


class Inspector(Protocol):
    """Compares objects with what they should be."""

    def store(self, address: StoreAddress) -> Store:
        """The store at an address, for this process."""

    def differences(self, address: StoreAddress, expected: Sequence[ExpectedObject]) -> Iterator[ObjectDifference]:
        """What is not as it should be, in the order of what was expected."""

    def examined(
        self, address: StoreAddress, examine: Callable[[Store, T], Iterable[R]], items: Sequence[T]
    ) -> Iterator[R]:
        """What a function finds for each item in the store at an address, in the order of the items.

        The function is one of a module: other processes import it.
        """

    def close(self) -> None:
        """Let go of everything."""


class LocalInspector:
    """Compares in threads of this process, with the credentials of its settings."""

    def __init__(
        self,
        settings: Settings | LiveSettings,
        *,
        open_store: Callable[[StoreAddress], Store] | None = None,
        calls: StoreCalls | None = None,
    ) -> None:
        self._live = LiveSettings.of(settings)
        self._stores = Stores.with_keys(self._live, calls) if open_store is None else Stores(open_store, calls)

    def store(self, address: StoreAddress) -> Store:
        """The store at an address; it is opened once."""
        return self._stores.at(address)

    def differences(self, address: StoreAddress, expected: Sequence[ExpectedObject]) -> Iterator[ObjectDifference]:
        """What is not as it should be; some objects are read at once."""
        compare, at_once = partial(difference, self.store(address)), self._live.current.mirror.threads
        with ThreadPoolExecutor(at_once, thread_name_prefix="deltamirror-inspection") as threads:
            yield from (found for found in threads.map(compare, expected) if found is not None)

    def examined(
        self, address: StoreAddress, examine: Callable[[Store, T], Iterable[R]], items: Sequence[T]
    ) -> Iterator[R]:
        """What a function finds for each item, one after the other."""
        store = self.store(address)
        return (found for item in items for found in examine(store, item))

    def close(self) -> None:
        """Let go of the stores."""
        self._stores.close()
