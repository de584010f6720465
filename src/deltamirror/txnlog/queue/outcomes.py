"""Recording what came of the mirror's work: states, attempts, and how far a table is published.

Outcomes are recorded under the leases that the work was done under: those of a job that are there at once, and in which
nothing failed, in one transaction; each of the others in one of its own. A version goes from PENDING to SUCCESS or
FAILED, and from FAILED to SUCCESS. ``published_version`` is the version before the first one that is not SUCCESS.
Neither goes back here: only ``findings.py`` takes a SUCCESS back, where a comparison did not find the object.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Protocol, TypeAlias

from sqlalchemy import bindparam, case, delete, func, insert, literal, literal_column, null, select, update
from sqlalchemy.sql import ColumnElement, Select
from sqlalchemy.sql.dml import ReturningUpdate
from sqlalchemy.sql.elements import ClauseElement

from deltamirror.errors import DeltaMirrorError, Diverged
from deltamirror.steps import Step
from deltamirror.txnlog.database.access import Database, Session
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.lists import one_of
from deltamirror.txnlog.database.number_rows import number_rows, rows_value
from deltamirror.txnlog.database.schema import UNWRITTEN, attempts, checkpoints, checksums, mirror_status, tables
from deltamirror.txnlog.database.upsert import upsert
from deltamirror.txnlog.queue.attempts import (
    ATTEMPT_COLUMNS,
    NO_ERROR,
    attempt_values,
    error_values,
    insert_attempt,
)
from deltamirror.txnlog.queue.backlog import request_checkpoint
from deltamirror.txnlog.queue.escalations import Escalates, close_escalations, open_escalation
from deltamirror.txnlog.queue.leases import surrender, surrender_all
from deltamirror.txnlog.queue.quarantine import mark_diverged, quarantine
from deltamirror.work import CheckpointOutcome, CommitOutcome, Failure, Lane, Lease, Published, StageTimes, Status

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


_LONGEST_WAIT = 100 * 365 * 24 * 3600.0  # a policy may say that there is no point in trying again


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What was written down."""

    held: bool
    """False: another process held the lease by then, or it was given back; nothing was recorded."""
    versions: int = 0
    """How many became SUCCESS."""
    published: int = -1
    """How far the table is published after it."""
    escalated: bool = False
    """Whether an operator has to look, and was not told before."""
    attempt: int | None = None
    """How often what failed was tried, this time included."""
    retry_at: int | None = None
    """When it is tried again (ms); None where nothing failed, or the table is quarantined."""
    recovered: bool = False
    """Whether something became SUCCESS that had failed, and was waiting for its next attempt."""
    visible_at: Mapping[int, int] = field(default_factory=dict, compare=False)
    """The versions that became SUCCESS, with the time at which each was put, by the clock of the database."""


def _never(error: DeltaMirrorError, attempts: int) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """What came of a unit, and the checkpoint that is due once its version is published."""

    outcome: CommitOutcome
    checkpoint: DueCheckpoint | None = None

    @property
    def lease(self) -> Lease:
        """The lease that the work was done under."""
        return self.outcome.lease


