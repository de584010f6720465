"""Keeping the typed columns in step with the lines: which file rows a commit adds, and which it ends."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, TypeGuard

from sqlalchemy import Connection, Table, and_, bindparam, func, select
from sqlalchemy.sql import ColumnElement, Select

from deltamirror.batches import batched
from deltamirror.delta.actions import Action, Add, FileKey, Metadata, Remove
from deltamirror.delta.paths import path_identity
from deltamirror.delta.properties import column_mapping_mode
from deltamirror.delta.replay import reconciliation_key
from deltamirror.delta.validation.rules import violation
from deltamirror.txnlog.content.rows import file_row, path_hash, remove_row, small_row
from deltamirror.txnlog.content.state import decoded_line
from deltamirror.txnlog.database.access import Row, Session
from deltamirror.txnlog.database.number_rows import number_rows, rows_value
from deltamirror.txnlog.database.schema import file_ends, files, metadata, removes, versions

_HASHES_AT_ONCE = 1_000
_MANY_HASHES_AT_ONCE = 100_000
_ROWS_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file row that is part of the table."""

    commit_id: int
    ordinal: int
    key: FileKey


@dataclass(frozen=True, slots=True)
class MetFiles:
    """The rows at the head whose paths a commit names."""

    ended: Sequence[LiveFile] = ()
    """Removed by the commit, or replaced by adding them again."""
    doubled: Sequence[LiveFile] = ()
    """Not ended by the commit, though it adds their paths with other deletion vectors."""
    kept: bool = False
    """Whether some of the files that it ends are added again by it: their data stays."""


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

    def meet(self, session: Session) -> "MetFiles":
        """The file rows at the head that the commit ends, and those that would stay beside it under one path."""
        keys = self.added.keys() | self.removed.keys()
        live = list(live_files(session, self._table_id, [key[0] for key in keys]))
        ended = [file for file in live if file.key in keys]
        if not live:
            return MetFiles(ended)
        paths = {path for path, _ in self.added}
        return MetFiles(
            ended,
            doubled=[file for file in live if file.key not in keys and file.key[0] in paths],
            kept=any(file.key[0] in paths for file in ended),
        )

    def insert(self, session: Session, ended: Iterable[LiveFile]) -> None:
        """Insert the rows, in the order of the path index."""
        session.insert_many(files, sorted(self.added.values(), key=hash_of))
        session.insert_many(removes, sorted(self.removed.values(), key=hash_of))
        insert_ends(session, self._table_id, self._commit_id, ended)


def hash_of(row: Row) -> int:
    """By which rows of files and removes are sorted when they are stored: that is where their index has them."""
    return int(row[1])


def ended_by(version: ColumnElement[int] | int | None = None, *, before: int | None = None) -> ColumnElement[bool]:
    """Whether a row of ``dl_files`` was ended by a ratified commit (up to a version, and before a time)."""
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
    if version is not None:
        ends = ends.where(ender.c.version <= version)
    return (ends if before is None else ends.where(ender.c.committed_at < before)).exists()


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
        return  # the common case, an append of one file that is new, on the driver's cursor
    yield from live_files_in(session.connection, table_id, paths)


def live_files_in(connection: Connection, table_id: int, paths: Sequence[str]) -> Iterator[LiveFile]:
    """The same, for a transaction that only reads."""
    for row in found_by_paths(connection, _LIVE.where(files.c.table_id == table_id), paths):
        yield _live_file(row)


def found_by_paths(connection: Connection, query: Select[Any], paths: Iterable[str]) -> Iterator[Sequence[Any]]:
    """The rows of a query for files that have the hash of one of these paths; other paths of equal hash among them."""
    hashes = sorted({path_hash(path) for path in paths})
    if len(hashes) > _HASHES_AT_ONCE:
        yield from _found_by_many(connection, query, hashes)
    elif hashes:
        # Spelled out, so that a planner knows how few there are.
        yield from connection.execute(query.where(files.c.path_hash.in_(hashes)))


def _found_by_many(connection: Connection, query: Select[Any], hashes: Iterable[int]) -> Iterator[Sequence[Any]]:
    """The same by hashes in their order, a whole list of them as one value: DuckDB scans the table for each list."""
    query = query.where(files.c.path_hash.in_(select(number_rows("hashes", "hash").c.hash)))
    for some in batched(hashes, _MANY_HASHES_AT_ONCE):
        found = connection.execute(query, {"hashes": rows_value((each,) for each in some)})
        yield from chain.from_iterable(found.partitions(_ROWS_AT_ONCE))  # one by one, they take twice as long


def states_ids(action: Action) -> TypeGuard[Add]:
    """Whether a file says itself which row ids it has."""
    return isinstance(action, Add) and action.base_row_id is not None


