"""Reading many objects of a log to see whether they are what they should be: in this process, or on Spark."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol

from deltamirror.config import Settings
from deltamirror.mirror.comparison import difference
from deltamirror.storage.clients import Credentials
from deltamirror.storage.open import StoreAddress, open_store
from deltamirror.storage.store import Store
from deltamirror.work import Difference, ExpectedObject

__all__ = ["Inspector", "LocalInspector"]


class Inspector(Protocol):
    """Compares objects with what they should be."""

    def store(self, address: StoreAddress) -> Store:
        """The store at an address, for this process."""

    def differences(self, address: StoreAddress, expected: Sequence[ExpectedObject]) -> Iterator[Difference]:
        """What is not as it should be, in the order of what was expected."""

    def close(self) -> None:
        """Let go of everything."""


class LocalInspector:
    """Compares in threads of this process, with the credentials of its settings."""

    def __init__(self, settings: Settings, *, open_store: Callable[[StoreAddress], Store] | None = None) -> None:
        self._open_store = open_store or partial(_opened, Credentials.of(settings.storage))
        self._stores: dict[StoreAddress, Store] = {}
        self._threads = settings.mirror.threads

    def store(self, address: StoreAddress) -> Store:
        """The store at an address; it is opened once."""
        if address not in self._stores:
            self._stores[address] = self._open_store(address)
        return self._stores[address]

    def differences(self, address: StoreAddress, expected: Sequence[ExpectedObject]) -> Iterator[Difference]:
        """What is not as it should be; some objects are read at once."""
        compare = partial(difference, self.store(address))
        with ThreadPoolExecutor(self._threads, thread_name_prefix="deltamirror-inspection") as threads:
            yield from (found for found in threads.map(compare, expected) if found is not None)

    def close(self) -> None:
        """Let go of the stores."""
        self._stores.clear()


def _opened(credentials: Credentials, address: StoreAddress) -> Store:
    return open_store(address, credentials=credentials)
