"""Whether a table has its folder to itself, before the catalog takes it in."""

from collections.abc import Iterable

from deltamirror.config import StorageSettings
from deltamirror.errors import AlreadyExists, InvalidLocation
from deltamirror.storage.places import overlap_on_disk
from deltamirror.txnlog.tables.registry import TableInfo

__all__ = ["require_own_folder"]


def require_own_folder(location: str, tables: Iterable[TableInfo], storage: StorageSettings) -> None:
    """Refuse a location on disk whose folder is that of a table by another path, or lies in or around it.

    Equal texts are left to the transaction that takes the table in, which no disk can delay.
    """
    names = {table.location: table.name for table in tables if table.location != location}
    overlap = overlap_on_disk(location, names, storage)
    if overlap is None:
        return
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
