"""Numbered migrations: an empty database, or one with an older schema of ours, becomes the current one."""

from collections.abc import Callable

from sqlalchemy import Connection, inspect, select, text

from deltamirror.errors import CatalogMismatch
from deltamirror.txnlog.database import Database, Session
from deltamirror.txnlog.postgres_append import CREATE_APPEND_FUNCTION
from deltamirror.txnlog.schema import CREATE_FILE_INTERVALS, METADATA, catalog

__all__ = ["SCHEMA_VERSION", "migrate", "require_current"]

_VERSION_KEY = "schema_version"
_MARK_KEY = "application"
_MARK = "deltamirror"


def _create_tables(session: Session, database: Database) -> None:
    METADATA.create_all(session.connection)
    session.execute(text(CREATE_FILE_INTERVALS))
    if database.name == "postgresql":
        session.execute(text(CREATE_APPEND_FUNCTION))


_MIGRATIONS: tuple[Callable[[Session, Database], None], ...] = (_create_tables,)

SCHEMA_VERSION = len(_MIGRATIONS)


def migrate(database: Database) -> int:
    """Bring the schema up to date and return its version; without effect where it is. Foreign tables are refused."""
    with database.write(creating=True) as session:
        session.lock_migrations()
        found = _stored_version(session.connection)
        if found > SCHEMA_VERSION:
            raise _newer(found)
        for migration in _MIGRATIONS[found:]:
            migration(session, database)
        if found < SCHEMA_VERSION:
            _store_version(session)
    return SCHEMA_VERSION


def require_current(database: Database) -> None:
    """Refuse a database that has no catalog, an older one, or a newer one."""
    with database.read() as connection:
        found = _stored_version(connection)
    if found > SCHEMA_VERSION:
        raise _newer(found)
    if found < SCHEMA_VERSION:
        what = "no deltamirror catalog" if found == 0 else f"a catalog of schema version {found}"
        raise CatalogMismatch(f"the database holds {what}", hint="run `deltamirror init`")


def _stored_version(connection: Connection) -> int:
    """The version of the schema that is there; 0 for none. Raises where our names belong to somebody else."""
    present = {name for name in inspect(connection).get_table_names() if name in METADATA.tables}
    if not present:
        return 0
    if catalog.name not in present:
        raise _foreign(present)
    columns = set(connection.execute(text(f"SELECT * FROM {catalog.name} LIMIT 0")).keys())  # noqa: S608 - our own name
    if columns != {"key", "value"}:
        raise _foreign({catalog.name})
    facts = {row.key: row.value for row in connection.execute(select(catalog))}
    if facts.get(_MARK_KEY) != _MARK or not str(facts.get(_VERSION_KEY, "")).isdigit():
        raise _foreign({catalog.name})
    return int(facts[_VERSION_KEY])


def _store_version(session: Session) -> None:
    session.execute(catalog.delete())
    session.execute(
        catalog.insert(), [{"key": _MARK_KEY, "value": _MARK}, {"key": _VERSION_KEY, "value": str(SCHEMA_VERSION)}]
    )


def _newer(found: int) -> CatalogMismatch:
    return CatalogMismatch(
        f"the catalog has schema version {found}; this release of deltamirror knows {SCHEMA_VERSION}",
        hint="upgrade deltamirror",
    )


def _foreign(names: set[str]) -> CatalogMismatch:
    return CatalogMismatch(
        f"the database has tables of our names that are not ours: {', '.join(sorted(names))}",
        hint="give deltamirror a database or schema of its own",
    )
