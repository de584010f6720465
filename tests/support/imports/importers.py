"""Importers at work on logs that somebody else changes meanwhile."""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import count

from deltamirror import Catalog
from deltamirror.config import Settings, StorageSettings
from deltamirror.delta.names import LOG_DIRECTORY, commit_name
from deltamirror.ops.diff.comparing import compare
from deltamirror.ops.diff.sides import location_state, table_state
from deltamirror.ops.imports.importing import Imported, ImportOrder, TableImporter
from deltamirror.pipeline.run.log_reading import LocalHarvester
from deltamirror.pipeline.run.slices import LogSlice, Part
from deltamirror.pipeline.service.owners import owner_name
from deltamirror.storage.store import Store
from tests.support.imports.foreign_logs import HISTORY

Meddling = Callable[[int], None]
"""Done when a log was read, all of it that was listed; told how often that happened before."""


class Meddler:
    """Reads as this process does, and lets somebody do something to the log after it, before that is known."""

    def __init__(self, storage: StorageSettings, meddling: Meddling) -> None:
        self.slices: list[LogSlice] = []
        """All that were asked for."""
        self._harvester = LocalHarvester(Settings(storage=storage))
        self._meddling, self._rounds = meddling, count()

    def read(self, slices: Iterable[LogSlice]) -> Generator[list[Part]]:
        """The parts of the slices, each in a batch of its own."""
        for batch in self._harvester.read(self._noted(slices)):
            for part in batch:
                yield [part]
        self._meddling(next(self._rounds))

    def close(self) -> None:
        """Let go of the stores."""
        self._harvester.close()

    def _noted(self, slices: Iterable[LogSlice]) -> Iterator[LogSlice]:
        for each in slices:
            self.slices.append(each)
            yield each


@contextmanager
def importer_of(
    catalog: Catalog, storage: StorageSettings | None = None, meddling: Meddling = lambda _: None
) -> Iterator[tuple[TableImporter, Meddler]]:
    """An importer of this process, and what reads for it."""
    settings = Settings(storage=storage or StorageSettings())
    harvester = Meddler(settings.storage, meddling)
    try:
        yield TableImporter(catalog, settings, harvester, owner=owner_name()), harvester
    finally:
        harvester.close()


def key_of(version: int) -> str:
    """The key of a commit."""
    return f"{LOG_DIRECTORY}/{commit_name(version)}"


def imported(
    catalog: Catalog, store: Store, storage: StorageSettings | None = None, meddling: Meddling = lambda _: None
) -> Imported:
    """The table at a store, imported as ``t``."""
    with importer_of(catalog, storage, meddling) as (importer, _):
        return importer.run(ImportOrder(location=store.location, name="t"))


def assert_as_in(store: Store, catalog: Catalog, *, first: int = 0, last: int = len(HISTORY) - 1) -> None:
    """The table ``t`` has these versions, and each is in SQL what it is in the log: its bytes, the state after it."""
    table = catalog.table("t")
    info = table.info()
    assert (info.log_start, info.head) == (first, last)
    assert [entry.version for entry in table.history()] == list(range(last, first - 1, -1))
    for version in range(first, last + 1):
        found = store.read(key_of(version))
        if found is not None:
            assert table.commit_file(version) == found.data
        difference = compare(table_state(catalog.database, "t", version), location_state(store, version))
        assert difference.equal, difference.first
