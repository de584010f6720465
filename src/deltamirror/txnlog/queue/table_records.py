"""The records of one table, page by page: its versions, how late each was visible, and its checkpoints."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select
from sqlalchemy.engine import Row
from sqlalchemy.sql import Select

from deltamirror.txnlog.database.schema import checkpoints, mirror_status, reconciliations, tables, versions
from deltamirror.txnlog.queue.status import published_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """How long after its commit a version was visible."""

    version: int
    committed_at: int
    milliseconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRecord:
    """A version of a table, and its state in the mirror."""

    version: int
    committed_at: int
    operation: str | None
    kind: str
    num_added: int
    num_removed: int
    num_bytes: int
    state: str
    attempts: int
    published_at: int | None
    next_attempt_at: int | None
    error_code: str | None

    @property
    def lag_ms(self) -> int | None:
        """How long after its commit it was visible; None while it is not."""
        return None if self.published_at is None else max(self.published_at - self.committed_at, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecord:
    """A checkpoint that was asked for."""

    version: int
    state: str
    reason: str
    created_at: int
    updated_at: int
    attempts: int
    num_files: int | None
    num_bytes: int | None
    milliseconds: int | None
    error_code: str | None
    error_message: str | None
    next_attempt_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LastComparison:
    """When the log of a table was last compared with the database."""

    reconciled_at: int | None
    full_at: int | None
    """When every object of it was."""


def versions_of(connection: Connection, table_id: int, *, before: int | None, limit: int) -> list[VersionRecord]:
    """The newest versions of a table, or the newest before one; the newest first."""
    query = _VERSIONS.where(versions.c.table_id == table_id).order_by(versions.c.version.desc()).limit(limit)
    if before is not None:
        query = query.where(versions.c.version < before)
    return [VersionRecord(**row._asdict()) for row in connection.execute(query)]


def checkpoints_of(connection: Connection, table_id: int, *, limit: int) -> list[CheckpointRecord]:
    """The newest checkpoints that were asked for, the newest first."""
    columns = [checkpoints.c[name] for name in CheckpointRecord.__dataclass_fields__]
    query = select(*columns).where(checkpoints.c.table_id == table_id).order_by(checkpoints.c.version.desc())
    return [CheckpointRecord(**row._asdict()) for row in connection.execute(query.limit(limit))]


def compared(connection: Connection, table_id: int) -> LastComparison:
    """When the log of a table was last compared."""
    c = reconciliations.c
    row = connection.execute(select(c.reconciled_at, c.full_at).where(c.table_id == table_id)).first()
    return LastComparison(reconciled_at=None, full_at=None) if row is None else LastComparison(**row._asdict())


def recent_lags(connection: Connection, table_ids: Sequence[int], *, count: int) -> dict[int, list[Lag]]:
    """Of each table the last published versions, so many of them, the oldest first; one query."""
    found: dict[int, list[Lag]] = {table_id: [] for table_id in table_ids}
    newest = versions.c.version.between(tables.c.published_version - count + 1, tables.c.published_version)
    own = tables.c.table_id == versions.c.table_id
    query = _LAGS.join(tables, own).where(versions.c.table_id.in_(table_ids), newest)
    for row in connection.execute(query.order_by(versions.c.table_id, versions.c.version)):
        found[row.table_id].append(_lag(row))
    return found


def lags_since(connection: Connection, table_id: int, *, since: int, count: int) -> list[Lag]:
    """The published versions that were committed since a time, the oldest first: all, or ``count`` of them in steps.

    However long the history is, this looks at a bounded number of rows: by their keys.
    """
    first, last = _first_since(connection, table_id, since), published_version(connection, table_id)
    step = max(-(-(last - first + 1) // count), 1)
    wanted = list(range(last, first - 1, -step))
    query = _LAGS.where(versions.c.table_id == table_id, versions.c.version.in_(wanted))
    return [_lag(row) for row in connection.execute(query.order_by(versions.c.version))] if wanted else []


def _first_since(connection: Connection, table_id: int, since: int) -> int:
    """The first version that was committed at a time or later, by bisection: a log's times only grow."""
    own = versions.c.table_id == table_id
    low = connection.execute(select(func.min(versions.c.version)).where(own)).scalar() or 0
    high = published_version(connection, table_id) + 1
    while low < high:
        middle = (low + high) // 2
        at = connection.execute(select(versions.c.committed_at).where(own, versions.c.version == middle)).scalar()
        low, high = (low, middle) if at is not None and at >= since else (middle + 1, high)
    return low


_SAME = (mirror_status.c.table_id == versions.c.table_id) & (mirror_status.c.version == versions.c.version)
_VERSIONS: Select[Any] = select(
    *(versions.c[name] for name in ("version", "committed_at", "operation", "kind")),
    *(versions.c[name] for name in ("num_added", "num_removed", "num_bytes")),
    *(mirror_status.c[name] for name in ("state", "attempts", "published_at", "next_attempt_at", "error_code")),
).join(mirror_status, _SAME)
_LAGS: Select[Any] = (
    select(versions.c.table_id, versions.c.version, versions.c.committed_at, mirror_status.c.published_at)
    .join(mirror_status, _SAME)
    .where(mirror_status.c.published_at.is_not(None))
)


def _lag(row: Row[Any]) -> Lag:
    late = max(row.published_at - row.committed_at, 0)
    return Lag(version=row.version, committed_at=row.committed_at, milliseconds=late)
