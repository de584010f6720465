"""Where a log may be rebuilt, and which versions of it."""

from deltamirror.catalog.places import require_own_folder
from deltamirror.config import StorageSettings
from deltamirror.deltalog.gaps import spelled
from deltamirror.errors import InvalidInput, InvalidLocation, NotFound, Refused
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.tables.registry import TableInfo, overlapping_table


def require_free_place(location: str, database: Database) -> None:
    """Refuse a location that is, or lies in or around, that of any table of the catalog."""
    with database.read() as connection:
        other = overlapping_table(connection, location)
    if other is not None:
        raise InvalidLocation(
            f"{location} is the location of table {other[0]!r}, or one of them lies in the other",
            hint="name a folder outside of every table; without --to the log of the table itself is written again",
            location=location,
        )
    require_own_folder(location, database, StorageSettings())


def wanted_versions(table: TableInfo, location: str, asked: range | None) -> range:
    """The versions to write: those that were asked for, or all that the log has to hold."""
    last = _last_version(table, location)
    wanted = range(table.log_start, last + 1) if asked is None else asked
    if not wanted:
        raise InvalidInput("no versions were asked for", hint="name the first and the last: --versions 3..7")
    if wanted[0] < table.log_start or wanted[-1] > table.head:
        kept = range(table.log_start, table.head + 1)
        raise NotFound(
            f"table {table.name!r} has no {spelled([wanted])}: it has {spelled([kept])}",
            hint=f"`deltamirror table history {table.name}` shows its versions",
            table=table.name,
            version=wanted[-1] if wanted[-1] > table.head else wanted[0],
        )
    if wanted[-1] > last:
        raise _unpublished(table)
    return wanted


def _last_version(table: TableInfo, location: str) -> int:
    """The last that may be written. A table's own log is in order: new versions are for the mirror to put."""
    if location != table.location:
        return table.head
    if table.published is None:
        raise _unpublished(table)
    return table.published


def _unpublished(table: TableInfo) -> Refused:
    until = "nothing" if table.published is None else f"version {table.published}"
    return Refused(
        f"table {table.name!r} is published up to {until}: versions after that are not rebuilt at its own location",
        hint="`deltamirror mirror --once` publishes them",
        table=table.name,
    )