def record_commits(
    database: Database, records: Sequence[CommitRecord], *, retry: RetryTimes, escalates: Escalates = _never
) -> list[Recorded]:
    """Record the versions that were published and those that failed, and give the leases back, in one transaction.

    The leases are of one owner. The checkpoints that are due are asked for in the same transaction, so that no crash
    forgets them. Where something failed, now or before, a record is the only one: the other tables of a store are made
    due by transactions that go through their versions in an order of their own.
    """
    waited_ms = {each.lease: _waited_ms(each.outcome) for each in records}
    with database.write(Step.RECORD_COMMITS) as session:
        started = surrender_all(session, [each.lease for each in records])
        held = [each for each in records if each.lease in started]
        done = record_published(
            session,
            [
                PublishedUnit(
                    each.lease,
                    each.outcome.published,
                    started[each.lease],
                    stages=each.outcome.stages,
                    waited_ms=waited_ms[each.lease],
                )
                for each in held
            ],
        )
        failed = {
            each.lease: _fail(session, each.lease, failure, started[each.lease], retry=retry, escalates=escalates)
            for each in held
            if (failure := each.outcome.failure) is not None
        }
        published = _raise_published(session, [each.lease.table_id for each in held])
        _keep_checksums(session, [each.outcome for each in held])
        for each in held:
            due = each.checkpoint
            if due is not None and due.version <= published[each.lease.table_id]:
                request_checkpoint(session, each.lease.table_id, due.version, reason=due.reason)
    return [
        Recorded(held=False)
        if each.lease not in started
        else _recorded(done[each.lease], failed.get(each.lease, _Failed()), published[each.lease.table_id])
        for each in records
    ]


def _recorded(done: "RecordedVersions", failed: "_Failed", published: int) -> Recorded:
    return Recorded(
        held=True,
        versions=len(done.visible_at),
        published=published,
        escalated=failed.escalated,
        attempt=failed.attempt,
        retry_at=failed.retry_at,
        recovered=done.recovered,
        visible_at=done.visible_at,
    )


def record_checkpoint(
    database: Database, outcome: CheckpointOutcome, *, retry: RetryTimes, escalates: Escalates = _never
) -> Recorded:
    """Record a checkpoint that was written, or why it was not, and give the lease back.

    A written one supersedes the earlier ones that never were. Where the base was unusable, nothing builds on it any
    more, and the checkpoint is due at once.
    """
    with database.write(Step.RECORD_CHECKPOINT) as session:
        started = surrender(session, outcome.lease)
        if started is None:
            return Recorded(held=False)
        failure, failed = outcome.failure, _Failed()
        if outcome.base_unusable:
            _distrust_base(session, outcome, started)
        elif failure is not None:
            failed = _fail(session, outcome.lease, failure, started, retry=retry, escalates=escalates)
        else:
            _finish_checkpoint(session, outcome, started)
        return Recorded(
            held=True,
            versions=0 if failure or outcome.base_unusable else 1,
            published=_published(session, outcome.table_id),
            escalated=failed.escalated,
            attempt=failed.attempt,
            retry_at=failed.retry_at,
        )


@dataclass(frozen=True, slots=True)
class PublishedUnit:
    """Versions of a table that are in the log, by a unit that was claimed at a time, and ended so long ago."""

    lease: Lease
    published: Sequence[Published]
    started: int
    stages: StageTimes | None = None
    waited_ms: int = 0

    def rows(self) -> Iterator[tuple[int | None, ...]]:
        """What ``_DONE`` takes for each version. The time in a stage is taken to be the same for all of them."""
        shares = _shares(self.stages, max(1, len(self.published)))
        for each in self.published:
            ago = self.waited_ms + int(each.age)
            yield self.lease.table_id, each.version, ago, self.started, round(each.milliseconds), *shares


@dataclass(frozen=True, slots=True)
class RecordedVersions:
    """When versions that were not recorded before were put, and whether one of them waited after a failure."""

    visible_at: Mapping[int, int] = field(default_factory=dict)
    recovered: bool = False


def record_published(session: Session, units: Sequence[PublishedUnit]) -> dict[Lease, RecordedVersions]:
    """These versions are in the log: two statements, however many units there are, unless some had failed."""
    published = [row for unit in sorted(units, key=_table_of) for row in unit.rows()]
    if not published:
        return {unit.lease: RecordedVersions() for unit in units}
    rows = {_ROWS: rows_value(published)}
    failed = {table_id for (table_id,) in session.rows(_FAILED, rows)}
    recovered = {unit.lease: _close_failures(session, unit) for unit in units if _table_of(unit) in failed}
    visible_at: dict[int, dict[int, int]] = {_table_of(unit): {} for unit in units}
    for table_id, version, published_at in session.rows(_DONE, rows):
        visible_at[table_id][version] = published_at
    return {
        unit.lease: RecordedVersions(visible_at[_table_of(unit)], recovered.get(unit.lease, False)) for unit in units
    }


