"""What the logs of tables should hold, as SQL knows it: their objects, with sizes and digests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import Connection, func, select
from sqlalchemy.engine import Row
from sqlalchemy.sql import ColumnElement, Select

from deltamirror.batches import batched
from deltamirror.config import Switch
from deltamirror.delta.names import commit_key
from deltamirror.txnlog.content.near_names import no_such_table
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.schema import (
    UNWRITTEN,
    checkpoints,
    chunks,
    heads,
    mirror_status,
    reconciliations,
    tables,
    versions,
)
from deltamirror.txnlog.queue.pause import ALL_PAUSED
from deltamirror.txnlog.tables.switch import is_switched_on
from deltamirror.work import ExpectedObject, Status

_COMMITS_AT_ONCE = 1_000

_Pieces = tuple[tuple[int, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLog:
    """The log of a table, and when it was last held against its records."""

    table_id: int
    name: str
    location: str
    log_start: int
    published: int
    """-1 while nothing is."""
    head: int
    cursor: int
    """The version that the next sample begins with."""
    looked_at: int
    """When it was last held against its records, or came under SQL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCommit:
    """The commit of a version, as it has to be in the log once it is published."""

    object: ExpectedObject
    is_published: bool
    published_at: int | None
    """When it was put there, also if it is no longer; None where it never was."""
    is_put_by_others: bool
    """Whether another writer put it there: it was imported or adopted."""

    @property
    def version(self) -> int:
        """The version."""
        return self.object.version


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCheckpoint:
    """A checkpoint that is recorded as written."""

    version: int
    name: str
    num_bytes: int
    digest: bytes | None
    """None where it is not known what the file holds."""
    written_at: int


def kept_logs(connection: Connection, switch: Switch, *, idle_ms: int = 0) -> list[KeptLog]:
    """The logs that are mirrored to, but for those that were compared within this time; the longest ago first."""
    query = _LOGS.where(*_are_mirrored(switch))
    if idle_ms:
        query = query.where(_looked_at <= CLOCK - idle_ms)
    return [_log(row) for row in connection.execute(query)]


def comparisons(connection: Connection, switch: Switch) -> tuple[int, int] | None:
    """How many milliseconds ago a log was last compared, and that which waits longest; None where there is no log.

    Where none was ever compared, the time since the first of them came under SQL.
    """
    ages = select(CLOCK - func.max(reconciliations.c.reconciled_at), CLOCK - func.min(_looked_at))
    ages = (
        ages.select_from(tables)
        .join(heads, heads.c.table_id == tables.c.table_id)
        .outerjoin(reconciliations, reconciliations.c.table_id == tables.c.table_id)
    )
    mirrored = ages.where(*_are_mirrored(switch))
    last, longest = cast("tuple[int | None, int | None]", connection.execute(mirrored).one())
    return None if longest is None else (int(longest if last is None else last), int(longest))


def _are_mirrored(switch: Switch) -> tuple[ColumnElement[bool], ...]:
    return ~tables.c.mirror_paused, tables.c.quarantined_at.is_(None), ~ALL_PAUSED, is_switched_on(switch)


def every_log(connection: Connection) -> list[KeptLog]:
    """The logs of all tables, whether or not they are mirrored to."""
    return [_log(row) for row in connection.execute(_LOGS)]


def kept_log(connection: Connection, name: str) -> KeptLog:
    """The log of one table, whether or not it is mirrored to."""
    row = connection.execute(_LOGS.where(tables.c.name == name)).one_or_none()
    if row is None:
        raise no_such_table(connection, name)
    return _log(row)


def kept_log_again(connection: Connection, log: KeptLog) -> KeptLog:
    """A log as it is by now: another table may have the name. NotFound if its table was dropped."""
    row = connection.execute(_LOGS.where(tables.c.table_id == log.table_id)).one_or_none()
    if row is None:
        raise no_such_table(connection, log.name)
    return _log(row)


