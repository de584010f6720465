"""Bringing a table that exists under SQL: the log at its location, as it is, becomes its history in the catalog."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Final

from deltamirror.catalog import Catalog
from deltamirror.catalog.places import require_own_folder, with_own_folder
from deltamirror.config import Settings, StorageSettings
from deltamirror.delta.actions import Metadata, Protocol
from deltamirror.errors import (
    AlreadyExists,
    CommitUnknown,
    DeltaMirrorError,
    InvalidInput,
    LogChanged,
    NotFound,
    Refused,
    Unsupported,
)
from deltamirror.ops.imports.foreign_log import ForeignLog
from deltamirror.pipeline.run.log_reading import Harvester
from deltamirror.pipeline.run.slices import Part
from deltamirror.pipeline.service.owners import is_gone
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.location import local_path
from deltamirror.storage.open import store_at
from deltamirror.storage.places import Folder, folder_of
from deltamirror.txnlog.commit.request import Change, Request
from deltamirror.txnlog.imports.importing import Import, begin_import, no_foundation
from deltamirror.txnlog.imports.parts import CommitPart
from deltamirror.txnlog.queue.backlog import count_files
from deltamirror.txnlog.tables.registry import TableInfo, require_free, require_name, table_info, tables_of_delta_id

logger = logging.getLogger(__name__)

_TRIES: Final = 3
_ROUNDS: Final = 20
"""How often versions that came while others were read are taken in, too."""

_FOR_GOOD: Final = (AlreadyExists, InvalidInput, LogChanged, Refused, Unsupported)
"""After these an import is not gone on with: the log is not fit for it, or not the one that was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOrder:
    """A table to import."""

    location: str
    name: str
    from_version: int | None = None
    """None: as much of the history as there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an import came to, or, of one that was only tried, would come to."""

    name: str
    location: str
    first: int
    last: int
    base: str | None
    """The checkpoint that the first version comes from."""
    num_files: int | None
    """None where it was only tried."""


Observer = Callable[[int, int], None]
"""Told how many versions are stored, and how many there are."""