def _table_of(unit: PublishedUnit) -> int:
    return unit.lease.table_id


def _close_failures(session: Session, unit: PublishedUnit) -> bool:
    """Write down that versions which had failed succeed; whether one of them was waiting for its next attempt."""
    c, lease = mirror_status.c, unit.lease
    first, last = unit.published[0].version, unit.published[-1].version
    mine = (c.table_id == lease.table_id) & c.version.between(first, last)
    if last - first + 1 != len(unit.published):
        mine &= c.version.in_([each.version for each in unit.published])
    failed_before = select(
        c.table_id, c.version, *attempt_values(lease, c.attempts + 1, literal(unit.started), Status.SUCCESS)
    ).where(mine, c.state == Status.FAILED)
    repaired = insert(attempts).from_select(ATTEMPT_COLUMNS, failed_before).returning(attempts.c.version)
    if not session.execute(repaired).all():
        return False
    close_escalations(session, lease, first=first, last=last)
    postponed = select(c.version).where(mine, c.state == Status.FAILED, c.next_attempt_at.is_not(None))
    return session.execute(postponed.limit(1)).first() is not None


_ROWS: Final = "published"
_STAGES: Final = tuple(each.name for each in fields(StageTimes))
_PUT: Final = number_rows(
    _ROWS, "table_id", "version", "ago", "started", "milliseconds", *(f"{name}_us" for name in _STAGES)
)
_THEIRS: Final = (mirror_status.c.table_id == _PUT.c.table_id) & (mirror_status.c.version == _PUT.c.version)


def _state(status: Status) -> ColumnElement[str]:
    return literal_column(f"'{status}'")


_FAILED: Final = (
    select(mirror_status.c.table_id).distinct().where(_THEIRS, mirror_status.c.state == _state(Status.FAILED))
)


def _done() -> ReturningUpdate[Any]:
    """Versions are SUCCESS, each put before its unit ended, which may have waited since, and not before it was claimed.

    The clock is read once for all of them: PostgreSQL would ask it again for each row of a subquery.
    """
    c = mirror_status.c
    now = select(CLOCK.label("time")).cte("now").c.time
    put_at = now - _PUT.c.ago
    return (
        update(mirror_status)
        .where(_THEIRS, c.state != _state(Status.SUCCESS))
        .values(
            state=_state(Status.SUCCESS),
            attempts=c.attempts + literal_column("1"),
            updated_at=now,
            published_at=case((put_at < _PUT.c.started, _PUT.c.started), else_=put_at),
            milliseconds=_PUT.c.milliseconds,
            next_attempt_at=null(),
            **{f"{name}_us": _PUT.c[f"{name}_us"] for name in _STAGES},
            **dict.fromkeys(NO_ERROR, null()),
        )
        .returning(c.table_id, c.version, c.published_at)
    )


_DONE: Final = _done()


def _waited_ms(outcome: CommitOutcome) -> int:
    """How long ago a unit ended, by the clock of this process: that of its executor may differ.

    It is read before the transaction begins, since the clock of a database may be that of the beginning: a time of
    publication that is too early would make an object look as if it was touched since.
    """
    return 0 if outcome.ended_at is None else max(0, int((time.time() - outcome.ended_at) * 1_000))


def _shares(stages: StageTimes | None, versions: int) -> Sequence[int | None]:
    """The time of each version in the stages, in microseconds."""
    return [None if stages is None else round(getattr(stages, name) * 1_000 / versions) for name in _STAGES]


@dataclass(frozen=True, slots=True)
class _Failed:
    """What is recorded of a failure: nothing, where another process succeeded."""

    attempt: int | None = None
    retry_at: int | None = None
    escalated: bool = False


