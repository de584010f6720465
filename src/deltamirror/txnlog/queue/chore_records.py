"""What services have recorded of the chores of tables, to be read."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.engine import Row
from sqlalchemy.sql import ColumnElement

from deltamirror.txnlog.database.schema import maintenance, tables
from deltamirror.work import Chore


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoreRecord:
    """What services know of a chore of a table."""

    chore: Chore
    at: int | None
    """When it was done last; None: never."""
    version: int
    """The version of the table that has nothing left to do; -1: there is none."""
    num_files: int
    """How many files it replaced or deleted then."""
    num_bytes: int
    attempts: int
    """How often it failed since."""
    next_attempt_at: int | None
    """When it is tried again after a failure."""
    error_code: str | None
    error_message: str | None


def records_of(connection: Connection, wanted: ColumnElement[bool]) -> defaultdict[int, dict[Chore, ChoreRecord]]:
    """What is recorded of the chores of these ``tables``, by table."""
    own, found = maintenance.c.table_id == tables.c.table_id, defaultdict[int, dict[Chore, ChoreRecord]](dict)
    for row in connection.execute(select(maintenance).join(tables, own).where(wanted).order_by(maintenance.c.chore)):
        record = _chore_record(row)
        found[row.table_id][record.chore] = record
    return found


def _chore_record(row: Row[Any]) -> ChoreRecord:
    return ChoreRecord(
        chore=Chore(row.chore),
        at=row.done_at,
        version=row.version,
        num_files=row.num_files,
        num_bytes=row.num_bytes,
        attempts=row.attempts,
        next_attempt_at=row.next_attempt_at,
        error_code=row.error_code,
        error_message=row.error_message,
    )
