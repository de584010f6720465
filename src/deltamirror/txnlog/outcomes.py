"""Recording what came of the mirror's work: states, attempts, and how far a table is published.

Each outcome is one transaction, under the lease that the work was done under. A version goes from PENDING to SUCCESS or
FAILED, and from FAILED to SUCCESS; SUCCESS is final. ``published_version`` is the version before the first one that is
not SUCCESS, and never goes back.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol, TypeAlias

from sqlalchemy import case, delete, func, insert, literal, select, update
from sqlalchemy.sql import ColumnElement

from deltamirror.errors import DeltaMirrorError
from deltamirror.txnlog.backlog import request_checkpoint
from deltamirror.txnlog.clock import CLOCK
from deltamirror.txnlog.database import Database, Session
from deltamirror.txnlog.leases import surrender
from deltamirror.txnlog.schema import attempts, checkpoints, checksums, mirror_status, tables
from deltamirror.txnlog.upsert import upsert
from deltamirror.work import CheckpointOutcome, CommitOutcome, Failure, Lease, Published

__all__ = ["DueCheckpoint", "Recorded", "RetryTimes", "record_checkpoint", "record_commits"]

RetryTimes: TypeAlias = Callable[[DeltaMirrorError, int], float]
"""How many seconds to wait after an error, by how many attempts there were."""


class DueCheckpoint(Protocol):
    """A version that has to get a checkpoint, and why."""

    @property
    def version(self) -> int:
        """The version."""

    @property
    def reason(self) -> str:
        """Why it is due."""


_LONGEST_MESSAGE = 2_000
_LONGEST_WAIT = 100 * 365 * 24 * 3600.0  # a policy may say that there is no point in trying again

_NO_ERROR: dict[str, Any] = {"error_code": None, "error_message": None, "error_stage": None, "error_key": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What was written down."""

    held: bool
    """False: the lease was somebody else's by then, or given back; nothing was recorded."""
    versions: int = 0
    """How many became SUCCESS."""
    published: int = -1
    """How far the table is published after it."""


def record_commits(
    database: Database, outcome: CommitOutcome, *, retry: RetryTimes, checkpoint: DueCheckpoint | None = None
) -> Recorded:
    """Record the versions that were published and the one that failed, and give the lease back.

    The checkpoint that is due once its version is published is asked for in the same transaction, so that no crash
    forgets it.
    """
    table_id = outcome.table_id
    with database.write() as session:
        started = surrender(session, outcome.lease)
        if started is None:
            return Recorded(held=False)
        recorded = _succeed(session, outcome.lease, outcome.published, started) if outcome.published else 0
        if outcome.failure is not None:
            _fail_commit(session, outcome.lease, outcome.failure, started, retry)
        published = _raise_published(session, table_id)
        if outcome.checksum is not None and outcome.published:
            _keep_checksum(session, table_id, outcome.published[-1].version, outcome.checksum)
        if checkpoint is not None and checkpoint.version <= published:
            request_checkpoint(session, table_id, checkpoint.version, reason=checkpoint.reason)
    return Recorded(held=True, versions=recorded, published=published)


def record_checkpoint(database: Database, outcome: CheckpointOutcome, *, retry: RetryTimes) -> Recorded:
    """Record a checkpoint that was written, or why it was not, and give the lease back.

    A written one supersedes the earlier ones that are not. Where the base was unusable, nothing builds on it any more,
    and the checkpoint is due at once.
    """
    with database.write() as session:
        started = surrender(session, outcome.lease)
        if started is None:
            return Recorded(held=False)
        if outcome.base_unusable:
            _distrust_base(session, outcome, started)
        elif outcome.failure is not None:
            _fail_checkpoint(session, outcome, outcome.failure, started, retry)
        else:
            _finish_checkpoint(session, outcome, started)
        return Recorded(
            held=True,
            versions=0 if outcome.failure or outcome.base_unusable else 1,
            published=_published(session, outcome.table_id),
        )


