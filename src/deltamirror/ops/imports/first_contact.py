"""Locations that become tables of the catalog when a job first meets them.

A table that a job creates is put and imported by its first commit; one that lies there is imported as it is. Settings
name the folders below which that may happen: ``serve.create_below`` and ``serve.import_below``.
"""

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from deltamirror.catalog import Catalog
from deltamirror.catalog.places import require_own_folder
from deltamirror.config import LiveSettings
from deltamirror.delta.actions import Metadata, Protocol
from deltamirror.delta.lines import decode_commit
from deltamirror.delta.names import LOG_DIRECTORY, commit_name
from deltamirror.delta.validation import check_actions
from deltamirror.deltalog.admission import require_importable
from deltamirror.errors import (
    AlreadyExists,
    Conflict,
    InvalidLocation,
    InvalidSettings,
    NotFound,
    Refused,
    Transient,
)
from deltamirror.ops.imports.discovery import table_name_of
from deltamirror.ops.imports.importing import ImportOrder, TableImporter
from deltamirror.pipeline.run.log_reading import LocalHarvester
from deltamirror.pipeline.service.owners import owner_name
from deltamirror.storage.location import canonical_location, is_inside
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Created, Store
from deltamirror.txnlog.imports.importing import no_foundation
from deltamirror.txnlog.tables.registry import TableInfo, require_free, require_name

_FIRST: Final = f"{LOG_DIRECTORY}/{commit_name(0)}"
_TURNS: Final = 64


@dataclass(frozen=True, slots=True)
class Offer:
    """What may become of a location that is no table of the catalog."""

    name: str
    """That of the table."""
    creates: bool
    imports: bool


class FirstContact:
    """Makes tables of locations. Safe to use from several threads and processes at once."""

    def __init__(self, catalog: Catalog, live: LiveSettings) -> None:
        self._catalog, self._live = catalog, live
        self._turns = [threading.Lock() for _ in range(_TURNS)]

    def offer(self, location: str) -> Offer | None:
        """What the settings allow at a location; None where that is nothing."""
        place, serve = canonical_location(location), self._live.current.serve
        creates = _root_above(place, serve.create_below, "serve.create_below")
        imports = _root_above(place, serve.import_below, "serve.import_below")
        root = creates or imports
        if root is None:
            return None
        return Offer(table_name_of(place, root), creates=creates is not None, imports=imports is not None)

    def create(self, location: str, lines: bytes) -> TableInfo:
        """The table whose version 0 these lines are; ``Conflict`` where another commit has that version.

        Sent again, they are the same table: that its reply was lost changes nothing.
        """
        place, offer = canonical_location(location), self.offer(location)
        if offer is None or not offer.creates:
            raise _not_allowed(place, "created", "create_below")
        with self._turn(place):
            known = self._table_at(place)
            if known is None:
                _require_first_version(lines, place)
                self._put_first(place, offer.name, lines)
                known = self._imported(place, offer.name)
        if self._first_version(known) != lines:
            raise _taken(known.name, known.head)
        return known

    def take_in(self, location: str) -> TableInfo:
        """The table at a location, imported unless it is one of the catalog."""
        place, offer = canonical_location(location), self.offer(location)
        if offer is None or not offer.imports:
            raise _not_allowed(place, "imported", "import_below")
        with self._turn(place):
            return self._table_at(place) or self._imported(place, offer.name)

    def _turn(self, place: str) -> threading.Lock:
        """One import of a location at a time in this process; a slow one delays hardly any other location."""
        return self._turns[crc32(place.encode()) % _TURNS]

    def _put_first(self, place: str, name: str, lines: bytes) -> None:
        """Put version 0 unless there is a log; no two writers can both do so."""
        storage = self._live.current.storage
        require_name(name)
        with self._catalog.database.read() as connection:
            require_free(connection, name=name, location=place)
        require_own_folder(place, self._catalog.database, storage)
        store = store_at(place, storage)
        if not _has_versions(store) and isinstance(store.create(_FIRST, lines), Created):
            return
        found = store.read(_FIRST)  # none: the first versions were cleaned away
        if found is None or found.data != lines:
            raise _taken(name, 0)

    def _imported(self, place: str, name: str) -> TableInfo:
        settings = self._live.current
        try:
            with closing(LocalHarvester(settings)) as harvester:
                importer = TableImporter(self._catalog, settings, harvester, owner=owner_name())
                importer.run(ImportOrder(location=place, name=name))
        except (AlreadyExists, Refused) as error:
            if (found := self._table_at(place)) is not None:
                return found  # another process was quicker
            if isinstance(error, AlreadyExists):
                raise
            raise Transient(error.message, hint=error.hint) from error  # another process is at it
        return self._catalog.table(name).info()

    def _first_version(self, table: TableInfo) -> bytes | None:
        try:
            return self._catalog.table(table.name).commit_file(0)
        except NotFound:
            return None  # it was imported from a later version on

    def _table_at(self, place: str) -> TableInfo | None:
        try:
            return self._catalog.table_at(place).info()
        except NotFound:
            return None


def _require_first_version(lines: bytes, place: str) -> None:
    """Refuse lines that no later commit could follow: once they are put, jobs have a Delta table there without us."""
    actions = decode_commit(lines)
    protocol = next((action for action in actions if isinstance(action, Protocol)), None)
    metadata = next((action for action in actions if isinstance(action, Metadata)), None)
    if protocol is None or metadata is None:
        raise no_foundation(place, "protocol" if protocol is None else "metaData")
    require_importable(protocol, location=place)
    check_actions(actions, protocol=protocol, metadata=metadata, verbatim=True, rows_checked=True)


def _has_versions(store: Store) -> bool:
    """Whether a log has commits or checkpoints: some stores keep an object for each folder."""
    return any(meta.key.rpartition("/")[2][:1].isdigit() for meta in store.list(LOG_DIRECTORY))


def _root_above(place: str, text: str, setting: str) -> str | None:
    """The folder of a setting that a location lies below; the innermost of several."""
    roots = (root for root in _roots(text, setting) if root != place and is_inside(place, root))
    return max(roots, key=len, default=None)


def _roots(text: str, setting: str) -> Iterator[str]:
    for each in filter(None, map(str.strip, text.split(","))):
        try:
            yield canonical_location(each, or_bucket=True)
        except InvalidLocation as error:
            raise InvalidSettings(f"{setting}: {error.message}", hint=error.hint, key=setting) from error


def _not_allowed(place: str, what: str, setting: str) -> Refused:
    return Refused(
        f"no table is {what} at {place} by a job", hint=f"serve.{setting} names the folders where that may be"
    )


def _taken(name: str, head: int) -> Conflict:
    return Conflict(
        f"table {name!r}: version 0 was asked for, and another commit has it",
        hint="read the table again",
        table=name,
        reason="version-taken",
        actual_version=head,
    )
