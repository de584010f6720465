"""Commit-to-visible times of versions, counted in SQL: one row a table, window and time, whatever the history is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, and_, case, func, literal, or_, select
from sqlalchemy.sql import ColumnElement

from deltamirror.config import Switch
from deltamirror.txnlog.access.patterns import ALL_TABLES, TablePattern
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.schema import heads, mirror_status, tables, versions
from deltamirror.txnlog.tables.switch import is_switched_on
from deltamirror.work import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleCount:
    """So many versions of a table became visible within this time, or wait for so long."""

    table: str
    window: int
    """The place of the shortest window that they belong to."""
    waiting: bool
    """They are not published: the time is their age."""
    milliseconds: int
    """Rounded up to two significant digits."""
    versions: int


def visible_counts(
    connection: Connection,
    windows_ms: Sequence[int],
    switch: Switch,
    *,
    table_id: int | None = None,
    visible: TablePattern = ALL_TABLES,
    by_table: bool = True,
) -> list[VisibleCount]:
    """The versions that became visible within the longest window, and all that wait; by one query.

    Versions that wait belong to every window, whatever keeps them (paused and quarantined tables, too), but for those
    of tables that ``switch`` disables. Imported versions, which other writers published, do not count, nor do those of
    tables that are not ``visible``. Without ``by_table`` the table of every row is empty.
    """
    s = mirror_status.c
    waits = s.version > tables.c.published_version
    is_late = or_(is_switched_on(switch), tables.c.quarantined_at.is_not(None))
    name: ColumnElement[Any] = tables.c.name if by_table else literal("")
    by_us = and_(s.state == Status.SUCCESS, s.attempts > 0, s.published_at > CLOCK - max(windows_ms))
    window = case((waits, 0), *[(s.published_at > CLOCK - ms, index) for index, ms in enumerate(windows_ms)], else_=0)
    age = case((waits, CLOCK - versions.c.committed_at), else_=s.published_at - versions.c.committed_at)
    same = and_(versions.c.table_id == s.table_id, versions.c.version == s.version)
    each = (
        select(name.label("name"), window.label("window_index"), waits.label("waits"), _rounded_up(age).label("ms"))
        .select_from(mirror_status)
        .join(tables, tables.c.table_id == s.table_id)
        .join(heads, heads.c.table_id == s.table_id)
        .join(versions, same)
        .where(tables.c.name.is_not(None), or_(and_(waits, is_late), by_us))
        .where(visible.clause(tables.c.name, connection.dialect.name))
    )
    if table_id is not None:
        each = each.where(tables.c.table_id == table_id)
    found = each.subquery().c
    keys = (found.name, found.window_index, found.waits, found.ms)
    rows = connection.execute(select(*keys, func.count().label("versions")).group_by(*keys))
    return [
        VisibleCount(
            table=row.name,
            window=row.window_index,
            waiting=bool(row.waits),
            milliseconds=max(int(row.ms), 0),
            versions=row.versions,
        )
        for row in rows
    ]


_DIGITS: Final = range(2, 13)


def _rounded_up(number: ColumnElement[Any]) -> ColumnElement[Any]:
    """To two significant digits, by arithmetic that all engines have."""
    small = (number <= 100, number)
    steps = [(10 ** (digits + 1), 10 ** (digits - 1)) for digits in _DIGITS]
    return case(
        small, *[(number <= bound, number + (step - number % step) % step) for bound, step in steps], else_=number
    )