def require_own_ids(connection: Connection, table_id: int, actions: Iterable[Action], *, index: int = 0) -> None:
    """Refuse a file that states row ids which the table did not give to it: another file has them, or had them.

    ``index`` is that of the first of the actions. Ids in a stage are not given: it is no version yet.
    """
    stated = {path_identity(each.path): (each, place) for place, each in enumerate(actions, index) if states_ids(each)}
    given: set[tuple[str, int]] = set()
    for some in hash_batches(list(stated)):
        for source in (files, removes):
            query = (
                select(source.c.path, source.c.base_row_id)
                .join(versions, versions.c.commit_id == source.c.commit_id)
                .where(source.c.table_id == table_id, source.c.path_hash.in_(some), source.c.base_row_id.is_not(None))
            )
            given |= {(path_identity(row.path), row.base_row_id) for row in connection.execute(query)}
    for path, (add, place) in stated.items():
        if (path, add.base_row_id) not in given:
            raise violation("add.row-ids.others", action="add", index=place, field="baseRowId", found=add.base_row_id)


def staged_overlaps(
    connection: Connection, source: Table, table_id: int, commit_id: int, hashes: Sequence[int]
) -> tuple[set[LiveFile], set[LiveFile]]:
    """The rows at the head whose paths a staged commit adds or removes (``source`` says which).

    ``hashes`` are those of all of these paths.
    First those with the same deletion vector, which the commit ends, then those with another one.
    """
    staged = source.alias("staged")
    query = (
        _LIVE.add_columns(staged.c.path.label("staged_path"), staged.c.dv_id.label("staged_dv_id"))
        .join(staged, (staged.c.table_id == files.c.table_id) & (staged.c.path_hash == files.c.path_hash))
        .where(files.c.table_id == table_id, staged.c.commit_id == commit_id, files.c.commit_id != commit_id)
    )
    same: set[LiveFile] = set()
    others: set[LiveFile] = set()
    # By position: by name, the values of a row cost more than all else.
    for file_commit_id, ordinal, path, dv_id, staged_path, staged_dv_id in _met_by_stage(connection, query, hashes):
        if (identity := path_identity(path)) == path_identity(staged_path):
            found = LiveFile(file_commit_id, ordinal, (identity, dv_id))
            (same if dv_id == staged_dv_id else others).add(found)
    return same, others


def _met_by_stage(connection: Connection, query: Select[Any], hashes: Sequence[int]) -> Iterator[Sequence[Any]]:
    """The rows of a query that joins the files of a stage, which have these hashes, with those of their table.

    SQLite joins by looking up one row after the other, and would begin with all files of the table. The others join by
    hashing: for them, lists of hashes would only be in the way.
    """
    if connection.dialect.name == "sqlite":
        yield from _found_by_many(connection, query, sorted(hashes))
    elif hashes:
        yield from connection.execute(query)