def _fail(
    session: Session, lease: Lease, failure: Failure, started: int, *, retry: RetryTimes, escalates: Escalates
) -> _Failed:
    """Record a failure, unless another process succeeded."""
    records = mirror_status if lease.lane is Lane.COMMITS else checkpoints
    c, error = records.c, failure.error
    own = (c.table_id == lease.table_id) & (c.version == failure.version) & (c.state != Status.SUCCESS)
    failed = {"state": Status.FAILED, "attempts": c.attempts + 1, "updated_at": CLOCK, **error_values(failure)}
    found = session.execute(update(records).where(own).values(failed).returning(c.attempts, c.updated_at)).one_or_none()
    if found is None:
        return _Failed()
    due = found.updated_at + int(min(retry(error, found.attempts), _LONGEST_WAIT) * 1000)
    session.execute(update(records).where(own).values(next_attempt_at=due))
    insert_attempt(session, lease, failure.version, found.attempts, literal(started), failure)
    news = isinstance(error, Diverged) and _stop(session, lease.table_id, failure.version, error)
    tells = escalates(error, found.attempts)
    opened = tells and open_escalation(session, lease.table_id, lease.lane, failure.version, error)
    return _Failed(found.attempts, None if isinstance(error, Diverged) else due, opened or news)


def _stop(session: Session, table_id: int, version: int, error: Diverged) -> bool:
    """Put the table into quarantine; whether an operator has to look who was not told before."""
    if not error.superseded:
        return mark_diverged(session, table_id, version=version, reason=error.message)
    quarantine(session, table_id, reason=error.message)
    return False


def _raise_published(session: Session, table_ids: Sequence[int]) -> dict[int, int]:
    """How far the tables are published by now, which is written down.

    A comparison may find versions gone between the two statements: its record stays, and the next one of the
    table goes on from there.
    """
    if not table_ids:
        return {}
    rows = session.execute(_REACHED, {"of_tables": table_ids}).all()
    found = {row.table_id: int(row.reached) for row in rows}
    wanted = [(row.table_id, row.published_version, row.reached) for row in rows if row.reached > row.published_version]
    raised = {each[0] for each in session.rows(_RAISE, {"raised": rows_value(wanted)})} if wanted else set()
    lowered = {each[0] for each in wanted} - raised
    return found | {table_id: _published(session, table_id) for table_id in lowered}


def _reached() -> Select[Any]:
    """The version before the first that is not SUCCESS, of some tables."""
    c, published = mirror_status.c, tables.c.published_version
    behind = (c.table_id == tables.c.table_id) & (c.version > published)
    waiting = select(func.min(c.version)).where(behind, c.state != Status.SUCCESS).scalar_subquery()
    newest = select(func.max(c.version)).where(behind).scalar_subquery()
    reached = func.coalesce(waiting - 1, newest, published).label("reached")
    own = one_of(tables.c.table_id, "of_tables")
    return select(tables.c.table_id, published, reached).where(own).order_by(tables.c.table_id)


_MINE: Final = tables.c.table_id == bindparam("of_table")
_REACHED: Final = _reached()
_RAISED: Final = number_rows("raised", "table_id", "before", "reached")
_RAISE: Final = (
    update(tables)
    .where(tables.c.table_id == _RAISED.c.table_id, tables.c.published_version == _RAISED.c.before)
    .values(published_version=_RAISED.c.reached)
    .returning(tables.c.table_id)
)
_PUBLISHED: Final = select(tables.c.published_version).where(_MINE)


def _published(session: Session, table_id: int) -> int:
    return int(session.execute(_PUBLISHED, {"of_table": table_id}).scalar_one())


def _keep_checksums(session: Session, outcomes: Sequence[CommitOutcome]) -> None:
    kept = [
        {"table_id": each.table_id, "version": each.published[-1].version, "data": each.checksum}
        for each in outcomes
        if each.checksum is not None and each.published
    ]
    for values in kept:
        session.run(_KEEP_CHECKSUM, values)


