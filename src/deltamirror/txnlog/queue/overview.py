"""All tables at once, however many: searched, sorted and paged by the database, with a few queries a page."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, assert_never

from sqlalchemy import Connection, case, func, select, true
from sqlalchemy.sql import ColumnElement, Select

from deltamirror.config import Switch
from deltamirror.txnlog.access.patterns import ALL_TABLES, TablePattern
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.schema import checkpoints, escalations, heads, mirror_status, tables, versions
from deltamirror.txnlog.queue.pause import ALL_PAUSED
from deltamirror.txnlog.queue.status import TableStatus, status_of
from deltamirror.txnlog.tables.switch import is_switched_on
from deltamirror.work import Status

_ALL_ON: Final = Switch()


class Show(StrEnum):
    """Which tables are listed."""

    ALL = "all"
    FAILING = "failing"  # quarantined, or the next version or the newest checkpoint failed
    WAITING = "waiting"  # with versions that are not published
    PAUSED = "paused"
    DISABLED = "disabled"  # switched off by settings
    QUARANTINED = "quarantined"


class Sort(StrEnum):
    """In which order; ties by name."""

    ATTENTION = "attention"  # quarantined, failing, waiting, the others; the longest wait first
    NAME = "name"
    LAG = "lag"
    BACKLOG = "backlog"
    COMMITTED = "committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A part of the tables."""

    search: str = ""
    """What their names contain, whatever the case."""
    show: Show = Show.ALL
    sort: Sort = Sort.ATTENTION
    page: int = 1
    """Counted from 1; the last one where there are fewer."""
    size: int = 25
    visible: TablePattern = ALL_TABLES
    """The tables that the reader may see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesPage:
    """One page of tables."""

    tables: tuple[TableStatus, ...]
    matching: int
    """How many tables are meant, on all pages."""
    page: int
    pages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The tables that a reader may see, counted."""

    tables: int
    backlog: int
    """Versions that are committed and not published; those of disabled tables wait on purpose, and do not count."""
    oldest_ms: int
    """How long ago the oldest of them was committed; 0: there is none."""
    waiting: int
    """Tables with such versions."""
    failing: int
    """Tables that are quarantined, or whose next version or newest checkpoint failed."""
    quarantined: int
    paused: int
    disabled: int
    """Tables that settings switch off."""
    escalations: int
    """Versions and checkpoints that an operator has to look at."""
    all_paused: bool


def totals(connection: Connection, visible: TablePattern = ALL_TABLES, switch: Switch = _ALL_ON) -> Totals:
    """Count the tables that a reader may see; ``switch`` says which ones settings switch off."""
    seen = visible.clause(tables.c.name, connection.dialect.name)
    row = connection.execute(_joined(select(*_numbers(switch))).where(seen)).one()
    told = select(func.count()).select_from(escalations).join(tables, escalations.c.table_id == tables.c.table_id)
    open_ones = told.where(escalations.c.closed_at.is_(None), tables.c.name.is_not(None), seen)
    return Totals(
        tables=row.num_tables,
        backlog=int(row.backlog or 0),
        oldest_ms=max(int(row.oldest or 0), 0),
        waiting=int(row.waiting or 0),
        failing=int(row.failing or 0),
        quarantined=int(row.quarantined or 0),
        paused=int(row.paused or 0),
        disabled=int(row.disabled or 0),
        escalations=connection.execute(open_ones).scalar_one(),
        all_paused=bool(connection.execute(ALL_PAUSED.select()).scalar_one()),
    )