class TableImporter:
    """Imports tables of any Delta writer into a catalog, with their history. Safe to use from several threads at once.

    ``harvester`` reads the logs; it stays the caller's. ``owner`` names this process, so that an import that it began
    and did not end is known for one that may be gone on with.
    """

    def __init__(self, catalog: Catalog, settings: Settings, harvester: Harvester, *, owner: str) -> None:
        self._catalog = catalog
        self._database = catalog.database
        self._settings = settings
        self._harvester = harvester
        self._owner = owner
        self._under_way: set[Folder | str] = set()
        self._lock = threading.Lock()

    def run(self, order: ImportOrder, *, observe: Observer = lambda *_: None) -> Imported:
        """Import a table. Nothing of it is visible before all of it is there.

        One that is written to while it is read is followed for a while. An import that was broken off is gone on with.
        """
        return self._tried(order, lambda log: self._stored(order, log, observe))

    def check(self, order: ImportOrder, *, observe: Observer = lambda *_: None) -> Imported:
        """Read the whole log as an import would, and store nothing."""
        return self._tried(order, lambda log: self._read(order, log, observe))

    def _tried(self, order: ImportOrder, work: Callable[[ForeignLog], Imported]) -> Imported:
        address = StoreAddress.of(order.location, self._settings.storage)
        require_name(order.name)
        with self._database.read() as connection:
            require_free(connection, name=order.name, location=address.location)
        with self._alone_at(address.location):
            require_own_folder(address.location, self._database, self._settings.storage)
            return self._again(order, address, work)

    def _again(self, order: ImportOrder, address: StoreAddress, work: Callable[[ForeignLog], Imported]) -> Imported:
        """A log that changes is read again; one that does not come to rest is refused."""
        store = store_at(order.location, self._settings.storage)
        for _ in range(_TRIES):
            try:
                return work(ForeignLog(store, address, order.from_version))
            except LogChanged as error:
                fields = {"location": address.location, "code": error.code}
                what = "the log at %s changed while it was read: %s"
                logger.info(what, address.location, error.message, extra=fields)
                last = error
        raise Refused(
            f"the table at {address.location} changes while it is imported: {last.message}",
            hint="let its writers and its cleanup rest until the import has ended",
            table=order.name,
        ) from last

    @contextmanager
    def _alone_at(self, location: str) -> Iterator[None]:
        """Two imports of one location by this process would both be its owner."""
        place = folder_of(location, self._settings.storage)
        with self._lock:
            if place in self._under_way:
                raise Refused(f"{location} is being imported already", hint="name each location once")
            self._under_way.add(place)
        try:
            yield
        finally:
            with self._lock:
                self._under_way.discard(place)

    def _stored(self, order: ImportOrder, log: ForeignLog, observe: Observer) -> Imported:
        stored = begin_import(
            self._database,
            name=order.name,
            location=log.address.location,
            first=log.first,
            base=log.base_id,
            owner=self._owner,
            is_gone=is_gone,
        )
        try:
            log.require_same(stored.stored_files())
            self._store_all(stored, log, observe)
            info = self._completed(stored, order, log)
        except _FOR_GOOD:
            stored.discard()
            raise
        self._follow(order, log)
        with self._database.read() as connection:
            num_files = count_files(connection, info.id, log.last)
        return _imported(order, log, last=log.last, num_files=num_files)

    def _store_all(self, stored: Import, log: ForeignLog, observe: Observer) -> None:
        for _ in range(_ROUNDS):
            slices = log.slices(stored.table_id, stored.next_version, stored.next_part)
            with closing(self._harvester.read(slices)) as batches:
                for parts in batches:
                    self._check(log, parts)
                    stored.store(parts)
                    observe(stored.next_version - log.first, log.last - log.first + 1)
            if not log.has_grown():
                return
        raise Refused(
            f"the table at {log.address.location} is being written to: it is at version {log.last} by now",
            hint="stop its writers for the time of the import",
        )

    def _check(self, log: ForeignLog, parts: Sequence[Part]) -> None:
        log.check(parts)
        for delta_id in log.first_seen_ids(parts):
            self._require_own_objects(log, delta_id)

    def _require_own_objects(self, log: ForeignLog, delta_id: str) -> None:
        """Refuse a log in a remote store that is a table's by another address.

        A copy has the id of its origin, too, and is a table of its own: its objects are others.
        """
        location = log.address.location
        if local_path(location) is not None:
            return
        with self._database.read() as connection:
            twins = tables_of_delta_id(connection, delta_id)
        for twin in twins:
            if _is_at(log, twin, self._settings.storage):
                raise AlreadyExists(
                    f"the log at {location} is that of the table {twin.name!r} at {twin.location}: the same objects",
                    hint="a log belongs to one table; a copy of it may be imported, a replica that a store keeps not",
                    table=twin.name,
                    location=twin.location,
                )

    def _completed(self, stored: Import, order: ImportOrder, log: ForeignLog) -> TableInfo:
        base = log.reusable_base()
        try:
            return with_own_folder(
                log.address.location,
                self._database,
                self._settings.storage,
                lambda compared: stored.complete(base=base, checksum=None, compared=compared),
            )
        except CommitUnknown:
            with self._database.read() as connection:
                found = _table_of(stored, lambda: table_info(connection, order.name))
            if found is None:
                raise
            return found

    def _follow(self, order: ImportOrder, log: ForeignLog) -> None:
        """Take in what others committed while the table became visible, as they wrote it.

        When this returns, there was a moment after that in which SQL had all that the log had.
        """
        known = log.last
        try:
            for _ in range(_ROUNDS):
                if not log.has_more():
                    return
                for version in range(known + 1, log.last + 1):
                    # By the writer itself: that the log is ahead of the database keeps all others from committing.
                    change = Change(table=order.name, lines=log.lines(version), at_version=version)
                    self._catalog.writer.commit(Request(changes=(change,)))
                    known = version
        except DeltaMirrorError as error:
            raise _behind(order, known, error.message) from error
        raise _behind(order, known, "others write to it all the time")

    def _read(self, order: ImportOrder, log: ForeignLog, observe: Observer) -> Imported:
        found: set[type] = set()
        last = log.last
        with closing(self._harvester.read(log.slices(0, log.first, 0))) as batches:
            for parts in batches:
                self._check(log, parts)
                found.update(type(action) for part in parts for action in part.small)
                if isinstance(parts[-1], CommitPart):
                    observe(parts[-1].version + 1 - log.first, last - log.first + 1)
        for kind, name in ((Metadata, "metaData"), (Protocol, "protocol")):
            if kind not in found:
                raise no_foundation(log.address.location, name)
        log.has_grown()
        return _imported(order, log, last=last, num_files=None)


def _is_at(log: ForeignLog, table: TableInfo, storage: StorageSettings) -> bool:
    """Whether a log's objects are those of a table; a place that these keys do not open is another one."""
    try:
        return log.is_at(store_at(table.location, storage))
    except DeltaMirrorError as error:
        if error.retryable:
            raise
        return False


def _table_of(stored: Import, look: Callable[[], TableInfo]) -> TableInfo | None:
    """The table that an import became, if it did."""
    try:
        found = look()
    except NotFound:
        return None
    return found if found.id == stored.table_id else None


def _behind(order: ImportOrder, version: int, why: str) -> Refused:
    return Refused(
        f"{order.name} is imported up to version {version}, and its log at {order.location} goes on: {why}",
        hint="stop its other writers, and take in each version that they committed since, in order: "
        f"deltamirror commit {order.name} FILE --verbatim --at-version {version + 1}",
        table=order.name,
    )


def _imported(order: ImportOrder, log: ForeignLog, *, last: int, num_files: int | None) -> Imported:
    return Imported(
        name=order.name,
        location=log.address.location,
        first=log.first,
        last=last,
        base=None if log.base is None else log.base.name,
        num_files=num_files,
    )
