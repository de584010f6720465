"""Maintenance that services do by themselves: the facts that it is due by, and the records of what was done.

A service that maintains a table holds its lease of the lane MAINTENANCE: no other service does meanwhile.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, case, func, or_, select
from sqlalchemy.sql import ColumnElement, Select

from deltamirror.config import Switch
from deltamirror.delta.actions import Metadata
from deltamirror.errors import DeltaMirrorError
from deltamirror.steps import Step
from deltamirror.txnlog.content.projection import ended_by
from deltamirror.txnlog.content.state import decoded_line
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.schema import checkpoints, files, heads, maintenance, metadata, tables, versions
from deltamirror.txnlog.database.upsert import upsert
from deltamirror.txnlog.queue.chore_records import ChoreRecord, records_of
from deltamirror.txnlog.queue.leases import under
from deltamirror.txnlog.queue.pause import ALL_PAUSED
from deltamirror.txnlog.tables.switch import is_switched_on
from deltamirror.work import Chore, Lease, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainedTable:
    """A table that may be maintained: one that is mirrored, and not in quarantine."""

    table_id: int
    name: str
    location: str
    head: int
    head_at: int
    metadata_version: int
    at: int
    """The time by the database's clock."""
    records: Mapping[Chore, ChoreRecord] = field(default_factory=dict)

    @property
    def optimized_version(self) -> int:
        """The version of which nothing is left to put together; -1: there is none."""
        return self._version_of(Chore.OPTIMIZE)

    @property
    def compacted_version(self) -> int:
        """The version up to which there are compactions, or need not be; -1: there is none."""
        return self._version_of(Chore.COMPACT)

    def _version_of(self, chore: Chore) -> int:
        done = self.records.get(chore)
        return -1 if done is None else done.version


def maintained_tables(connection: Connection, switch: Switch, *, with_property: str = "") -> list[MaintainedTable]:
    """The tables that may be maintained, by id; ``with_property``: those with a property that begins so."""
    return _tables(connection, switch, tables.c.name.is_not(None), with_property)


def maintained_table(connection: Connection, switch: Switch, table_id: int) -> MaintainedTable | None:
    """One of them; None where it may not, or is gone."""
    found = _tables(connection, switch, tables.c.table_id == table_id)
    return found[0] if found else None


def metadata_of(connection: Connection, table: MaintainedTable) -> Metadata:
    """The metadata of a table."""
    own = (metadata.c.table_id == table.table_id) & (metadata.c.version == table.metadata_version)
    return decoded_line(connection.execute(select(metadata.c.line).where(own)).scalar_one(), Metadata)


def count_small_files(connection: Connection, table: MaintainedTable, *, below: int) -> int:
    """How many live files came with rows since a table was optimized that can be put together with others.

    These are files of less than so many bytes, but for one that is alone in its partition, and files with deletion
    vectors.
    """
    small = files.c.data_change & or_(files.c.size < below, files.c.deletion_vector.is_not(None))
    added = (versions.c.version > table.optimized_version) & (versions.c.version <= table.head)
    each = (
        select(func.count().label("number"))
        .select_from(files)
        .join(versions, versions.c.commit_id == files.c.commit_id)
        .where(files.c.table_id == table.table_id, added, small, ~ended_by(table.head))
        .group_by(files.c.partition_values)
        .having(or_(func.count() > 1, func.count(files.c.deletion_vector) > 0))
        .subquery()
    )
    return int(connection.execute(select(func.coalesce(func.sum(each.c.number), 0))).scalar_one())


def versions_to_compact(connection: Connection, table: MaintainedTable) -> tuple[int, int]:
    """After which version commits of the log are in no checkpoint and in no compaction, and the last that is there.

    A log that began with a checkpoint has no commit of that version.
    """
    c = checkpoints.c
    written = (c.table_id == tables.c.table_id) & (c.state == Status.SUCCESS)
    newest = select(func.max(c.version)).where(written).correlate(tables).scalar_subquery()
    first = (versions.c.table_id == tables.c.table_id) & (versions.c.version == tables.c.log_start)
    query = (
        select(
            tables.c.published_version,
            (tables.c.log_start - case((versions.c.num_chunks > 0, 1), else_=0)).label("before"),
            func.coalesce(newest, -1).label("checkpoint"),
        )
        .join(versions, first)
        .where(tables.c.table_id == table.table_id)
    )
    row = connection.execute(query).one()
    return max(row.checkpoint, row.before, table.compacted_version), row.published_version


def record_done(
    database: Database, lease: Lease, chore: Chore, *, seconds: float, version: int, num_files: int, num_bytes: int
) -> None:
    """A chore was done: after which version there is nothing left to do, and how much there was."""
    values = {"done_at": CLOCK, "version": version, "num_files": num_files, "num_bytes": num_bytes}
    _record(database, lease, chore, seconds=seconds, values={**values, **_WELL})


def record_failure(
    database: Database,
    lease: Lease,
    chore: Chore,
    error: DeltaMirrorError,
    *,
    seconds: float,
    attempts: int,
    pause: float,
) -> None:
    """A chore failed, for so many times in a row, and is tried again after a pause."""
    failed = {"attempts": attempts, "next_attempt_at": CLOCK + int(pause * 1_000)}
    named = {"error_code": error.code, "error_message": error.message}
    _record(database, lease, chore, seconds=seconds, values={**failed, **named})


_WELL = {"attempts": 0, "next_attempt_at": None, "error_code": None, "error_message": None}
_NEVER = {"done_at": None, "version": -1, "num_files": 0, "num_bytes": 0}

_TABLES: Select[Any] = (
    select(
        tables.c.table_id,
        tables.c.name,
        tables.c.location,
        heads.c.version.label("head"),
        heads.c.committed_at.label("head_at"),
        heads.c.metadata_version,
        CLOCK.label("at"),
    )
    .join(heads, heads.c.table_id == tables.c.table_id)
    .where(~tables.c.mirror_paused, tables.c.quarantined_at.is_(None), ~ALL_PAUSED)
    .where(heads.c.diverged_version.is_(None))
    .order_by(tables.c.table_id)
)


def _tables(
    connection: Connection, switch: Switch, wanted: ColumnElement[bool], with_property: str = ""
) -> list[MaintainedTable]:
    query = _TABLES.where(wanted, is_switched_on(switch))
    if with_property:
        own = (metadata.c.table_id == tables.c.table_id) & (metadata.c.version == heads.c.metadata_version)
        query = query.join(metadata, own).where(metadata.c.line.contains(f'"{with_property}', autoescape=True))
    rows = connection.execute(query).all()
    records = records_of(connection, wanted)
    return [MaintainedTable(**row._asdict(), records=records[row.table_id]) for row in rows]


def _record(database: Database, lease: Lease, chore: Chore, *, seconds: float, values: Mapping[str, object]) -> None:
    with under(database, Step.RECORD_MAINTENANCE, lease, seconds=seconds) as session:
        first = {**_NEVER, **_WELL, **values}
        done = upsert(maintenance).values(table_id=lease.table_id, chore=chore.value, **first)
        again = {name: done.excluded[name] for name in values}
        key = [maintenance.c.table_id, maintenance.c.chore]
        session.execute(done.on_conflict_do_update(index_elements=key, set_=again))
