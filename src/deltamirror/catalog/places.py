"""Whether a table has its folder to itself, before the catalog takes it in."""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from deltamirror.config import StorageSettings
from deltamirror.errors import AlreadyExists, InvalidLocation, Transient
from deltamirror.storage.location import is_inside, local_path
from deltamirror.storage.places import overlap_on_disk
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.tables.registry import PlacesMoved, TableInfo, places_on_disk

T = TypeVar("T")

_TRIES: Final = 20
_WITH_OTHER_NAMES: Final = ("file:", "az:", "abfs:")


def with_own_folder(
    location: str,
    database: Database,
    storage: StorageSettings,
    take: Callable[[frozenset[str]], T],
) -> T:
    """What ``take`` makes of a location, once its folder is no other table's; told the locations that this is so for.

    The disk is asked before the catalog is locked, and another process may take the folder in by another path between
    the two. ``take`` then raises ``PlacesMoved``, and the folder is held against the tables that there are by now.
    """
    for _ in range(_TRIES):
        compared = require_own_folder(location, database, storage)
        try:
            return take(compared)
        except PlacesMoved:
            continue
    raise Transient(f"tables are taken in faster than {location} can be compared with them", hint="try again")


def table_in_folder(
    location: str, tables: Callable[[], Iterable[TableInfo]], storage: StorageSettings
) -> TableInfo | None:
    """The table whose place this is by another name: a link or a mount, or an Azure account that is not spelled out."""
    if not location.startswith(_WITH_OTHER_NAMES):
        return None
    known = {table.location: table for table in tables()}
    for other, table in known.items():
        if is_inside(location, other) and is_inside(other, location):
            return table
    overlap = overlap_on_disk(location, known, storage)
    return known[overlap.location] if overlap is not None and overlap.is_same else None


def require_own_folder(location: str, database: Database, storage: StorageSettings) -> frozenset[str]:
    """Refuse a location on disk whose folder is that of a table by another path, or lies in or around it.

    Equal texts are left to the transaction that takes the table in, which no disk can delay. Returns the locations that
    it was held against: for a remote one, none.
    """
    if local_path(location) is None:
        return frozenset()
    with database.read() as connection:
        known = places_on_disk(connection)
    names = {place: name for place, name in known.items() if place != location}
    overlap = overlap_on_disk(location, names, storage)
    if overlap is None:
        return frozenset(known)
    other, name = overlap.location, names[overlap.location]
    if overlap.is_same:
        raise AlreadyExists(
            f"{location} is the folder {other}, which belongs to the table {name!r}, by another path",
            hint="a folder holds one table, whichever links or mounts lead there: choose another one",
            table=name,
            location=location,
        )
    raise InvalidLocation(
        f"the folders of {location} and of table {name!r}, {other}, lie in one another, through a link or a mount",
        hint="choose a location outside of every other table's",
        location=location,
    )
