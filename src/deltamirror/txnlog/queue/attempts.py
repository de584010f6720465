"""Attempts at versions and checkpoints, as rows: what failed where and why, and the attempt that succeeded after it."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, delete, func, insert, literal, select

from deltamirror.errors import DeltaMirrorError, Diverged
from deltamirror.txnlog.database.access import Session
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.schema import attempts
from deltamirror.work import Failure, Lease, Status

_LONGEST_MESSAGE = 2_000
_FIRST_KEPT = 20
_LAST_KEPT = 80

NO_ERROR: Mapping[str, Any] = {"error_code": None, "error_message": None, "error_stage": None, "error_key": None}
"""What the columns of an error hold where there is none."""

ATTEMPT_COLUMNS = [
    "table_id", "version", "lane", "epoch", "attempt", "owner", "started_at", "ended_at", "outcome"
]  # fmt: skip


def attempt_values(lease: Lease, count: Any, started: Any, outcome: Status) -> list[Any]:
    """The values of the columns of an attempt, after table and version."""
    return [
        literal(lease.lane.value),
        literal(lease.epoch),
        count,
        literal(lease.owner),
        started,
        CLOCK,
        literal(outcome.value),
    ]


def insert_attempt(
    session: Session, lease: Lease, version: int, count: int, started: Any, failure: Failure | None = None
) -> None:
    """Write an attempt down: one that succeeded, or why it did not.

    Of a version that is tried for days the first attempts stay, and the last.
    """
    outcome = Status.SUCCESS if failure is None else Status.FAILED
    values = [lease.table_id, version, *attempt_values(lease, count, started, outcome)]
    named = dict(zip(ATTEMPT_COLUMNS, values, strict=True))
    why = {} if failure is None else {**error_values(failure), **_digests(failure.error)}
    session.execute(insert(attempts).values(**named, **why))
    if count > _FIRST_KEPT + _LAST_KEPT:
        c = attempts.c
        own = (c.table_id == lease.table_id) & (c.version == version) & (c.lane == lease.lane.value)
        session.execute(delete(attempts).where(own, c.attempt == count - _LAST_KEPT))


def findings_within(connection: Connection, milliseconds: int) -> dict[int, int]:
    """How many objects of each table's log a comparison found missing or altered within so many milliseconds."""
    c = attempts.c
    found = select(c.table_id, func.count().label("objects")).where(c.epoch < 0, c.ended_at > CLOCK - milliseconds)
    return {row.table_id: row.objects for row in connection.execute(found.group_by(c.table_id))}


def error_values(failure: Failure) -> Mapping[str, Any]:
    """What the columns of an error hold."""
    return {
        "error_code": failure.error.code,
        "error_message": stored_message(failure.error),
        "error_stage": failure.stage.value,
        "error_key": _storable(failure.key),
    }


def stored_message(error: DeltaMirrorError) -> str:
    """What an error says, as far as a row keeps it."""
    return _storable(error.message)[:_LONGEST_MESSAGE]


def _digests(error: DeltaMirrorError) -> Mapping[str, Any]:
    if not isinstance(error, Diverged):
        return {}
    return {"expected_digest": error.expected or None, "found_digest": error.found or None}


def _storable(text: str) -> str:
    """A text that every database takes: messages of stores and drivers may hold anything."""
    return text.encode(errors="replace").decode().replace("\x00", "\ufffd")