def _keep_checksum() -> ClauseElement:
    kept = upsert(checksums).values({c.name: bindparam(c.name) for c in checksums.c})
    later = {"version": kept.excluded.version, "data": kept.excluded.data}
    older = checksums.c.version < kept.excluded.version
    return kept.on_conflict_do_update(index_elements=[checksums.c.table_id], set_=later, where=older)


_KEEP_CHECKSUM: Final = _keep_checksum()


def _finish_checkpoint(session: Session, outcome: CheckpointOutcome, started: int) -> None:
    told = {
        "its_name": outcome.name,
        "its_digest": outcome.digest,
        "its_rows": outcome.num_rows,
        "its_files": outcome.num_files,
        "its_bytes": outcome.num_bytes,
        "its_milliseconds": round(outcome.milliseconds),
        "its_base": outcome.base,
    }
    count = session.execute(_WRITTEN, {**_own(outcome), **told}).scalar_one_or_none()
    if count is not None and count > 1:
        insert_attempt(session, outcome.lease, outcome.version, count, literal(started))
        close_escalations(session, outcome.lease, first=0, last=outcome.version)
    session.execute(_SUPERSEDED, {**_own(outcome), "needed": _needed_start(session, outcome.table_id)})


def _needed_start(session: Session, table_id: int) -> int:
    """The version whose checkpoint a log needs because it starts there; -1 where it starts with version 0."""
    return int(session.execute(_LOG_START, {"of_table": table_id}).scalar_one()) or -1


def _distrust_base(session: Session, outcome: CheckpointOutcome, started: int) -> None:
    c = checkpoints.c
    earlier = (c.table_id == outcome.table_id) & (c.version < outcome.version) & c.digest.is_not(None)
    newest = select(func.max(c.version)).where(earlier).scalar_subquery()
    base = newest if outcome.base is None else outcome.base
    # The next comparison reads what was touched since the last one.
    distrusted = update(checkpoints).where(c.table_id == outcome.table_id, c.version == base)
    session.execute(distrusted.values(digest=None, updated_at=CLOCK))
    again = update(checkpoints).where(_REQUESTED).returning(c.attempts)
    values = {"attempts": c.attempts + 1, "updated_at": CLOCK, "next_attempt_at": None}
    count = session.execute(again.values(values), _own(outcome)).scalar_one_or_none()
    if count is not None and outcome.failure is not None:
        insert_attempt(session, outcome.lease, outcome.version, count, literal(started), outcome.failure)


def _own(outcome: CheckpointOutcome) -> Mapping[str, int]:
    return {"of_table": outcome.table_id, "of_version": outcome.version}


_OF_TABLE: Final[ColumnElement[bool]] = checkpoints.c.table_id == bindparam("of_table")
_REQUESTED: Final = _OF_TABLE & (checkpoints.c.version == bindparam("of_version")) & UNWRITTEN
_WRITTEN: Final = (
    update(checkpoints)
    .where(_REQUESTED)
    .values(
        state=Status.SUCCESS,
        attempts=checkpoints.c.attempts + 1,
        updated_at=CLOCK,
        next_attempt_at=None,
        name=bindparam("its_name"),
        digest=bindparam("its_digest"),
        num_rows=bindparam("its_rows"),
        num_files=bindparam("its_files"),
        num_bytes=bindparam("its_bytes"),
        milliseconds=bindparam("its_milliseconds"),
        base_version=bindparam("its_base"),
        **NO_ERROR,
    )
    .returning(checkpoints.c.attempts)
)
_SUPERSEDED: Final = delete(checkpoints).where(
    _OF_TABLE,
    checkpoints.c.version < bindparam("of_version"),
    checkpoints.c.version != bindparam("needed"),
    UNWRITTEN,
    checkpoints.c.name.is_(None),
)
_LOG_START: Final = select(tables.c.log_start).where(tables.c.table_id == bindparam("of_table"))
