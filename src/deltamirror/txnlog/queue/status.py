"""How far the mirror is: per table the backlog, its age, what failed last, and the newest checkpoint."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sqlalchemy import Connection, func, select, tuple_
from sqlalchemy.engine import Row
from sqlalchemy.sql import ColumnElement, Select

from deltamirror.batches import batched
from deltamirror.config import Switch
from deltamirror.errors import NotFound
from deltamirror.txnlog.database import schema
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.schema import (
    checkpoints,
    cleanups,
    escalations,
    heads,
    leases,
    mirror_status,
    tables,
    versions,
)
from deltamirror.txnlog.queue.chore_records import ChoreRecord, records_of
from deltamirror.txnlog.queue.pause import ALL_PAUSED
from deltamirror.txnlog.tables.registry import MirrorState, table_info
from deltamirror.txnlog.tables.switch import is_switched_on
from deltamirror.work import Lane, Status

_KEYS_AT_ONCE = 500
_ALL_ON: Final = Switch()
_VERSIONS_MEASURED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class LastError:
    """Why a version, or a checkpoint, is not there."""

    version: int
    code: str
    message: str
    stage: str
    key: str
    attempts: int
    at: int
    next_attempt_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStatus:
    """The newest checkpoint of a table."""

    version: int
    num_bytes: int
    at: int
    milliseconds: int | None
    """How long it took to write; None: it was imported."""
    reason: str
    """Why it was due, with what was measured then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStatus:
    """Where the time went of the versions that were published last, on average and in milliseconds a version."""

    versions: int
    read_ms: float
    serialise_ms: float
    upload_ms: float
    verify_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupStatus:
    """The last cleaning of a log."""

    at: int | None
    """None: it did not come to its end."""
    num_objects: int
    """How many it deleted."""
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseStatus:
    """The process at work on a table, the only one until the lease is given back or ends."""

    lane: Lane
    owner: str
    """Host, process, and something random."""
    since: int
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """A table and its mirror."""

    table_id: int
    name: str
    location: str
    state: MirrorState
    head: int
    head_timestamp: int
    published: int | None
    lag_versions: int
    lag_ms: int
    """How long ago the oldest unpublished version was committed; 0 if there is none.

    Where it was committed by a clock that ran ahead, how long ago the table was published last: never 0.
    """
    since_published_ms: int | None = field(compare=False)
    """How long ago a version of it was published last; None where the database does not know."""
    pending: int
    failed: int
    error: LastError | None
    """Of the first unpublished version that failed."""
    checkpoint: CheckpointStatus | None
    checkpoint_error: LastError | None
    """Of the newest checkpoint, if it could not be written."""
    log_start: int
    """The oldest version that the log has to hold."""
    history_start: int
    """The oldest version that the catalog has."""
    cleanup: CleanupStatus | None
    quarantined_at: int | None
    quarantine_reason: str | None
    diverged_version: int | None
    """The first foreign commit in the log, until it is adopted or gone."""
    escalations: int
    """How many versions and checkpoints failed so often that an operator has to look."""
    leases: tuple[LeaseStatus, ...]
    maintenance: tuple[ChoreRecord, ...]
    """What services did to its files, or could not do."""
    stages: StageStatus | None = None
    """None: not asked for, or nothing was measured."""

    @property
    def is_disabled(self) -> bool:
        """Whether settings switch its mirror off: its versions wait on purpose, and are not late."""
        return self.state is MirrorState.DISABLED


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt at a version or a checkpoint: one that failed, or the one that succeeded after others."""

    version: int
    lane: str
    attempt: int
    owner: str
    epoch: int
    started_at: int
    ended_at: int
    outcome: str
    error_code: str | None
    error_message: str | None
    error_stage: str | None
    error_key: str | None
    expected_digest: str | None
    """Of the object as it should be, where another is in its place."""
    found_digest: str | None


def table_status(connection: Connection, name: str, switch: Switch = _ALL_ON) -> TableStatus:
    """One table; ``switch`` says whether settings switch it off."""
    found = _status(connection, tables.c.table_id == table_info(connection, name).id, switch)
    if not found:
        raise NotFound(f"the table {name!r} is gone", hint="it was dropped a moment ago", table=name)
    return replace(found[0], stages=_stages(connection, found[0].table_id))


def all_status(connection: Connection, switch: Switch = _ALL_ON) -> list[TableStatus]:
    """All tables, by name, with as many queries as for one."""
    return _status(connection, tables.c.name.is_not(None), switch)


def statuses(connection: Connection, name: str | None, switch: Switch = _ALL_ON) -> list[TableStatus]:
    """All tables, by name, or the one that is named."""
    return all_status(connection, switch) if name is None else [table_status(connection, name, switch)]


def status_of(connection: Connection, table_ids: Sequence[int], switch: Switch = _ALL_ON) -> list[TableStatus]:
    """These tables, in this order; those that were dropped meanwhile are left out."""
    wanted = tables.c.table_id.in_(table_ids)
    found = {each.table_id: each for each in _status(connection, wanted, switch)} if table_ids else {}
    return [found[table_id] for table_id in table_ids if table_id in found]


def attempts(connection: Connection, table_id: int, version: int | None = None) -> list[Attempt]:
    """The attempts at a table, or at one version of it, oldest first."""
    history = schema.attempts
    columns = [history.c[name] for name in Attempt.__dataclass_fields__]
    query = select(*columns).where(history.c.table_id == table_id).order_by(history.c.ended_at, history.c.version)
    if version is not None:
        query = query.where(history.c.version == version)
    return [Attempt(**row._asdict()) for row in connection.execute(query)]


def latest_attempts(connection: Connection, table_id: int, *, limit: int) -> list[Attempt]:
    """The last attempts at a table, the newest first."""
    history = schema.attempts
    columns = [history.c[name] for name in Attempt.__dataclass_fields__]
    newest = select(*columns).where(history.c.table_id == table_id).order_by(history.c.ended_at.desc())
    return [Attempt(**row._asdict()) for row in connection.execute(newest.limit(limit))]


def published_version(connection: Connection, table_id: int) -> int:
    """How far a table is published; -1 while nothing is."""
    return int(connection.execute(select(tables.c.published_version).where(tables.c.table_id == table_id)).scalar_one())


def _stages(connection: Connection, table_id: int) -> StageStatus | None:
    c = mirror_status.c
    measured = (c.table_id == table_id) & (c.state == Status.SUCCESS) & c.read_us.is_not(None)
    last = select(mirror_status).where(measured).order_by(c.version.desc()).limit(_VERSIONS_MEASURED).subquery()
    means = [func.avg(last.c[f"{stage}_us"]) for stage in ("read", "serialise", "upload", "verify")]
    versions, *microseconds = connection.execute(select(func.count(), *means)).one()
    if not versions:
        return None
    read, serialise, upload, verify = (round(float(each) / 1_000, 3) for each in microseconds)
    return StageStatus(versions=versions, read_ms=read, serialise_ms=serialise, upload_ms=upload, verify_ms=verify)


def _status(connection: Connection, wanted: ColumnElement[bool], switch: Switch) -> list[TableStatus]:
    query = _FACTS.add_columns(is_switched_on(switch).label("is_on"))
    facts = connection.execute(query.where(wanted).order_by(tables.c.name)).all()
    errors = _failed_rows(connection, [(row.table_id, row.failed_version) for row in facts if row.failed])
    written = _by_table(connection, _checkpoint_rows(_newest_written()).where(wanted))
    asked = _by_table(connection, _checkpoint_rows(_newest_asked()).where(wanted))
    held, chores = _leases(connection, wanted), records_of(connection, wanted)
    return [
        _table(
            row,
            errors.get(row.table_id),
            written.get(row.table_id),
            asked.get(row.table_id),
            held[row.table_id],
            chores[row.table_id].values(),
        )
        for row in facts
    ]


def _unpublished(what: ColumnElement[Any], state: Status) -> ColumnElement[Any]:
    """Something about the versions of a table that are not published and have this state.

    A published version is SUCCESS, so what is not lies behind it: as a query for each table this reads these rows
    only, where a join would make the planner read the whole history.
    """
    own = (mirror_status.c.table_id == tables.c.table_id) & (mirror_status.c.version > tables.c.published_version)
    return select(what).where(own, mirror_status.c.state == state).correlate(tables).scalar_subquery()


_FIRST = (versions.c.table_id == tables.c.table_id) & (versions.c.version == tables.c.published_version + 1)
_LAST = mirror_status.alias("last_published")


def with_lag(query: Select[Any]) -> Select[Any]:
    """A query of tables with what ``lag_ms`` asks of each row, and with their heads; dropped tables have none."""
    return (
        query.add_columns(
            (CLOCK - versions.c.committed_at).label("age"),
            (CLOCK - _LAST.c.published_at).label("since_published"),
        )
        .select_from(tables)
        .join(heads, heads.c.table_id == tables.c.table_id)
        .outerjoin(versions, _FIRST)
        .outerjoin(_LAST, (_LAST.c.table_id == tables.c.table_id) & (_LAST.c.version == tables.c.published_version))
    )


def lag_ms(row: Row[Any]) -> int:
    """How long ago the oldest unpublished version was committed: see ``TableStatus``."""
    if row.age is None:
        return 0
    return int(row.age) if row.age > 0 else max(int(row.since_published or 0), 1)


_FACTS = with_lag(
    select(
        tables,
        heads.c.version.label("head"),
        heads.c.committed_at.label("head_timestamp"),
        heads.c.diverged_version,
        ALL_PAUSED.label("all_paused"),
        _unpublished(func.count(), Status.PENDING).label("pending"),
        _unpublished(func.count(), Status.FAILED).label("failed"),
        _unpublished(func.min(mirror_status.c.version), Status.FAILED).label("failed_version"),
        select(func.count())
        .where(escalations.c.table_id == tables.c.table_id, escalations.c.closed_at.is_(None))
        .correlate(tables)
        .scalar_subquery()
        .label("escalations"),
        cleanups.c.cleaned_at,
        cleanups.c.num_objects.label("cleaned_objects"),
        cleanups.c.num_bytes.label("cleaned_bytes"),
    )
).outerjoin(cleanups, cleanups.c.table_id == tables.c.table_id)


def _failed_rows(connection: Connection, keys: Sequence[tuple[int, int]]) -> dict[int, Row[Any]]:
    found: dict[int, Row[Any]] = {}
    for some in batched(keys, _KEYS_AT_ONCE):
        failed = tuple_(mirror_status.c.table_id, mirror_status.c.version).in_(some)
        found |= _by_table(connection, select(mirror_status).where(failed))
    return found


def _newest_written() -> ColumnElement[Any]:
    written = checkpoints.alias("written").c
    own = written.table_id == tables.c.table_id
    return (
        select(func.max(written.version))
        .where(own, written.state == Status.SUCCESS)
        .correlate(tables)
        .scalar_subquery()
    )


def _newest_asked() -> ColumnElement[Any]:
    asked = checkpoints.alias("asked").c
    own = (asked.table_id == tables.c.table_id) & (asked.version <= tables.c.published_version)
    return select(func.max(asked.version)).where(own).correlate(tables).scalar_subquery()


def _checkpoint_rows(version: ColumnElement[Any]) -> Select[Any]:
    """A checkpoint of each table; nulls where there is none. SQLite would begin an inner join with all checkpoints."""
    own = (checkpoints.c.table_id == tables.c.table_id) & (checkpoints.c.version == version)
    return select(checkpoints).select_from(tables).outerjoin(checkpoints, own)


def _leases(connection: Connection, wanted: ColumnElement[bool]) -> defaultdict[int, list[LeaseStatus]]:
    own, found = leases.c.table_id == tables.c.table_id, defaultdict[int, list[LeaseStatus]](list)
    held = select(leases).join(tables, own).where(wanted, leases.c.expires_at > CLOCK).order_by(leases.c.lane)
    for row in connection.execute(held):
        found[row.table_id].append(
            LeaseStatus(lane=Lane(row.lane), owner=row.owner, since=row.claimed_at, until=row.expires_at)
        )
    return found


def _by_table(connection: Connection, query: Select[Any]) -> dict[int, Row[Any]]:
    return {row.table_id: row for row in connection.execute(query)}


def _table(
    row: Row[Any],
    failed: Row[Any] | None,
    written: Row[Any] | None,
    asked: Row[Any] | None,
    held: Sequence[LeaseStatus],
    chores: Iterable[ChoreRecord],
) -> TableStatus:
    return TableStatus(
        table_id=row.table_id,
        name=row.name,
        location=row.location,
        state=MirrorState.of(
            quarantined=row.quarantined_at is not None,
            paused=row.mirror_paused or row.all_paused,
            is_on=bool(row.is_on),
        ),
        head=row.head,
        head_timestamp=row.head_timestamp,
        published=None if row.published_version < 0 else row.published_version,
        lag_versions=row.head - row.published_version,
        lag_ms=lag_ms(row),
        since_published_ms=None if row.since_published is None else max(int(row.since_published), 0),
        pending=row.pending,
        failed=row.failed,
        error=None if failed is None else _error(failed),
        checkpoint=None if written is None else _checkpoint(written),
        checkpoint_error=None if asked is None or asked.state != Status.FAILED else _error(asked),
        log_start=row.log_start,
        history_start=row.history_start,
        cleanup=None if row.cleaned_at is None else _cleanup(row),
        quarantined_at=row.quarantined_at,
        quarantine_reason=row.quarantine_reason,
        diverged_version=row.diverged_version,
        escalations=row.escalations,
        leases=tuple(held),
        maintenance=tuple(chores),
    )


def _error(row: Row[Any]) -> LastError:
    return LastError(
        version=row.version,
        code=row.error_code,
        message=row.error_message,
        stage=row.error_stage,
        key=row.error_key,
        attempts=row.attempts,
        at=row.updated_at,
        next_attempt_at=row.next_attempt_at,
    )


def _checkpoint(row: Row[Any]) -> CheckpointStatus:
    return CheckpointStatus(
        version=row.version,
        num_bytes=row.num_bytes,
        at=row.updated_at,
        milliseconds=row.milliseconds,
        reason=row.reason,
    )


def _cleanup(row: Row[Any]) -> CleanupStatus:
    return CleanupStatus(at=row.cleaned_at or None, num_objects=row.cleaned_objects, num_bytes=row.cleaned_bytes)
