"""From a location to a store, in this process or in another one."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Self

from deltamirror.config import LiveSettings, Settings, StorageSettings, load
from deltamirror.errors import InvalidLocation
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.calls import StoreCalls
from deltamirror.storage.clients import Credentials, clients_for
from deltamirror.storage.disk import DiskStore
from deltamirror.storage.failures import from_os
from deltamirror.storage.location import local_path
from deltamirror.storage.object_store import ObjectStore
from deltamirror.storage.store import Store


class Stores:
    """Stores by their address, each opened when it is first asked for. Safe to share between threads.

    Their calls end in time. ``calls`` are shared with others that wait for the same stores, and may be given up.
    """

    def __init__(
        self,
        opening: Callable[[StoreAddress], Store],
        calls: StoreCalls | None = None,
        *,
        keys: Callable[[], Credentials | None] = lambda: None,
    ) -> None:
        self._opening = opening
        self._calls = StoreCalls() if calls is None else calls
        self._keys = keys
        self._opened_with: Credentials | None = None
        self._opened: dict[StoreAddress, Store] = {}

    @classmethod
    def with_keys(cls, settings: Settings | LiveSettings, calls: StoreCalls | None = None) -> Self:
        """With the credentials of these settings, if they have any; otherwise stores take those of the process."""
        keys = keys_of(settings)
        return cls(lambda address: open_store(address, credentials=keys()), calls, keys=keys)

    def at(self, address: StoreAddress) -> Store:
        """The store at an address; with other credentials it is opened again."""
        if (keys := self._keys()) != self._opened_with:
            self._opened, self._opened_with = {}, keys
        opened = self._opened
        if address not in opened:
            opening = partial(self._opening, address)
            opened[address] = self._calls.bounded(opening, address.location, address.options)
        return opened[address]

    def close(self) -> None:
        """Let go of them. One that is asked for again is opened again."""
        self._opened.clear()


def keys_of(settings: Settings | LiveSettings) -> Callable[[], Credentials]:
    """The credentials of settings, as they are when they are asked for."""
    live = LiveSettings.of(settings)
    return lambda: Credentials.of(live.current.storage)


def store_at(location: str, settings: StorageSettings) -> Store:
    """The store at a location, with the credentials of the settings, or those that the process finds."""
    return Stores.with_keys(Settings(storage=settings)).at(StoreAddress.of(location, settings))


def store_above(location: str, settings: StorageSettings) -> Store:
    """A place that has tables in it, to look for them: a folder, or a whole bucket."""
    address = StoreAddress.of(location, settings, or_bucket=True)
    return Stores.with_keys(Settings(storage=settings)).at(address)


def open_store(address: StoreAddress, *, credentials: Credentials | None = None) -> Store:
    """The store at an address. Without credentials, those of this process's own settings and environment are taken.

    Nothing is asked of a remote store. A local folder need not exist; a file in its place is an error.
    """
    path = local_path(address.location)
    if path is not None:
        return DiskStore(_folder(Path(path)))
    credentials = credentials or Credentials.of(load(environment=os.environ).settings.storage)
    return _remote(address, credentials)


def _remote(address: StoreAddress, credentials: Credentials) -> ObjectStore:
    scheme, _, rest = address.location.partition("://")
    bucket, _, path = rest.partition("/")
    clients = clients_for(scheme, bucket, address.options, credentials)
    return ObjectStore(address.location, path, clients, reopen=(open_store, (address,)))


def _folder(path: Path) -> Path:
    try:
        is_file = path.exists() and not path.is_dir()
    except OSError as error:
        raise from_os(error, f"cannot use {path!s:.200}") from None
    if is_file:
        raise InvalidLocation(
            f"the location {path} is a file", hint="a table needs a folder of its own", location=str(path)
        )
    return path
