"""Mirroring, switched off and on for all tables at once. Commits go on; they wait to be published."""

from sqlalchemy import Connection, delete, exists

from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.database.schema import catalog
from deltamirror.txnlog.database.upsert import upsert

_KEY = "mirror_paused"

ALL_PAUSED = exists().where(catalog.c.key == _KEY)
"""Whether no table is mirrored, as part of a query."""


def pause_all(database: Database) -> None:
    """Stop mirroring every table. Units under way are finished."""
    with database.write() as session:
        session.execute(upsert(catalog).values(key=_KEY, value="true").on_conflict_do_nothing())


def resume_all(database: Database) -> None:
    """Mirror again; tables that were paused one by one stay paused."""
    with database.write() as session:
        session.execute(delete(catalog).where(catalog.c.key == _KEY))
    database.announce()


def is_paused(connection: Connection) -> bool:
    """Whether mirroring is switched off for all tables."""
    return bool(connection.execute(ALL_PAUSED.select()).scalar_one())