def _succeed(session: Session, lease: Lease, published: Sequence[Published], started: int) -> int:
    c = mirror_status.c
    first, last = published[0].version, published[-1].version
    mine = (c.table_id == lease.table_id) & c.version.between(first, last)
    if last - first + 1 != len(published):
        mine &= c.version.in_([each.version for each in published])
    failed_before = select(c.table_id, c.version, *_attempt(lease, c.attempts + 1, started, "SUCCESS")).where(
        mine, c.state == "FAILED"
    )
    session.execute(insert(attempts).from_select(_ATTEMPT_COLUMNS, failed_before))
    done = (
        update(mirror_status)
        .where(mine, c.state != "SUCCESS")
        .values(
            state="SUCCESS",
            attempts=c.attempts + 1,
            updated_at=CLOCK,
            published_at=CLOCK,
            milliseconds=_durations(published),
            next_attempt_at=None,
            **_NO_ERROR,
        )
        .returning(c.version)
    )
    return len(session.execute(done).all())


def _durations(published: Sequence[Published]) -> ColumnElement[int]:
    """The duration of each version in one expression; versions that took equally long share a branch."""
    runs = [
        (duration, max(each.version for each in run))
        for duration, run in groupby(published, key=lambda each: round(each.milliseconds))
    ]
    return case(*[(mirror_status.c.version <= last, duration) for duration, last in runs])


def _fail_commit(session: Session, lease: Lease, failure: Failure, started: int, retry: RetryTimes) -> None:
    c = mirror_status.c
    row = (c.table_id == lease.table_id) & (c.version == failure.version) & (c.state != "SUCCESS")
    failed = update(mirror_status).where(row).values(**_failed(c, failure)).returning(c.attempts, c.updated_at)
    if (found := session.execute(failed).one_or_none()) is not None:
        due = found.updated_at + _pause(retry, failure, found.attempts)
        session.execute(update(mirror_status).where(row).values(next_attempt_at=due))
        _insert_attempt(session, lease, failure.version, found.attempts, started, failure)


def _raise_published(session: Session, table_id: int) -> int:
    c, published = mirror_status.c, _published(session, table_id)
    behind = (c.table_id == table_id) & (c.version > published)
    waiting = select(func.min(c.version)).where(behind, c.state != "SUCCESS").scalar_subquery()
    newest = select(func.max(c.version)).where(behind).scalar_subquery()
    reached = int(session.execute(select(func.coalesce(waiting - 1, newest, published))).scalar_one())
    if reached > published:
        session.execute(update(tables).where(tables.c.table_id == table_id).values(published_version=reached))
    return reached


def _published(session: Session, table_id: int) -> int:
    query = select(tables.c.published_version).where(tables.c.table_id == table_id)
    return int(session.execute(query).scalar_one())


def _keep_checksum(session: Session, table_id: int, version: int, data: bytes) -> None:
    kept = upsert(checksums).values(table_id=table_id, version=version, data=data)
    later = {"version": kept.excluded.version, "data": kept.excluded.data}
    session.execute(
        kept.on_conflict_do_update(
            index_elements=[checksums.c.table_id], set_=later, where=checksums.c.version < kept.excluded.version
        )
    )


def _finish_checkpoint(session: Session, outcome: CheckpointOutcome, started: int) -> None:
    c = checkpoints.c
    written = (
        update(checkpoints)
        .where(_requested(outcome))
        .values(
            state="SUCCESS",
            attempts=c.attempts + 1,
            updated_at=CLOCK,
            next_attempt_at=None,
            name=outcome.name,
            digest=outcome.digest,
            num_rows=outcome.num_rows,
            num_files=outcome.num_files,
            num_bytes=outcome.num_bytes,
            milliseconds=round(outcome.milliseconds),
            base_version=outcome.base,
            **_NO_ERROR,
        )
        .returning(c.attempts)
    )
    count = session.execute(written).scalar_one_or_none()
    if count is not None and count > 1:
        _insert_attempt(session, outcome.lease, outcome.version, count, started)
    superseded = (c.table_id == outcome.table_id) & (c.version < outcome.version) & (c.state != "SUCCESS")
    session.execute(delete(checkpoints).where(superseded))