def staged_keys(
    connection: Connection,
    table_id: int,
    commit_id: int,
    paths: Sequence[str],
    *,
    sources: Sequence[Table] = (files, removes),
) -> set[FileKey]:
    """The files among these paths that a staged commit adds or removes; others of equal hash among them."""
    keys: set[FileKey] = set()
    for some in hash_batches(paths):
        for source in sources:
            query = select(source.c.path, source.c.dv_id).where(
                source.c.table_id == table_id, source.c.commit_id == commit_id, source.c.path_hash.in_(some)
            )
            keys.update((path_identity(row.path), row.dv_id) for row in connection.execute(query))
    return keys


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingFiles:
    """The files that a commit leaves in the table, as far as they were there before it.

    The rows that it ends are given, or they are those that a stage has recorded.
    """

    session: Session
    table_id: int
    ended: Collection[LiveFile] = ()
    added: Collection[str] = ()
    """The paths that the commit adds, unless a stage has them."""
    kept: bool = False
    """Whether the commit adds some of the files again that it ends: they count as staying."""
    stage: int | None = None

    def any(self) -> bool:
        """Whether there are any."""
        return self.kept or self._finds(_LIVE)

    def any_without_row_ids(self) -> bool:
        """Whether one of them has no row ids. Files that are added again get them."""
        return self._finds(_LIVE.where(files.c.base_row_id.is_(None)))

    def written_under(self) -> list[Metadata]:
        """The metadata that they may have been written under: all that the table has had."""
        return [each for _, each in self._metadata()]

    def were_there_under(self, wanted: Metadata) -> bool:
        """Whether the table had such columns at a version at which or before which all of them came into it, and all
        files that the commit adds: then readers can read them. It is said only of versions that the history still has.
        """
        history = pairwise(self._metadata())
        alike = [following - 1 for (_, each), (following, _) in history if _has_columns_of(each, wanted)]
        own = versions.c.table_id == self.table_id
        if not alike or not self.session.execute(select(1).where(own, versions.c.version == alike[-1])).first():
            return False
        commits = select(versions.c.commit_id).where(own)
        earlier, later = (
            commits.where(when) for when in (versions.c.version <= alike[-1], versions.c.version > alike[-1])
        )
        if self._finds(_LIVE.where(files.c.commit_id.in_(later), ~_has_row_of(earlier))):
            return False
        if self.stage is not None:
            staged = select(1).where(files.c.table_id == self.table_id, files.c.commit_id == self.stage)
            return self.session.execute(staged.where(~_has_row_of(earlier)).limit(1)).first() is None
        return self._added_among(earlier)

    def _metadata(self) -> list[tuple[int, Metadata]]:
        """All metadata that the table has had, each with the version that it came with."""
        history = select(metadata.c.version, metadata.c.line).where(metadata.c.table_id == self.table_id)
        rows = self.session.execute(history.order_by(metadata.c.version))
        return [(row.version, decoded_line(row.line, Metadata)) for row in rows]

    def _added_among(self, commits: Select[Any]) -> bool:
        """Whether all files that the commit adds were added by these commits before."""
        found: set[str] = set()
        for some in hash_batches(list(self.added)):
            query = select(files.c.path).where(
                files.c.table_id == self.table_id, files.c.path_hash.in_(some), files.c.commit_id.in_(commits)
            )
            found.update(map(path_identity, self.session.execute(query).scalars()))
        return found.issuperset(self.added)

    def _finds(self, query: Select[Any]) -> bool:
        query = query.where(files.c.table_id == self.table_id)
        if self.stage is not None:
            query = query.where(~_ended_in(self.stage))
        ended = {(file.commit_id, file.ordinal) for file in self.ended}
        rows = self.session.execute(query.limit(len(ended) + 1)).all()
        return any((row.commit_id, row.ordinal) not in ended for row in rows)


def _has_row_of(commits: Select[Any]) -> ColumnElement[bool]:
    """Whether one of these commits added the path of a row of ``dl_files``, with whichever deletion vector."""
    same = files.alias("same")
    is_same = (same.c.table_id == files.c.table_id) & (same.c.path_hash == files.c.path_hash)
    return select(1).where(is_same, same.c.path == files.c.path, same.c.commit_id.in_(commits)).exists()


def _has_columns_of(found: Metadata, wanted: Metadata) -> bool:
    """Whether both have the same columns, partitioned and mapped to files alike."""
    return (found.schema_string, found.partition_columns, column_mapping_mode(found)) == (
        wanted.schema_string,
        wanted.partition_columns,
        column_mapping_mode(wanted),
    )


def _ended_in(stage: int) -> ColumnElement[bool]:
    """Whether a stage has recorded that it ends a row of ``dl_files``."""
    return (
        select(1)
        .select_from(file_ends)
        .where(
            file_ends.c.table_id == files.c.table_id,
            file_ends.c.file_commit_id == files.c.commit_id,
            file_ends.c.file_ordinal == files.c.ordinal,
            file_ends.c.commit_id == stage,
        )
        .exists()
    )


def require_live_once(doubled: Iterable[LiveFile]) -> None:
    """Refuse a commit that adds the paths of these files, which stay in the table with other deletion vectors."""
    if (file := next(iter(doubled), None)) is not None:
        path, vector = file.key
        found = f"{path} is there with " + (f"the deletion vector {vector}" if vector else "no deletion vector")
        raise violation("add.path.live-twice", action="add", index=None, field="path", found=found)


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


def newest_by_key(projection: Table, key: str, table_id: int, version: int) -> Select[Any]:
    """The newest row of each key of a projection, as of a version."""
    c = projection.c
    newest = (
        select(c[key], func.max(c.version).label("version"))
        .where(c.table_id == table_id, c.version <= version)
        .group_by(c[key])
        .subquery()
    )
    matches = and_(c.table_id == table_id, c[key] == newest.c[key], c.version == newest.c.version)
    return select(projection).join(newest, matches)


def hash_batches(paths: Iterable[str]) -> Iterator[list[int]]:
    """The hashes of these paths, as many at once as a query takes."""
    return batched(sorted({path_hash(path) for path in paths}), _HASHES_AT_ONCE)


def _live_file(row: Sequence[Any]) -> LiveFile:
    commit_id, ordinal, path, dv_id = row
    return LiveFile(commit_id, ordinal, (path_identity(path), dv_id))
