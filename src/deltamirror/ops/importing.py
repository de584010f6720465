"""Bringing a table that exists under SQL: the log at its location, as it is, becomes its history in the catalog."""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from deltamirror.config import Settings
from deltamirror.delta.actions import Protocol
from deltamirror.errors import AlreadyExists, InvalidInput, Refused, Transient, Unsupported
from deltamirror.mirror.log.admission import require_importable
from deltamirror.mirror.log.checkpoints import checkpoint_pieces
from deltamirror.mirror.log.commits import changed, read_whole
from deltamirror.mirror.log.listing import LogListing, read_listing
from deltamirror.mirror.log.reach import Reach, reach
from deltamirror.pipeline.harvest import Harvester
from deltamirror.pipeline.slices import LogSlice, Part, base_slices, commit_slices
from deltamirror.storage.open import StoreAddress, store_at
from deltamirror.storage.store import Meta, Store
from deltamirror.txnlog.backlog import count_files
from deltamirror.txnlog.database import Database
from deltamirror.txnlog.importing import Import, ImportedCheckpoint, begin_import
from deltamirror.txnlog.parts import CommitPart
from deltamirror.txnlog.tables import require_free, require_name

__all__ = ["ImportOrder", "Imported", "Observer", "TableImporter"]

logger = logging.getLogger(__name__)

_TRIES: Final = 3
_ROUNDS: Final = 20
"""How often versions that came while others were read are taken in, too."""

_FOR_GOOD: Final = (AlreadyExists, InvalidInput, Refused, Transient, Unsupported)
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
    """Imports tables of any Delta writer into the catalog of a database, with their history.

    ``harvester`` reads the logs; it stays the caller's. ``owner`` names this process, so that an import that it began
    and did not end is known for one that may be gone on with.
    """

    def __init__(self, database: Database, settings: Settings, harvester: Harvester, *, owner: str) -> None:
        self._database = database
        self._settings = settings
        self._harvester = harvester
        self._owner = owner

    def run(self, order: ImportOrder, *, observe: Observer = lambda *_: None) -> Imported:
        """Import a table. Nothing of it is visible before all of it is there.

        One that is written to while it is read is followed for a while. An import that was broken off is gone on with.
        """
        return self._tried(order, lambda log: self._stored(order, log, observe))

    def check(self, order: ImportOrder, *, observe: Observer = lambda *_: None) -> Imported:
        """Read the whole log as an import would, and store nothing."""
        return self._tried(order, lambda log: self._read(order, log, observe))

    def _tried(self, order: ImportOrder, work: Callable[["_Log"], Imported]) -> Imported:
        address = StoreAddress.of(order.location, self._settings.storage)
        require_name(order.name)
        with self._database.read() as connection:
            require_free(connection, name=order.name, location=address.location)
        store = store_at(order.location, self._settings.storage)
        for _ in range(_TRIES):
            try:
                return work(_Log(store, address, order.from_version))
            except Transient as error:
                logger.info("the log at %s changed while it was read: %s", address.location, error.message)
                last = error
        raise Refused(
            f"the table at {address.location} changes while it is imported: {last.message}",
            hint="let its writers and its cleanup rest until the import has ended",
            table=order.name,
        ) from last

    def _stored(self, order: ImportOrder, log: "_Log", observe: Observer) -> Imported:
        base = None if log.base is None else log.base.name
        stored = begin_import(
            self._database,
            name=order.name,
            location=log.address.location,
            first=log.first,
            base=base,
            owner=self._owner,
        )
        try:
            self._store_all(stored, log, observe)
            info = stored.complete(base=log.reusable_base(), checksum=None)
        except _FOR_GOOD:
            stored.discard()
            raise
        with self._database.read() as connection:
            num_files = count_files(connection, info.id, info.head)
        return _imported(order, log, num_files=num_files)

    def _store_all(self, stored: Import, log: "_Log", observe: Observer) -> None:
        for _ in range(_ROUNDS):
            for parts in self._harvester.read(log.slices(stored.table_id, stored.next_version, stored.next_part)):
                log.check(parts)
                stored.store(parts)
                observe(stored.next_version - log.first, log.last - log.first + 1)
            if not log.has_grown():
                return
        raise Refused(
            f"the table at {log.address.location} is being written to: it is at version {log.last} by now",
            hint="stop its writers for the time of the import",
        )

    def _read(self, order: ImportOrder, log: "_Log", observe: Observer) -> Imported:
        for parts in self._harvester.read(log.slices(0, log.first, 0)):
            log.check(parts)
            if isinstance(parts[-1], CommitPart):
                observe(parts[-1].version + 1 - log.first, log.last - log.first + 1)
        log.has_grown()
        return _imported(order, log, num_files=None)


class _Log:
    """The log at a location as it was listed, up to the version that was last then."""

    def __init__(self, store: Store, address: StoreAddress, from_version: int | None) -> None:
        self.address = address
        self._store = store
        self._listing = read_listing(store)
        found: Reach = reach(self._listing, from_version=from_version)
        self.first, self.last, self.base = found.first, found.last, found.base

    def slices(self, table_id: int, version: int, part: int) -> Iterator[LogSlice]:
        """What is to be read from a version on; of the first one from a part of its checkpoint on."""
        if version == self.first and self.base is not None:
            pieces, modified = checkpoint_pieces(self._store, self.base), self.base.metas[0].modified
            yield from base_slices(
                pieces, table_id=table_id, address=self.address, version=version, modified=modified, part=part
            )
        commits = ((each, self._listing.commits[each]) for each in self._versions(version))
        yield from commit_slices(commits, table_id=table_id, address=self.address)

    def check(self, parts: Iterable[Part]) -> None:
        """Refuse a protocol that we do not understand, whichever version had it."""
        for part in parts:
            for action in part.small:
                if isinstance(action, Protocol):
                    require_importable(action, location=self.address.location)

    def has_grown(self) -> bool:
        """Whether versions were added since it was listed, which from then on belong to it. Other changes raise."""
        listing = read_listing(self._store)
        found = {meta.key: meta for meta in _metas(listing)}
        for meta in self._read_so_far():
            if found.get(meta.key) != meta:
                raise changed(self._store, meta)
        grown = listing.last > self.last
        reach(listing, from_version=self.first)
        self._listing, self.last = listing, listing.last
        return grown

    def reusable_base(self) -> ImportedCheckpoint | None:
        """The base, if it is a file that later checkpoints may start from."""
        if self.base is None or self.base.kind != "classic":
            return None
        [meta] = self.base.metas
        digest = sha256(read_whole(self._store, meta)).digest()
        return ImportedCheckpoint(
            version=self.first, name=self.base.name, digest=digest, num_bytes=meta.size, modified=meta.modified
        )

    def _versions(self, version: int) -> Iterator[int]:
        """The commits to read; that of a checkpoint's own version may be missing."""
        for each in range(version, self.last + 1):
            if each > self.first or each in self._listing.commits:
                yield each

    def _read_so_far(self) -> Iterator[Meta]:
        yield from () if self.base is None else self.base.metas
        yield from (self._listing.commits[each] for each in self._versions(self.first))


def _metas(listing: LogListing) -> Iterator[Meta]:
    yield from listing.commits.values()
    yield from (meta for files in listing.checkpoints for meta in files.metas)


def _imported(order: ImportOrder, log: _Log, *, num_files: int | None) -> Imported:
    return Imported(
        name=order.name,
        location=log.address.location,
        first=log.first,
        last=log.last,
        base=None if log.base is None else log.base.name,
        num_files=num_files,
    )
