"""What the database records of a table beside its versions, held against them: its head, and how far it is published.

Only what the rows of one moment contradict: which of two records is right, the lines do not say.
"""

from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Connection, Table, func, select
from sqlalchemy.engine import Row
from sqlalchemy.sql import Select
from sqlalchemy.sql.expression import ScalarSelect

from deltamirror.txnlog.content.row_differences import NO_ROW, ROW, RowDifference, difference
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.database.schema import heads, metadata, mirror_status, protocols, tables, versions
from deltamirror.work import Status

_REPAIR: Final = "`deltamirror repair {table}` ends what an earlier look at its log left behind"
_MOST_MISSING: Final = 100


def record_differences(database: Database, table_id: int, *, is_foreign: bool) -> Iterator[RowDifference]:
    """Where records contradict versions; ``is_foreign`` says whether there are foreign commits in the log."""
    with database.read() as connection:
        row = connection.execute(_RECORDS.where(heads.c.table_id == table_id)).one()
        yield from _of_head(row, is_foreign=is_foreign)
        yield from _without_status(connection, row)
        yield from _of_publishing(connection, row)


def _newest(source: Table) -> ScalarSelect[Any]:
    return select(func.max(source.c.version)).where(source.c.table_id == heads.c.table_id).scalar_subquery()


_NEWEST_AT: Final = (
    select(versions.c.committed_at)
    .where(versions.c.table_id == heads.c.table_id)
    .order_by(versions.c.version.desc())
    .limit(1)
    .scalar_subquery()
)
_RECORDS: Final[Select[Any]] = select(
    heads,
    tables.c.log_start,
    tables.c.history_start,
    tables.c.published_version,
    _newest(versions).label("newest"),
    _NEWEST_AT.label("newest_at"),
    _newest(metadata).label("newest_metadata"),
    _newest(protocols).label("newest_protocol"),
).join(tables, tables.c.table_id == heads.c.table_id)


def _of_head(row: Row[Any], *, is_foreign: bool) -> Iterator[RowDifference]:
    for column, expected in (
        ("version", row.newest),
        ("committed_at", row.newest_at),
        ("metadata_version", row.newest_metadata),
        ("protocol_version", row.newest_protocol),
    ):
        if (found := getattr(row, column)) != expected:
            yield difference(heads, row.version, column, expected, found)
    if row.diverged_version is not None and not is_foreign:
        found = row.diverged_version
        yield difference(heads, found, "diverged_version", None, found, remedy=_REPAIR)


def _without_status(connection: Connection, row: Row[Any]) -> Iterator[RowDifference]:
    """Versions that the mirror does not know."""
    v, s = versions.c, mirror_status.c
    first = max(row.log_start, row.history_start)
    query = (
        select(v.version)
        .outerjoin(mirror_status, (s.table_id == v.table_id) & (s.version == v.version))
        .where(v.table_id == row.table_id, v.version >= first, s.version.is_(None))
    )
    for version in connection.execute(query.order_by(v.version).limit(_MOST_MISSING)).scalars():
        yield difference(mirror_status, version, "version", ROW, NO_ROW)


def _of_publishing(connection: Connection, row: Row[Any]) -> Iterator[RowDifference]:
    """A table is published up to before the first version that is not SUCCESS."""
    s = mirror_status.c
    waiting = select(func.min(s.version)).where(
        s.table_id == row.table_id, s.version >= row.log_start, s.state != Status.SUCCESS
    )
    first = connection.execute(waiting).scalar_one()
    expected = row.newest if first is None else first - 1
    if row.published_version != expected:
        yield difference(tables, row.published_version, "published_version", expected, row.published_version)
