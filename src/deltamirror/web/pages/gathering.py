"""What the pages show, gathered from the database: each page from one snapshot, with a bounded number of queries."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from deltamirror.config import Switch
from deltamirror.errors import DeltaMirrorError, NotFound
from deltamirror.ops.report import TableReport, report_on
from deltamirror.txnlog.access.patterns import TablePattern
from deltamirror.txnlog.alerts.records import AlertKey, AlertRow, firing_alerts
from deltamirror.txnlog.alerts.silences import Silence, active_silences
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.backlog import count_files
from deltamirror.txnlog.queue.breakers import Breaker, BreakerState, all_breakers
from deltamirror.txnlog.queue.overview import Show, Sort, TablesPage, Totals, Wanted, tables_page, totals
from deltamirror.txnlog.queue.status import Attempt, TableStatus, latest_attempts, table_status
from deltamirror.txnlog.queue.table_records import (
    CheckpointRecord,
    LastComparison,
    VersionRecord,
    checkpoints_of,
    compared,
    lags_since,
    recent_lags,
    versions_of,
)
from deltamirror.web.pages.pictures import Chart, Sparkline, chart_of, sparkline_of

_SPARK_VERSIONS: Final = 40
_CHART_VERSIONS: Final = 300
_FAILURES: Final = 6
_ALERTS: Final = 50
_ALERTS_READ: Final = 5_000
"""Of these, a reader of some tables is shown theirs."""
_SILENCES: Final = 50
_ATTEMPTS: Final = 12
_CHECKPOINTS: Final = 8
_VERSIONS: Final = 20

WINDOWS: Final[Mapping[str, int]] = {
    "15min": 900_000,
    "1h": 3_600_000,
    "24h": 86_400_000,
    "7d": 604_800_000,
}
"""How far back the picture of a table goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """All tables."""

    now: int
    totals: Totals
    wanted: Wanted
    found: TablesPage
    failures: tuple[TableStatus, ...]
    """The first few that need attention."""
    sparklines: Mapping[int, Sparkline]
    stores: tuple[Breaker, ...]
    """All that something happened to; none for a reader who may not see all tables."""
    alerts: tuple[AlertRow, ...]
    """The newest that fire; of stores and channels for a reader of all tables only."""
    silenced_until: Mapping[AlertKey, int]
    """Of these alerts, until when no notification is sent."""
    silences: tuple[Silence, ...]
    """The first to end; for a reader of some tables, those of one of these tables."""

    @property
    def shut_stores(self) -> int:
        """How many circuits are not closed."""
        return sum(store.state is not BreakerState.CLOSED for store in self.stores)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView:
    """One table."""

    now: int
    status: TableStatus
    chart: Chart
    window: str
    versions: tuple[VersionRecord, ...]
    older: int | None
    """Before which version the next page goes on; None: there is none."""
    attempts: tuple[Attempt, ...]
    checkpoints: tuple[CheckpointRecord, ...]
    compared: LastComparison
    files: int
    silences: tuple[Silence, ...]
    """Those of this table alone."""


def now_ms() -> int:
    """The time of this process."""
    return time.time_ns() // 1_000_000


def overview(database: Database, wanted: Wanted, switch: Switch) -> Overview:
    """All tables that a reader may see, one page of them in detail."""
    with database.read() as connection:
        counted = totals(connection, wanted.visible, switch)
        found = tables_page(connection, wanted, switch)
        troubled = replace(wanted, search="", show=Show.FAILING, sort=Sort.ATTENTION, page=1, size=_FAILURES)
        failures = tables_page(connection, troubled, switch).tables if counted.failing else ()
        lags = recent_lags(connection, [table.table_id for table in found.tables], count=_SPARK_VERSIONS)
        stores = tuple(all_breakers(connection)) if wanted.visible.covers_all else ()
        firing = firing_alerts(connection, limit=_ALERTS if wanted.visible.covers_all else _ALERTS_READ)
        alerts = tuple(each for each in firing if _may_see(wanted.visible, each))[:_ALERTS]
        quiet = active_silences(connection)
    now = now_ms()
    sparklines = {
        table.table_id: sparkline_of(lags[table.table_id], waiting_ms=_waiting_ms(table), now=now)
        for table in found.tables
    }
    return Overview(
        now=now,
        totals=counted,
        wanted=replace(wanted, page=found.page),
        found=found,
        failures=failures,
        sparklines=sparklines,
        stores=stores,
        alerts=alerts,
        silenced_until=_silenced_until(alerts, quiet),
        silences=tuple(each for each in quiet if _may_see_silence(wanted.visible, each))[:_SILENCES],
    )


def table_view(
    database: Database, name: str, visible: TablePattern, switch: Switch, *, before: int | None, window: str
) -> TableView:
    """One table, with a page of its versions."""
    now = now_ms()
    since = now - WINDOWS[window]
    with database.read() as connection:
        with _without_other_names(visible):
            status = table_status(connection, _seen(name, visible), switch)
        key = status.table_id
        page = versions_of(connection, key, before=before, limit=_VERSIONS + 1)
        return TableView(
            now=now,
            status=status,
            chart=chart_of(lags_since(connection, key, since=since, count=_CHART_VERSIONS), since=since, now=now),
            window=window,
            versions=tuple(page[:_VERSIONS]),
            older=page[_VERSIONS - 1].version if len(page) > _VERSIONS else None,
            attempts=tuple(latest_attempts(connection, key, limit=_ATTEMPTS)),
            checkpoints=tuple(checkpoints_of(connection, key, limit=_CHECKPOINTS)),
            compared=compared(connection, key),
            files=count_files(connection, key, status.head),
            silences=tuple(each for each in active_silences(connection) if each.only_subject == name)[:_SILENCES],
        )


def failure_view(database: Database, name: str, visible: TablePattern, switch: Switch, version: int) -> TableReport:
    """What failed at one version of a table."""
    with _without_other_names(visible):
        return report_on(database, _seen(name, visible), version, switch=switch)


def _waiting_ms(table: TableStatus) -> int:
    """How long versions wait that should not."""
    return 0 if table.is_disabled else table.lag_ms


def _may_see(visible: TablePattern, alert: AlertRow) -> bool:
    return visible.covers_all or (alert.scope == "table" and visible.covers(alert.subject))


def _may_see_silence(visible: TablePattern, silence: Silence) -> bool:
    return visible.covers_all or (silence.only_subject is not None and visible.covers(silence.only_subject))


def _silenced_until(alerts: Sequence[AlertRow], quiet: Sequence[Silence]) -> dict[AlertKey, int]:
    ends = {alert.key: max((each.ends_at for each in quiet if each.covers(alert.key)), default=0) for alert in alerts}
    return {key: end for key, end in ends.items() if end}


@contextmanager
def _without_other_names(visible: TablePattern) -> Iterator[None]:
    try:
        yield
    except NotFound as error:
        raise for_reader(error, visible) from None


def for_reader(error: DeltaMirrorError, visible: TablePattern) -> DeltaMirrorError:
    """The error without the names of near tables, where a reader may not see all."""
    if isinstance(error, NotFound) and not visible.covers_all:
        return NotFound(error.message, hint="the overview lists the tables")
    return error


def _seen(name: str, visible: TablePattern) -> str:
    """The name of a table that a reader may see; for others there is none."""
    if not visible.covers(name):
        raise NotFound(f"there is no table {name!r}", hint="the overview lists the tables", table=name)
    return name