def tables_page(connection: Connection, wanted: Wanted, switch: Switch = _ALL_ON) -> TablesPage:
    """One page of the tables that are wanted."""
    where = _matching(wanted, switch, connection.dialect.name)
    matching = int(connection.execute(_joined(select(func.count())).where(where)).scalar_one())
    pages = max(-(-matching // wanted.size), 1)
    page = min(wanted.page, pages)
    ordered = _joined(select(tables.c.table_id)).where(where).order_by(*_order(wanted.sort, switch), tables.c.name)
    found = connection.execute(ordered.limit(wanted.size).offset((page - 1) * wanted.size)).scalars().all()
    return TablesPage(tables=tuple(status_of(connection, found, switch)), matching=matching, page=page, pages=pages)


_FIRST_VERSION: Final = (versions.c.table_id == tables.c.table_id) & (
    versions.c.version == tables.c.published_version + 1
)
_FIRST_STATUS: Final = (mirror_status.c.table_id == tables.c.table_id) & (
    mirror_status.c.version == tables.c.published_version + 1
)


def _joined(query: Select[Any]) -> Select[Any]:
    """A query of tables, each with its head and with the first version that is not published."""
    return (
        query.select_from(tables)
        .join(heads, heads.c.table_id == tables.c.table_id)
        .outerjoin(versions, _FIRST_VERSION)
        .outerjoin(mirror_status, _FIRST_STATUS)
    )


_BACKLOG: Final = heads.c.version - tables.c.published_version
_QUARANTINED: Final = tables.c.quarantined_at.is_not(None)
_CHECKPOINT_STATE: Final = (
    select(checkpoints.c.state)
    .where(checkpoints.c.table_id == tables.c.table_id, checkpoints.c.version <= tables.c.published_version)
    .order_by(checkpoints.c.version.desc())
    .limit(1)
    .correlate(tables)
    .scalar_subquery()
)
_FAILS: Final = (func.coalesce(mirror_status.c.state, "") == Status.FAILED) | (
    func.coalesce(_CHECKPOINT_STATE, "") == Status.FAILED
)


def _count(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.sum(case((condition, 1), else_=0))


def _disabled(switch: Switch) -> ColumnElement[bool]:
    """As ``MirrorState`` has it: quarantine goes before."""
    return ~is_switched_on(switch) & ~_QUARANTINED


def _waits(switch: Switch) -> ColumnElement[bool]:
    return (_BACKLOG > 0) & ~_disabled(switch)


def _is_failing(switch: Switch) -> ColumnElement[bool]:
    return _QUARANTINED | (_FAILS & ~_disabled(switch))


def _numbers(switch: Switch) -> tuple[ColumnElement[Any], ...]:
    waits = _waits(switch)
    return (
        func.count().label("num_tables"),
        func.sum(case((waits, _BACKLOG), else_=0)).label("backlog"),
        func.max(case((waits, CLOCK - versions.c.committed_at), else_=None)).label("oldest"),
        _count(waits).label("waiting"),
        _count(_is_failing(switch)).label("failing"),
        _count(_QUARANTINED).label("quarantined"),
        _count(tables.c.mirror_paused).label("paused"),
        _count(_disabled(switch)).label("disabled"),
    )


def _shown(show: Show, switch: Switch) -> ColumnElement[bool]:
    match show:
        case Show.ALL:
            return true()
        case Show.FAILING:
            return _is_failing(switch)
        case Show.WAITING:
            return _waits(switch)
        case Show.PAUSED:
            return tables.c.mirror_paused
        case Show.DISABLED:
            return _disabled(switch)
        case Show.QUARANTINED:
            return _QUARANTINED
    assert_never(show)


def _order(sort: Sort, switch: Switch) -> tuple[ColumnElement[Any], ...]:
    """Disabled tables come last where the wait decides."""
    waited = _disabled(switch), versions.c.committed_at.asc().nulls_last()
    match sort:
        case Sort.ATTENTION:
            return case((_QUARANTINED, 0), (_is_failing(switch), 1), (_waits(switch), 2), else_=3), *waited
        case Sort.NAME:
            return ()
        case Sort.LAG:
            return waited
        case Sort.BACKLOG:
            return _disabled(switch), _BACKLOG.desc()
        case Sort.COMMITTED:
            return (heads.c.committed_at.desc(),)
    assert_never(sort)


def _matching(wanted: Wanted, switch: Switch, dialect: str) -> ColumnElement[bool]:
    named = tables.c.name.icontains(wanted.search, autoescape=True) if wanted.search else true()
    return named & _shown(wanted.show, switch) & wanted.visible.clause(tables.c.name, dialect)
