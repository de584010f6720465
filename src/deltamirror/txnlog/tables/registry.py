"""The tables of the catalog: finding, renaming, pausing and dropping them."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, func, insert, or_, select, update
from sqlalchemy.engine import Row
from sqlalchemy.sql import ColumnElement, Select

from deltamirror.config import Switch
from deltamirror.delta.lines import json_text
from deltamirror.errors import AlreadyExists, Conflict, InvalidInput, InvalidLocation, LeaseLost, Refused
from deltamirror.storage.location import folders_above, is_inside, local_path
from deltamirror.txnlog.content.near_names import no_such_table
from deltamirror.txnlog.database.access import Database, Session
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.schema import heads, imports, leases, metadata, tables
from deltamirror.txnlog.database.statements import LINEAGE
from deltamirror.txnlog.tables.switch import is_switched_on

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_\-]*(\.[A-Za-z0-9_][A-Za-z0-9_\-]*)*")
_LONGEST_NAME = 255


class MirrorState(StrEnum):
    """Whether a table is mirrored, or what keeps it from that."""

    ACTIVE = "active"
    PAUSED = "paused"  # by itself, or with all others
    DISABLED = "disabled"  # by settings
    QUARANTINED = "quarantined"

    @classmethod
    def of(cls, *, quarantined: bool, paused: bool, is_on: bool) -> "MirrorState":
        """The state of a table, the first to be undone of several.

        A disabled table waits on purpose, and is not late, paused or not: to end its pause would change nothing yet.
        """
        if quarantined:
            return cls.QUARANTINED
        if not is_on:
            return cls.DISABLED
        return cls.PAUSED if paused else cls.ACTIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInfo:
    """A table of the catalog, at a glance."""

    id: int
    name: str
    location: str
    state: MirrorState
    head: int
    head_timestamp: int
    published: int | None
    log_start: int
    """The oldest version that the log has to hold."""
    history_start: int
    """The oldest version that the catalog has."""
    created_at: int

    @property
    def unpublished(self) -> int:
        """How many versions the mirror has not published."""
        return self.head - (-1 if self.published is None else self.published)


class PlacesMoved(Exception):
    """Tables were taken in since the folder of another one was held against theirs: compare it with these, too."""


def _infos(switch: Switch) -> Select[Any]:
    columns = (tables, heads.c.version, heads.c.committed_at, is_switched_on(switch).label("is_on"))
    return select(*columns).join(heads, heads.c.table_id == tables.c.table_id)


_ALL_ON: Final = Switch()
_INFO: Final = _infos(_ALL_ON)
_PLACES: Final = select(tables.c.name, tables.c.location).where(tables.c.name.is_not(None))
_AZURE: Final = ("az:", "abfs:")
_WORKED_AT: Final = (
    select(tables.c.dropped_name)
    .join(leases, leases.c.table_id == tables.c.table_id)
    .where(tables.c.dropped_location == bindparam("at_location"), leases.c.expires_at > CLOCK)
    .limit(1)
)
_LOCATION: Final = select(tables.c.location).where(tables.c.name == bindparam("named"))


def list_tables(connection: Connection, switch: Switch = _ALL_ON) -> list[TableInfo]:
    """All tables, by name; ``switch`` says which ones settings switch off."""
    return [_info(row) for row in connection.execute(_infos(switch).order_by(tables.c.name))]


def table_info(connection: Connection, name: str, switch: Switch = _ALL_ON) -> TableInfo:
    """One table."""
    query = _INFO if switch == _ALL_ON else _infos(switch)
    row = connection.execute(query.where(tables.c.name == name)).one_or_none()
    if row is None:
        raise no_such_table(connection, name)
    return _info(row)


def table_again(connection: Connection, table_id: int, name: str) -> TableInfo:
    """A table that had a name, as it is by now: another one may be called so. NotFound if it was dropped."""
    row = connection.execute(_INFO.where(tables.c.table_id == table_id)).one_or_none()
    if row is None:
        raise no_such_table(connection, name)
    return _info(row)


def require_same(table_id: int, *, wanted: int, name: str) -> None:
    """Refuse to go on with the table that has a name by now, unless it is the one that had it before."""
    if table_id != wanted:
        raise Conflict(
            f"another table is called {name!r} by now", hint="look at it first", table=name, reason="table-replaced"
        )


def table_location(database: Database, name: str) -> str:
    """Where a table lies, by the shortest way."""
    if rows := database.glance(_LOCATION, {"named": name}):
        return str(rows[0][0])
    with database.read() as connection:
        raise no_such_table(connection, name)


def require_table(database: Database, name: str) -> None:
    """Refuse a name that no table has, by the shortest way: every use of a table by its name asks."""
    table_location(database, name)


def table_at(connection: Connection, location: str) -> TableInfo | None:
    """The table of a canonical location."""
    row = connection.execute(_INFO.where(tables.c.location == location)).one_or_none()
    return None if row is None else _info(row)


def tables_of_delta_id(connection: Connection, delta_id: str) -> list[TableInfo]:
    """The tables whose metaData names this id; those that have it elsewhere in that line, too."""
    c, own = metadata.c, metadata.c.table_id == tables.c.table_id
    named = c.line.contains(f'"id":{json_text(delta_id)}', autoescape=True)
    query = _INFO.join(metadata, own & (c.version == heads.c.metadata_version)).where(named)
    return [_info(row) for row in connection.execute(query.order_by(tables.c.name))]


def drop_table(database: Database, name: str, *, unpublished: bool) -> None:
    """Forget a table; its name is free again, and its location once no process works there any more."""
    with database.write() as session:
        session.lock_tables()
        info = table_info(session.connection, name)
        database.lock_head(session, info.id)
        info = table_info(session.connection, name)
        require_published(info, unpublished=unpublished, act="drop")
        clock = select(CLOCK).scalar_subquery()
        session.execute(
            update(tables)
            .where(tables.c.table_id == info.id)
            .values(name=None, location=None, dropped_name=name, dropped_location=info.location, dropped_at=clock)
        )
        session.execute(delete(heads).where(heads.c.table_id == info.id))


def rename_table(database: Database, name: str, new_name: str) -> TableInfo:
    """Give a table another name. Its location, its log and all records of it, which go by its id, stay.

    Writers remember tables by name. Another lineage makes all of them look again: an append to the old name that was
    begun before is refused, also where another table has that name by then.
    """
    require_name(new_name)
    with database.write() as session:
        session.lock_tables()
        info = table_info(session.connection, name)
        database.lock_head(session, info.id)
        taken = select(tables.c.location).where(tables.c.name == new_name)
        if (location := session.connection.execute(taken).scalar()) is not None:
            raise _taken(new_name, location)
        session.execute(update(tables).where(tables.c.table_id == info.id).values(name=new_name))
        session.execute(update(heads).where(heads.c.table_id == info.id).values(lineage=LINEAGE + 1))
        return table_info(session.connection, new_name)


def pause_mirror(database: Database, name: str, *, unpublished: bool) -> None:
    """Stop mirroring a table. Commits go on; they wait to be published."""
    with database.write() as session:
        info = table_info(session.connection, name)
        require_published(info, unpublished=unpublished, act="pause")
        session.execute(update(tables).where(tables.c.table_id == info.id).values(mirror_paused=True))


def resume_mirror(database: Database, name: str) -> None:
    """Mirror a table again that was paused."""
    with database.write() as session:
        info = table_info(session.connection, name)
        session.execute(update(tables).where(tables.c.table_id == info.id).values(mirror_paused=False))
    database.announce()


def require_published(info: TableInfo, *, unpublished: bool, act: str) -> None:
    """Refuse to leave versions unpublished unless the caller knows about them."""
    if info.unpublished and not unpublished:
        noun = "version that is" if info.unpublished == 1 else "versions that are"
        raise Refused(
            f"table {info.name!r} has {info.unpublished} {noun} not published to {info.location}",
            hint=f"publish them first, or say that you mean it: `deltamirror table {act} {info.name} --unpublished`",
            table=info.name,
        )


def require_name(name: str) -> None:
    """Refuse what is not a table name."""
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name!r} is not a table name",
            hint="letters, digits, '_' and '-', in parts joined by dots, such as sales.orders",
        )


def require_free(connection: Connection, *, name: str, location: str, compared: Collection[str] | None = None) -> None:
    """Refuse a location that is a table's, whatever the name; a name that is taken; a location within another one; and
    one that a table was dropped from while a process works on it, which may put one more object there.

    ``compared`` are the locations whose folders on disk were held against its own, before the catalog was locked, since
    a disk may hang: ``PlacesMoved`` where it has others by now.
    """
    if (other := connection.execute(_PLACES.where(tables.c.location == location)).first()) is not None:
        raise AlreadyExists(
            f"the location {location} belongs to the table {other.name!r}",
            hint="a location holds one table: choose another one",
            table=other.name,
            location=location,
        )
    if (other := connection.execute(_PLACES.where(tables.c.name == name)).first()) is not None:
        raise _taken(name, other.location)
    if (dropped := connection.execute(_WORKED_AT, {"at_location": location}).scalar()) is not None:
        raise LeaseLost(
            f"a process is still at work at {location}, for the table {dropped!r} that was dropped from there",
            hint="try again when its lease has ended: within mirror.lease, or checkpoint.lease",
            table=name,
        )
    if (near := overlapping_table(connection, location)) is not None:
        raise InvalidLocation(
            f"{location} and the location of table {near[0]!r}, {near[1]}, lie in one another",
            hint="choose a location outside of every other table's",
            location=location,
        )
    is_comparable = compared is not None and local_path(location) is not None
    if is_comparable and not places_on_disk(connection).keys() <= set(compared or ()):
        raise PlacesMoved


def places_on_disk(connection: Connection) -> dict[str, str]:
    """The names of the tables whose files lie on a disk, by location."""
    return {row.location: row.name for row in connection.execute(_PLACES.where(in_store("file:")))}


def overlapping_table(connection: Connection, location: str) -> tuple[str, str] | None:
    """Name and location of a table whose location is this one, or lies in or around it."""
    enclosing = tables.c.location.in_([location, *folders_above(location)])
    query = _PLACES.where(or_(enclosing, in_store(f"{location.rstrip('/')}/")))
    found = [tuple(row) for row in connection.execute(query.limit(1))]
    if not found and location.startswith(_AZURE):
        places = map(tuple, connection.execute(_PLACES.where(or_(*map(in_store, _AZURE)))))
        found = [each for each in places if is_inside(location, each[1]) or is_inside(each[1], location)]
    return found[0] if found else None


def _taken(name: str, location: str) -> AlreadyExists:
    return AlreadyExists(f"there is a table {name!r} already, at {location}", hint="choose another name", table=name)


def fresh_table_id(connection: Connection) -> int:
    """An id that neither a table has, dropped ones included, nor an import."""
    newest = (func.coalesce(func.max(each.c.table_id), 0) for each in (tables, imports))
    return max(int(connection.execute(select(each)).scalar_one()) for each in newest) + 1


def insert_table(
    session: Session,
    table_id: int,
    *,
    name: str,
    location: str,
    created_at: int,
    log_start: int = 0,
    published: int = -1,
) -> None:
    """Make a table known by its name and location."""
    session.execute(
        insert(tables).values(
            table_id=table_id,
            name=name,
            location=location,
            created_at=created_at,
            mirror_paused=False,
            log_start=log_start,
            history_start=log_start,
            published_version=published,
        )
    )


def in_store(prefix: str) -> ColumnElement[bool]:
    """Whether the location of a table begins like this."""
    return func.substr(tables.c.location, 1, len(prefix)) == prefix


def _info(row: Row[Any]) -> TableInfo:
    published = row.published_version
    return TableInfo(
        id=row.table_id,
        name=row.name,
        location=row.location,
        state=MirrorState.of(
            quarantined=row.quarantined_at is not None, paused=row.mirror_paused, is_on=bool(row.is_on)
        ),
        head=row.version,
        head_timestamp=row.committed_at,
        published=None if published < 0 else published,
        log_start=row.log_start,
        history_start=row.history_start,
        created_at=row.created_at,
    )
