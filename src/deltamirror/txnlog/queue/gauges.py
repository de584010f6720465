"""The state of all mirrors in numbers, for metrics: as many queries for ten thousand tables as for one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select
from sqlalchemy.engine import Row
from sqlalchemy.sql import ColumnElement, Select

from deltamirror.config import Switch
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.schema import (
    alerts,
    breakers,
    checkpoints,
    escalations,
    heads,
    leases,
    tables,
    versions,
)
from deltamirror.txnlog.queue.status import lag_ms, with_lag
from deltamirror.txnlog.tables.switch import is_switched_on
from deltamirror.work import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class TableGauges:
    """The numbers of one table."""

    name: str
    lag_ms: int
    """0 for a table that settings switch off, as ``lag_versions``: its versions wait on purpose."""
    lag_versions: int
    is_quarantined: bool
    checkpoint_age: int
    """How many published versions there are behind the newest checkpoint; without one, all."""
    bytes_behind: int
    """How many bytes of commits a reader has to read after that checkpoint."""
    active_files: int
    """Files of that checkpoint, and those that were added since, without those that were removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorGauges:
    """The numbers of a catalog."""

    tables: tuple[TableGauges, ...]
    leases: Mapping[str, int]
    """How many are held, by lane."""
    circuits: Mapping[str, str]
    """The state of each store to which something happened."""
    escalations: int
    firing: Mapping[str, int]
    """How many alerts fire, by severity."""


def mirror_gauges(connection: Connection, switch: Switch) -> MirrorGauges:
    """All tables by name, and what they have in common; ``switch`` says which ones settings switch off."""
    behind = {row.table_id: row for row in connection.execute(_BEHIND)}
    rows = connection.execute(_LAGS.add_columns(is_switched_on(switch).label("is_on")))
    return MirrorGauges(
        tables=tuple(_table(row, behind[row.table_id]) for row in rows if row.table_id in behind),
        leases={row.lane: row.held for row in connection.execute(_LEASES)},
        circuits={row.store: row.state for row in connection.execute(select(breakers.c.store, breakers.c.state))},
        escalations=int(connection.execute(_ESCALATIONS).scalar_one()),
        firing={row.severity: row.number for row in connection.execute(_FIRING)},
    )


def _newest_checkpoint() -> ColumnElement[Any]:
    c = checkpoints.c
    own = (c.table_id == tables.c.table_id) & (c.state == Status.SUCCESS) & (c.version <= tables.c.published_version)
    return select(func.max(c.version)).where(own).correlate(tables).scalar_subquery()


_LAGS = with_lag(
    select(
        tables.c.table_id,
        tables.c.name,
        tables.c.published_version,
        tables.c.quarantined_at,
        heads.c.version.label("head"),
    )
).order_by(tables.c.name)

_CHECKPOINTED = (
    select(tables.c.table_id, tables.c.published_version, _newest_checkpoint().label("checkpoint"))
    .where(tables.c.name.is_not(None))
    .subquery("checkpointed")
)


def _since_checkpoint(what: ColumnElement[Any], *, published: bool) -> ColumnElement[Any]:
    """A sum over the versions behind the newest checkpoint; as a query for each table it reads these only."""
    own, newest = versions.c.table_id == _CHECKPOINTED.c.table_id, func.coalesce(_CHECKPOINTED.c.checkpoint, -1)
    query = select(func.coalesce(func.sum(what), 0)).where(own, versions.c.version > newest)
    if published:
        query = query.where(versions.c.version <= _CHECKPOINTED.c.published_version)
    return query.correlate(_CHECKPOINTED).scalar_subquery()


_BEHIND: Select[Any] = select(
    _CHECKPOINTED.c.table_id,
    _CHECKPOINTED.c.checkpoint,
    checkpoints.c.num_files,
    _since_checkpoint(versions.c.num_bytes, published=True).label("num_bytes"),
    _since_checkpoint(versions.c.num_added - versions.c.num_removed, published=False).label("num_added"),
).outerjoin(
    checkpoints,
    (checkpoints.c.table_id == _CHECKPOINTED.c.table_id) & (checkpoints.c.version == _CHECKPOINTED.c.checkpoint),
)

_LEASES = select(leases.c.lane, func.count().label("held")).where(leases.c.expires_at > CLOCK).group_by(leases.c.lane)

_FIRING = (
    select(alerts.c.severity, func.count().label("number"))
    .where(alerts.c.state == "firing")
    .group_by(alerts.c.severity)
)
_ESCALATIONS = (
    select(func.count())
    .select_from(escalations)
    .join(tables, tables.c.table_id == escalations.c.table_id)
    .where(escalations.c.closed_at.is_(None), tables.c.name.is_not(None))
)


def _table(row: Row[Any], behind: Row[Any]) -> TableGauges:
    checkpoint = -1 if behind.checkpoint is None else behind.checkpoint
    is_quarantined = row.quarantined_at is not None
    is_disabled = not (row.is_on or is_quarantined)
    return TableGauges(
        name=row.name,
        lag_ms=0 if is_disabled else lag_ms(row),
        lag_versions=0 if is_disabled else row.head - row.published_version,
        is_quarantined=is_quarantined,
        checkpoint_age=max(0, row.published_version - checkpoint),
        bytes_behind=int(behind.num_bytes),
        active_files=int((behind.num_files or 0) + behind.num_added),
    )
