"""The history of a table: its versions, when they were committed, and the bytes of each."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, select
from sqlalchemy.engine import Row

from deltamirror.delta import lines
from deltamirror.delta.actions import CommitInfo
from deltamirror.delta.chunks import Chunk
from deltamirror.errors import InvalidInput, NotFound
from deltamirror.txnlog.content.chunks import commit_bytes
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.database.schema import chunks, versions
from deltamirror.txnlog.tables.registry import TableInfo, table_info

_COMMIT_INFO: Final = re.compile(rb'^\s*\{\s*"commitInfo".*$', re.MULTILINE)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One commit of a table."""

    version: int
    timestamp: int
    operation: str | None
    parameters: Mapping[str, object]
    metrics: Mapping[str, str]
    is_blind_append: bool
    engine_info: str | None
    txn_id: str
    user_metadata: str | None
    kind: str
    num_lines: int
    num_bytes: int
    num_added: int
    num_removed: int
    digest: str


def history(database: Database, name: str, *, limit: int | None = None) -> list[HistoryEntry]:
    """The commits of a table, newest first."""
    if limit is not None and limit < 0:
        raise InvalidInput(f"a history of {limit} commits was asked for", hint="leave the limit out to see all of them")
    with database.read() as connection:
        info = table_info(connection, name)
        query = (
            select(versions, chunks.c.codec, chunks.c.raw_bytes, chunks.c.digest.label("chunk_digest"), chunks.c.data)
            .outerjoin(chunks, (chunks.c.commit_id == versions.c.commit_id) & (chunks.c.chunk == 0))
            .where(versions.c.table_id == info.id, versions.c.version >= info.history_start)
            .order_by(versions.c.version.desc())
            .limit(limit)
        )
        return [_entry(row) for row in connection.execute(query)]


def commit_file(database: Database, name: str, version: int) -> bytes:
    """The bytes of a commit: what ``_delta_log/`` holds for this version."""
    with database.read() as connection:
        info = table_info(connection, name)
        c = versions.c
        query = select(c.commit_id, c.num_chunks).where(c.table_id == info.id, c.version == version)
        row = connection.execute(query).one_or_none()
        if row is None or version < info.history_start:
            raise no_such_version(connection, info, version, None)
        if not row.num_chunks:
            raise NotFound(
                f"table {name!r} has no commit file of version {version}: its log began with a checkpoint alone",
                hint="the state of that version is there, as a snapshot",
                table=name,
                version=version,
            )
        return commit_bytes(connection, row.commit_id)


def milliseconds_of(moment: int | str | datetime) -> int:
    """A time in milliseconds since 1970; a text is as ISO 8601 has it, in UTC where it names no zone."""
    if isinstance(moment, int):
        return moment
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            raise InvalidInput(
                f"{moment!r} is not a time", hint="write it like 2024-05-01T12:00:00Z (without a zone, it is UTC)"
            ) from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(milliseconds=1)  # seconds as a float would lose the last digit


def no_such_version(
    connection: Connection, table: TableInfo, version: int | None, as_of: int | str | datetime | None
) -> NotFound:
    """The error for a version, or a time, that the history of a table does not have."""
    name, oldest = table.name, table.history_start
    hint = f"`deltamirror table history {name}` shows the versions and their times"
    if version is not None or as_of is None:
        message = f"table {name!r} has no version {version}: it has {oldest} to {table.head}"
        if version is not None and 0 <= version < oldest:
            hint = f"earlier versions were pruned from the catalog, or never imported; {hint}"
        return NotFound(message, hint=hint, table=name, version=version)
    c = versions.c
    began_at = select(c.committed_at).where(c.table_id == table.id, c.version == oldest)
    begin = int(connection.execute(began_at).scalar_one())
    asked, started = _spelled(milliseconds_of(as_of)), _spelled(begin)
    return NotFound(f"table {name!r} has no version at {asked}: it begins at {started}", hint=hint, table=name)


def _spelled(milliseconds: int) -> str:
    try:
        return (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds")
    except OverflowError:  # before the year 1
        return f"{milliseconds} ms"


def _entry(row: Row[Any]) -> HistoryEntry:
    info = CommitInfo() if row.codec is None else _commit_info(row)
    parameters = info.operation_parameters or {}
    return HistoryEntry(
        version=row.version,
        timestamp=row.committed_at,
        operation=row.operation,
        parameters={name: msgspec.json.decode(raw) for name, raw in parameters.items()},
        metrics=info.operation_metrics or {},
        is_blind_append=row.is_blind_append,
        engine_info=info.engine_info,
        txn_id=row.txn_id,
        user_metadata=info.user_metadata,
        kind=row.kind,
        num_lines=row.num_lines,
        num_bytes=row.num_bytes,
        num_added=row.num_added,
        num_removed=row.num_removed,
        digest=bytes(row.digest).hex(),
    )


def _commit_info(row: Row[Any]) -> CommitInfo:
    """What a commit says of itself; in the lines of other writers, not always first."""
    first = Chunk(row.codec, row.raw_bytes, bytes(row.chunk_digest), bytes(row.data)).decoded()
    found = _COMMIT_INFO.search(first)
    action = None if found is None else lines.decode(found[0])
    return action if isinstance(action, CommitInfo) else CommitInfo()
