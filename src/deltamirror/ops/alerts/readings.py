"""What the rules are evaluated for: tables, stores, channels and the catalog, each with the values of its metrics."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from deltamirror.config import AlertChannel, Scope, Switch
from deltamirror.storage.location import store_prefix
from deltamirror.txnlog.alerts.deliveries import Undelivered, undelivered
from deltamirror.txnlog.alerts.records import AlertRow, known_alerts
from deltamirror.txnlog.alerts.silences import Silence, active_silences
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.database.clock import time_of
from deltamirror.txnlog.queue.attempts import findings_within
from deltamirror.txnlog.queue.breakers import Breaker, BreakerState, all_breakers
from deltamirror.txnlog.queue.status import TableStatus, all_status
from deltamirror.txnlog.tables.registry import MirrorState

DRIFT_WINDOW: Final = 3600
"""For how many seconds an object that was found missing or altered counts."""

_CIRCUITS: Final = {BreakerState.CLOSED: 0.0, BreakerState.HALF_OPEN: 1.0, BreakerState.OPEN: 2.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The metrics of a subject at a moment; those of what it is part of are among them."""

    scope: Scope
    subject: str
    values: Mapping[str, float] = field(default_factory=dict)
    table: TableStatus | None = None
    breaker: Breaker | None = None
    """Of the store, or of the table's store."""
    channel: Undelivered | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What SQL holds at one moment, as far as rules go by it."""

    at: int
    readings: tuple[Reading, ...]
    known: tuple[AlertRow, ...]
    silences: tuple[Silence, ...]


def observe(database: Database, channels: Sequence[AlertChannel], switch: Switch) -> Observation:
    """The metrics of everything, by a number of queries that does not depend on the number of tables.

    Versions of tables that ``switch`` disables wait on purpose: they are not late, and no backlog.
    """
    with database.read() as connection:
        tables = all_status(connection, switch)
        breakers = {store_prefix(each.store): each for each in all_breakers(connection)}
        found = findings_within(connection, DRIFT_WINDOW * 1000)
        failing = {each.channel: each for each in undelivered(connection)}
        known, silences = known_alerts(connection), active_silences(connection)
        at = time_of(connection)
    catalog = _catalog_values(tables)
    readings = (
        Reading(scope="catalog", subject="", values=catalog),
        *_channels(channels, failing, catalog),
        *(_store(breaker, catalog) for breaker in breakers.values()),
        *_tables(tables, breakers, found, catalog),
    )
    return Observation(at=at, readings=readings, known=tuple(known), silences=tuple(silences))


def _catalog_values(tables: Sequence[TableStatus]) -> dict[str, float]:
    backlog = sum(table.lag_versions for table in tables if not table.is_disabled)
    return {"backlog_versions": float(backlog), "no_progress_seconds": _no_progress(tables)}


def _no_progress(tables: Sequence[TableStatus]) -> float:
    """How long versions of active tables wait while nothing at all is published; 0 where none waits."""
    waiting = [table.lag_ms for table in tables if table.lag_versions > 0 and table.state is MirrorState.ACTIVE]
    published = [table.since_published_ms for table in tables if table.since_published_ms is not None]
    return min([max(waiting), *published]) / 1000 if waiting else 0.0


def _channels(
    channels: Sequence[AlertChannel], failing: Mapping[str, Undelivered], catalog: Mapping[str, float]
) -> Iterator[Reading]:
    for channel in channels:
        bad = failing.get(channel.name)
        values = {**catalog, "delivery_attempts": 0.0 if bad is None else float(bad.attempts)}
        yield Reading(scope="channel", subject=channel.name, values=values, channel=bad)


def _store(breaker: Breaker, catalog: Mapping[str, float]) -> Reading:
    values = {**catalog, "circuit_state": _CIRCUITS[breaker.state]}
    return Reading(scope="store", subject=breaker.store, values=values, breaker=breaker)


def _tables(
    tables: Sequence[TableStatus],
    breakers: Mapping[str, Breaker],
    found: Mapping[int, int],
    catalog: Mapping[str, float],
) -> Iterator[Reading]:
    for table in tables:
        breaker = breakers.get(store_prefix(table.location))
        circuit = {"circuit_state": 0.0 if breaker is None else _CIRCUITS[breaker.state]}
        values = {**catalog, **circuit, **_table_values(table, found.get(table.table_id, 0))}
        yield Reading(scope="table", subject=table.name, values=values, table=table, breaker=breaker)


def _table_values(table: TableStatus, drift: int) -> dict[str, float]:
    return {
        "lag_seconds": 0.0 if table.is_disabled else table.lag_ms / 1000,
        "lag_versions": 0.0 if table.is_disabled else float(table.lag_versions),
        "stalled_seconds": _stalled(table),
        "failed_versions": float(table.failed),
        "escalations": float(table.escalations),
        "quarantined": float(table.quarantined_at is not None),
        "paused": float(table.state is MirrorState.PAUSED),
        "drift_objects": float(drift),
        "checkpoint_age_versions": _checkpoint_age(table),
    }


def _stalled(table: TableStatus) -> float:
    """How long nothing of a table was published though versions wait; 0 where none does, or on purpose."""
    if table.lag_versions <= 0 or table.is_disabled:
        return 0.0
    since = table.lag_ms if table.since_published_ms is None else min(table.lag_ms, table.since_published_ms)
    return since / 1000


def _checkpoint_age(table: TableStatus) -> float:
    """How many versions are published since the newest checkpoint, or since the log starts."""
    if table.published is None:
        return 0.0
    newest = table.log_start if table.checkpoint is None else table.checkpoint.version
    return float(max(table.published - newest, 0))
