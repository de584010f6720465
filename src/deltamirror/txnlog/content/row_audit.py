"""The rows of versions and their projections, held against the committed lines: all that the lines determine.

Files of all versions are compared by one pass over their rows and one over the lines, which sum up what each commit
says: rows have no index by commit. Those of a commit whose sums differ are compared one by one.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from sqlalchemy import Connection, Table, func, select
from sqlalchemy.engine import Row as ResultRow

from deltamirror.batches import batched
from deltamirror.delta import lines
from deltamirror.delta.actions import Action, Add, Metadata, Remove
from deltamirror.delta.chunks import Chunk, commit_digest
from deltamirror.errors import DeltaMirrorError
from deltamirror.txnlog.content.line_facts import (
    FILE_COLUMNS,
    REMOVE_COLUMNS,
    UNDETERMINED,
    LineFacts,
    RowSum,
)
from deltamirror.txnlog.content.row_differences import NO_ROW, ROW, RowDifference, RowKind, difference, same_value
from deltamirror.txnlog.content.rows import file_row, remove_row
from deltamirror.txnlog.content.state import in_force
from deltamirror.txnlog.database.access import Database, Row
from deltamirror.txnlog.database.schema import (
    app_transactions,
    chunks,
    domains,
    files,
    metadata,
    protocols,
    removes,
    tables,
    versions,
)

_VERSIONS_AT_ONCE: Final = 500
_ROWS_AT_ONCE: Final = 10_000
_CHUNKS_AT_ONCE: Final = 16
_COMMITS_AT_ONCE: Final = 100
"""So many commits have their files compared one by one in a pass over all rows."""

_FILES: Final = RowKind(table=str(files.name), columns=FILE_COLUMNS, key=("path", "dv_id"), passed_over=UNDETERMINED)
_REMOVES: Final = RowKind(
    table=str(removes.name), columns=REMOVE_COLUMNS, key=("path", "dv_id"), passed_over=UNDETERMINED
)


def _small(table: Table, *key: str) -> RowKind:
    columns = tuple(str(column.name) for column in table.columns)
    return RowKind(table=str(table.name), columns=columns, key=key, passed_over=frozenset({"table_id", "version"}))


_SMALL: Final[Mapping[Table, RowKind]] = {
    metadata: _small(metadata),
    protocols: _small(protocols),
    app_transactions: _small(app_transactions, "app_id"),
    domains: _small(domains, "domain"),
}


def row_differences(database: Database, table_id: int) -> Iterator[RowDifference]:
    """Where rows of a table contradict the lines, from its first version on that is wholly there.

    Of the version that an imported or pruned history begins with, only the lines are: its rows hold a whole state.
    """
    with database.read() as connection:
        yield from _Audit(connection, table_id).run()


class _Audit:
    def __init__(self, connection: Connection, table_id: int) -> None:
        self._connection, self._table_id = connection, table_id
        self._added, self._removed = dict[int, RowSum](), dict[int, RowSum]()
        self._commits = dict[int, int]()
        """The versions by the ids of their commits, of those whose rows are compared."""
        self._metadata: Metadata | None = None

    def run(self) -> Iterator[RowDifference]:
        first = select(tables.c.history_start).where(tables.c.table_id == self._table_id)
        newest = select(func.max(versions.c.version)).where(versions.c.table_id == self._table_id)
        start, last = (self._connection.execute(each).scalar_one() for each in (first, newest))
        if last is None:
            return
        self._metadata = self._metadata_at(start)
        for at in range(start, last + 1, _VERSIONS_AT_ONCE):
            yield from self._window(at, min(at + _VERSIONS_AT_ONCE - 1, last), start=start)
        for kind, table, sums in ((_FILES, files, self._added), (_REMOVES, removes, self._removed)):
            yield from self._files(kind, table, sums)
        yield from self._ordinals()

    def _window(self, first: int, last: int, *, start: int) -> Iterator[RowDifference]:
        own = (versions.c.table_id == self._table_id) & versions.c.version.between(first, last)
        rows = {row.version: row for row in self._connection.execute(select(versions).where(own))}
        for version in sorted(set(range(first, last + 1)) - rows.keys()):
            yield difference(versions, version, "version", ROW, NO_ROW)
        small = self._small_rows(first, last)
        seen = set[int]()
        for version, pieces in self._chunks(first, last):
            seen.add(version)
            row, facts = rows[version], LineFacts()
            yield from self._lines(row, pieces, facts)
            self._metadata = facts.metadata or self._metadata
            is_base = version == start and (version > 0 or not row.num_chunks)
            if not is_base and not facts.is_damaged:
                self._commits[row.commit_id] = version
                self._added[row.commit_id], self._removed[row.commit_id] = facts.added, facts.removed
                yield from _unlike(row, facts.version_values(row, self._metadata))
                for table, kind in _SMALL.items():
                    yield from kind.differences(version, facts.small.get(table, ()), small[table].get(version, ()))
        for version in sorted(rows.keys() - seen):
            if version > start or rows[version].num_chunks:
                yield difference(chunks, version, "chunk", f"{rows[version].num_chunks} rows", NO_ROW)

    def _chunks(self, first: int, last: int) -> Iterator[tuple[int, Iterator[Chunk]]]:
        """The chunks of each version that has some, in order."""
        c = chunks.c
        query = (
            select(versions.c.version, c.codec, c.raw_bytes, c.digest, c.data)
            .join(versions, versions.c.commit_id == c.commit_id)
            .where(versions.c.table_id == self._table_id, versions.c.version.between(first, last))
            .order_by(versions.c.version, c.chunk)
            .execution_options(yield_per=_CHUNKS_AT_ONCE)
        )
        for version, found in groupby(self._connection.execute(query), key=lambda row: int(row.version)):
            yield version, (Chunk(row.codec, row.raw_bytes, bytes(row.digest), bytes(row.data)) for row in found)

    def _lines(self, row: ResultRow[Any], pieces: Iterator[Chunk], facts: LineFacts) -> Iterator[RowDifference]:
        """Take the lines in, and compare what the row of the version says of their bytes."""
        number, size, digests = 0, 0, list[bytes]()
        for piece in pieces:
            number, size = number + 1, size + piece.raw_bytes
            digests.append(piece.digest)
            try:
                facts.take(lines.decode_commit(piece.decoded()))
            except DeltaMirrorError as error:
                facts.is_damaged = True
                yield difference(chunks, row.version, "data", piece.digest.hex(), error.message)
        yield from _unlike(row, {"num_chunks": number, "num_bytes": size, "digest": commit_digest(digests)})

    def _metadata_at(self, version: int) -> Metadata | None:
        try:
            return in_force(self._connection, self._table_id, version)[1]
        except DeltaMirrorError:
            return None  # its row is damaged, which is found when it is compared

    def _small_rows(self, first: int, last: int) -> Mapping[Table, Mapping[int, Sequence[Row]]]:
        """What projections besides those of files have of some versions."""
        found: dict[Table, dict[int, list[Row]]] = {}
        for table in _SMALL:
            own = (table.c.table_id == self._table_id) & table.c.version.between(first, last)
            by_version = found.setdefault(table, defaultdict(list))
            for row in self._connection.execute(select(table).where(own)):
                by_version[row.version].append(tuple(row))
        return found

    def _files(self, kind: RowKind, table: Table, expected: Mapping[int, RowSum]) -> Iterator[RowDifference]:
        found, values = defaultdict[int, RowSum](RowSum), kind.columns.index("partition_values")
        own = select(table).where(table.c.table_id == self._table_id)
        for row in self._connection.execute(own.execution_options(yield_per=_ROWS_AT_ONCE)):
            found[row.commit_id].add(tuple(row), values)
        unlike = [commit_id for commit_id, said in expected.items() if found[commit_id] != said]
        for some in batched(unlike, _COMMITS_AT_ONCE):
            there: defaultdict[int, list[Row]] = defaultdict(list)
            for row in self._connection.execute(own.where(table.c.commit_id.in_(some))):
                there[row.commit_id].append(tuple(row))
            for commit_id in some:
                wanted = self._rows_of_lines(table, commit_id)
                yield from kind.differences(self._commits[commit_id], wanted, there[commit_id])

    def _rows_of_lines(self, table: Table, commit_id: int) -> Iterator[Row]:
        version = self._commits[commit_id]
        for _, pieces in self._chunks(version, version):
            for piece in pieces:
                for action in lines.decode_commit(piece.decoded()):
                    if (row := _file_row(table, action)) is not None:
                        yield row

    def _ordinals(self) -> Iterator[RowDifference]:
        """Which of the adds of a commit ended is told by their numbers."""
        c, differing = files.c, func.count(files.c.ordinal.distinct())
        query = select(c.commit_id, func.count().label("number"), differing.label("differing"))
        of_table = query.where(c.table_id == self._table_id).group_by(c.commit_id).having(func.count() != differing)
        for row in self._connection.execute(of_table):
            if (version := self._commits.get(row.commit_id)) is not None:
                found = f"{row.differing} numbers for {row.number} adds"
                yield difference(files, version, "ordinal", "a number for each add", found)


def _file_row(table: Table, action: Action) -> Row | None:
    if table is files:
        return file_row(0, 0, 0, action) if isinstance(action, Add) else None
    return remove_row(0, 0, 0, action) if isinstance(action, Remove) else None


def _unlike(row: ResultRow[Any], expected: Mapping[str, object]) -> Iterator[RowDifference]:
    for column, wanted in expected.items():
        found = getattr(row, column)
        found = bytes(found) if isinstance(wanted, bytes) else found
        if not same_value(column, wanted, found):
            yield difference(versions, row.version, column, wanted, found)