def _fail_checkpoint(
    session: Session, outcome: CheckpointOutcome, failure: Failure, started: int, retry: RetryTimes
) -> None:
    c, row = checkpoints.c, _requested(outcome)
    failed = update(checkpoints).where(row).values(**_failed(c, failure)).returning(c.attempts, c.updated_at)
    if (found := session.execute(failed).one_or_none()) is not None:
        due = found.updated_at + _pause(retry, failure, found.attempts)
        session.execute(update(checkpoints).where(row).values(next_attempt_at=due))
        _insert_attempt(session, outcome.lease, outcome.version, found.attempts, started, failure)


def _distrust_base(session: Session, outcome: CheckpointOutcome, started: int) -> None:
    c = checkpoints.c
    earlier = (c.table_id == outcome.table_id) & (c.version < outcome.version) & c.digest.is_not(None)
    newest = select(func.max(c.version)).where(earlier).scalar_subquery()
    base = newest if outcome.base is None else outcome.base
    session.execute(update(checkpoints).where(c.table_id == outcome.table_id, c.version == base).values(digest=None))
    again = update(checkpoints).where(_requested(outcome)).returning(c.attempts)
    values = {"attempts": c.attempts + 1, "updated_at": CLOCK, "next_attempt_at": None}
    count = session.execute(again.values(values)).scalar_one_or_none()
    if count is not None and outcome.failure is not None:
        _insert_attempt(session, outcome.lease, outcome.version, count, started, outcome.failure)


def _requested(outcome: CheckpointOutcome) -> ColumnElement[bool]:
    c = checkpoints.c
    return (c.table_id == outcome.table_id) & (c.version == outcome.version) & (c.state != "SUCCESS")


def _failed(columns: Any, failure: Failure) -> dict[str, Any]:
    return {"state": "FAILED", "attempts": columns.attempts + 1, "updated_at": CLOCK, **_error(failure)}


def _error(failure: Failure) -> Mapping[str, Any]:
    return {
        "error_code": failure.error.code,
        "error_message": _storable(failure.error.message)[:_LONGEST_MESSAGE],
        "error_stage": failure.stage.value,
        "error_key": _storable(failure.key),
    }


def _storable(text: str) -> str:
    """A text that every database takes: what stores and drivers say may hold anything."""
    return text.encode(errors="replace").decode().replace("\x00", "\ufffd")


def _pause(retry: RetryTimes, failure: Failure, count: int) -> int:
    return int(min(retry(failure.error, count), _LONGEST_WAIT) * 1000)


_ATTEMPT_COLUMNS = [
    "table_id", "version", "lane", "epoch", "attempt", "owner", "started_at", "ended_at", "outcome"
]  # fmt: skip


def _attempt(lease: Lease, count: Any, started: int, outcome: str) -> list[Any]:
    """The values of the columns of an attempt, after table and version."""
    return [
        literal(lease.lane.value),
        literal(lease.epoch),
        count,
        literal(lease.owner),
        literal(started),
        CLOCK,
        literal(outcome),
    ]


def _insert_attempt(
    session: Session, lease: Lease, version: int, count: int, started: int, failure: Failure | None = None
) -> None:
    outcome = "SUCCESS" if failure is None else "FAILED"
    values = [lease.table_id, version, *_attempt(lease, count, started, outcome)]
    named = dict(zip(_ATTEMPT_COLUMNS, values, strict=True))
    session.execute(insert(attempts).values(**named, **({} if failure is None else _error(failure))))