def kept_commits(connection: Connection, table_id: int, *, first: int, last: int) -> list[KeptCommit]:
    """The commits from one version to another, in order. The first of an imported table may have had no file."""
    c, status = versions.c, mirror_status.c
    own = (status.table_id == c.table_id) & (status.version == c.version)
    query: Select[Any] = (
        select(c.version, c.commit_id, c.num_bytes, c.num_chunks, c.digest, c.kind)
        .add_columns(status.state, status.published_at, status.upload_us)
        .join(mirror_status, own)
        .where(c.table_id == table_id, c.version.between(first, last), c.num_chunks > 0)
        .order_by(c.version)
    )
    rows = connection.execute(query).all()
    large = _pieces(connection, [row.commit_id for row in rows if row.num_chunks > 1])
    return [_commit(row, large.get(row.commit_id)) for row in rows]


def kept_checkpoints(connection: Connection, table_id: int, *, first: int) -> list[KeptCheckpoint]:
    """The checkpoints that are written, from a version on, in order."""
    c = checkpoints.c
    written = (c.table_id == table_id) & (c.version >= first) & (c.state == Status.SUCCESS) & c.name.is_not(None)
    query: Select[Any] = select(c.version, c.name, c.num_bytes, c.digest, c.updated_at).where(written)
    return [_checkpoint(row) for row in connection.execute(query.order_by(c.version))]


def count_unpublished(connection: Connection, table_id: int, *, last: int) -> int:
    """How many versions up to one are not in the log, as far as is recorded."""
    c = mirror_status.c
    waiting = (c.table_id == table_id) & (c.version <= last) & (c.state != Status.SUCCESS)
    return int(connection.execute(select(func.count()).where(waiting)).scalar_one())


def lost_checkpoints(connection: Connection, table_id: int) -> list[int]:
    """The checkpoints that were written, and are not in the log as they should be: they are written again."""
    c = checkpoints.c
    lost = (c.table_id == table_id) & c.name.is_not(None) & UNWRITTEN
    return list(connection.execute(select(c.version).where(lost)).scalars())


_looked_at = func.coalesce(reconciliations.c.reconciled_at, tables.c.created_at)
_LOGS: Select[Any] = (
    select(
        tables.c.table_id,
        tables.c.name,
        tables.c.location,
        tables.c.log_start,
        tables.c.published_version.label("published"),
        heads.c.version.label("head"),
        func.coalesce(reconciliations.c.cursor, 0).label("cursor"),
        _looked_at.label("looked_at"),
    )
    .join(heads, heads.c.table_id == tables.c.table_id)
    .outerjoin(reconciliations, reconciliations.c.table_id == tables.c.table_id)
    .order_by(_looked_at, tables.c.table_id)
)


def _log(row: Row[Any]) -> KeptLog:
    return KeptLog(**row._asdict())


def _commit(row: Row[Any], pieces: _Pieces | None) -> KeptCommit:
    key = commit_key(row.version)
    whole = ((row.num_bytes, bytes(row.digest)),) if pieces is None else pieces
    expected = ExpectedObject(version=row.version, key=key, pieces=whole)
    is_published = row.state == Status.SUCCESS
    return KeptCommit(
        object=expected,
        is_published=is_published,
        published_at=row.published_at,
        is_put_by_others=is_published and row.kind == "verbatim" and row.upload_us is None,
    )


def _pieces(connection: Connection, commit_ids: Sequence[int]) -> Mapping[int, _Pieces]:
    """The sizes and digests of commits that have several chunks."""
    found: dict[int, list[tuple[int, bytes]]] = {each: [] for each in commit_ids}
    c = chunks.c
    for some in batched(commit_ids, _COMMITS_AT_ONCE):
        query = select(c.commit_id, c.raw_bytes, c.digest).where(c.commit_id.in_(some)).order_by(c.commit_id, c.chunk)
        for row in connection.execute(query):
            found[row.commit_id].append((row.raw_bytes, bytes(row.digest)))
    return {commit_id: tuple(pieces) for commit_id, pieces in found.items()}


def _checkpoint(row: Row[Any]) -> KeptCheckpoint:
    return KeptCheckpoint(
        version=row.version,
        name=row.name,
        num_bytes=row.num_bytes,
        digest=None if row.digest is None else bytes(row.digest),
        written_at=row.updated_at,
    )
