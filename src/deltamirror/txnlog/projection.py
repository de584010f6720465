"""Keeping the typed columns in step with the lines: which file rows a commit adds, and which it ends."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, bindparam, select
from sqlalchemy.engine import Row as ResultRow
from sqlalchemy.sql import ColumnElement, Select

from deltamirror.delta.actions import Action, Add, FileKey, Remove
from deltamirror.delta.paths import path_identity
from deltamirror.delta.replay import reconciliation_key
from deltamirror.txnlog.database import Row, Session
from deltamirror.txnlog.rows import file_row, path_hash, remove_row, small_row
from deltamirror.txnlog.schema import file_ends, files, removes, versions

__all__ = [
    "FileChanges",
    "LiveFile",
    "ended_by",
    "hash_batches",
    "insert_ends",
    "insert_missing_ends",
    "insert_small_actions",
    "live_files",
    "live_files_in",
    "staged_keys",
    "staged_overlaps",
]

_HASHES_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file row that is part of the table."""

    commit_id: int
    ordinal: int
    key: FileKey


class FileChanges:
    """The file actions of one commit that is being ratified, as rows."""

    def __init__(self, table_id: int, commit_id: int, actions: Iterable[Action]) -> None:
        self._table_id = table_id
        self._commit_id = commit_id
        self.added: dict[FileKey, Row] = {}
        self.removed: dict[FileKey, Row] = {}
        for ordinal, action in enumerate(actions):
            if isinstance(action, Add):
                self.added[reconciliation_key(action)] = file_row(table_id, commit_id, ordinal, action)
            elif isinstance(action, Remove):
                self.removed[reconciliation_key(action)] = remove_row(table_id, commit_id, ordinal, action)

    def __bool__(self) -> bool:
        return bool(self.added) or bool(self.removed)

    def missing(self, ended: Iterable[LiveFile]) -> set[FileKey]:
        """The files that the commit removes and the table does not have."""
        return self.removed.keys() - {file.key for file in ended}

    def ended(self, session: Session) -> list[LiveFile]:
        """The file rows that the commit ends: removed by it, or replaced by adding them again."""
        keys = self.added.keys() | self.removed.keys()
        return [file for file in live_files(session, self._table_id, [key[0] for key in keys]) if file.key in keys]

    def insert(self, session: Session, ended: Iterable[LiveFile]) -> None:
        """Insert the rows, in the order of the path index."""
        session.insert_many(files, sorted(self.added.values(), key=_hash_of))
        session.insert_many(removes, sorted(self.removed.values(), key=_hash_of))
        insert_ends(session, self._table_id, self._commit_id, ended)


def _hash_of(row: Row) -> int:
    return int(row[1])


def ended_by(version: ColumnElement[int] | int | None = None) -> ColumnElement[bool]:
    """Whether a row of ``dl_files`` was ended by a ratified commit (up to a version)."""
    ender = versions.alias("ender")
    ends = (
        select(1)
        .select_from(file_ends)
        .join(ender, ender.c.commit_id == file_ends.c.commit_id)
        .where(
            file_ends.c.table_id == files.c.table_id,
            file_ends.c.file_commit_id == files.c.commit_id,
            file_ends.c.file_ordinal == files.c.ordinal,
        )
    )
    return (ends if version is None else ends.where(ender.c.version <= version)).exists()


_LIVE: Select[Any] = (
    select(files.c.commit_id, files.c.ordinal, files.c.path, files.c.dv_id)
    .join(versions, versions.c.commit_id == files.c.commit_id)
    .where(~ended_by())
)

_BY_HASH = select(files.c.commit_id).where(
    files.c.table_id == bindparam("table_id"), files.c.path_hash == bindparam("path_hash")
)


def live_files(session: Session, table_id: int, paths: Sequence[str]) -> Iterator[LiveFile]:
    """The rows of these paths that are part of the table at its head; other paths of equal hash among them."""
    if len(paths) == 1 and not session.rows(_BY_HASH, {"table_id": table_id, "path_hash": path_hash(paths[0])}):
        return  # the common case, an append of one file that nobody has seen, on the driver's cursor
    yield from live_files_in(session.connection, table_id, paths)


def live_files_in(connection: Connection, table_id: int, paths: Sequence[str]) -> Iterator[LiveFile]:
    """The same, for a transaction that only reads."""
    for some in hash_batches(paths):
        query = _LIVE.where(files.c.table_id == table_id, files.c.path_hash.in_(some))
        for row in connection.execute(query).all():
            yield _live_file(row)


def staged_overlaps(connection: Connection, source: Table, table_id: int, commit_id: int) -> Iterator[LiveFile]:
    """The rows at the head that a staged commit ends, by its adds or by its removes (``source`` says which)."""
    staged = source.alias("staged")
    query = (
        _LIVE.add_columns(staged.c.path.label("staged_path"), staged.c.dv_id.label("staged_dv_id"))
        .join(staged, (staged.c.table_id == files.c.table_id) & (staged.c.path_hash == files.c.path_hash))
        .where(staged.c.table_id == table_id, staged.c.commit_id == commit_id, files.c.commit_id != commit_id)
    )
    for row in connection.execute(query):
        found = _live_file(row)
        if found.key == (path_identity(row.staged_path), row.staged_dv_id):
            yield found


def staged_keys(connection: Connection, table_id: int, commit_id: int, paths: Sequence[str]) -> set[FileKey]:
    """The files among these paths that a staged commit adds or removes; others of equal hash among them."""
    keys: set[FileKey] = set()
    for some in hash_batches(paths):
        for source in (files, removes):
            query = select(source.c.path, source.c.dv_id).where(
                source.c.table_id == table_id, source.c.commit_id == commit_id, source.c.path_hash.in_(some)
            )
            keys.update((path_identity(row.path), row.dv_id) for row in connection.execute(query))
    return keys


def insert_ends(session: Session, table_id: int, commit_id: int, ended: Iterable[LiveFile]) -> None:
    """Record that a commit ends these files."""
    rows = sorted((table_id, file.commit_id, file.ordinal, commit_id) for file in ended)
    session.insert_many(file_ends, rows)


def insert_missing_ends(session: Session, table_id: int, commit_id: int, ended: Collection[LiveFile]) -> None:
    """Record that a commit ends these files, but for those of which that is recorded already."""
    if not ended:
        return
    mine = (file_ends.c.table_id == table_id) & (file_ends.c.commit_id == commit_id)
    there = select(file_ends.c.file_commit_id, file_ends.c.file_ordinal).where(mine)
    known = {tuple(row) for row in session.execute(there)}
    insert_ends(session, table_id, commit_id, [file for file in ended if (file.commit_id, file.ordinal) not in known])


def insert_small_actions(session: Session, table_id: int, version: int, actions: Iterable[Action]) -> None:
    """Project what a commit has besides files: metadata, protocol, application transactions, domains."""
    for action in actions:
        if (found := small_row(table_id, version, action)) is not None:
            projection, row = found
            session.insert_many(projection, [row])


def hash_batches(paths: Iterable[str]) -> Iterator[list[int]]:
    """The hashes of these paths, as many at once as a query takes."""
    hashes = sorted({path_hash(path) for path in paths})
    for start in range(0, len(hashes), _HASHES_AT_ONCE):
        yield hashes[start : start + _HASHES_AT_ONCE]


def _live_file(row: ResultRow[Any]) -> LiveFile:
    return LiveFile(row.commit_id, row.ordinal, (path_identity(row.path), row.dv_id))
