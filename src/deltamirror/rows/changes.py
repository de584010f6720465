"""Changes of rows, batch by batch: which rows are deleted or updated, and what the others come to.

A change is made of expressions of Arrow, so that it travels to executors. The rows that it is handed have the columns
of the table, and beside them the row ids where the table tracks rows.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from typing import Any, Final, Protocol, Self, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltamirror.delta.actions import Add, Cdc
from deltamirror.delta.properties import change_data_feed
from deltamirror.errors import InvalidInput
from deltamirror.rows.layout import Layout

COPIED: Final = "copied"
DELETED: Final = "deleted"
UPDATED: Final = "updated"

Counts: TypeAlias = Counter[str]
"""How many rows were copied, deleted and updated."""


class ChangeType(StrEnum):
    """The kinds of rows in the change data feed."""

    INSERT = "insert"
    DELETE = "delete"
    BEFORE = "update_preimage"
    AFTER = "update_postimage"


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """What some rows come to: those that are copied as they are, those that have other values, and all counts."""

    copied: pa.RecordBatch
    updated: pa.RecordBatch | None
    counts: Counts
    before: Iterable[tuple[ChangeType, pa.RecordBatch]]
    """The rows that are deleted or updated, as they were; found only if they are asked for."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The files that hold the rows after a change, the paths of those that go, and how many rows were what."""

    adds: Sequence[Add] = ()
    changes: Sequence[Cdc] = ()
    removed: Sequence[str] = ()
    counts: Counts = field(default_factory=Counter)
    is_counted: bool = True
    """Whether the rows of all files are known: files that are removed unread may have no statistics."""


class RowChange(Protocol):
    """A change of the rows of a table."""

    @property
    def columns(self) -> frozenset[str]:
        """The columns by which it finds its rows."""

    @property
    def only_inserts(self) -> bool:
        """Whether no row that is there changes: new files alone tell of the rows that come."""

    def look(self, rows: pa.RecordBatch) -> Counts:
        """How many rows it changes, by what it does to them; only ``columns`` are there."""

    def change(self, rows: pa.RecordBatch) -> ChangedRows:
        """What the rows come to."""

    def inserted(self, counts: Counts) -> Iterable[pa.RecordBatch]:
        """Rows that come beside them, once all files were looked at; they are counted."""

    def report(self) -> object:
        """What a task has to tell of the rows that it looked at."""

    def learn(self, reports: Iterable[Any]) -> "RowChange":
        """The change with what tasks told."""


def has_change_data(change: RowChange, layout: Layout) -> bool:
    """Whether files of change data tell of each row; readers of the feed find rows that only come in new files."""
    return change_data_feed(layout.metadata) and not change.only_inserts


class _RowByRow:
    """A change that judges each row by itself, and adds none."""

    __slots__ = ()

    @property
    def only_inserts(self) -> bool:
        """Never."""
        return False

    def inserted(self, counts: Counts) -> Iterable[pa.RecordBatch]:
        """No rows."""
        return ()

    def report(self) -> object:
        """Nothing."""
        return ()

    def learn(self, reports: Iterable[Any]) -> Self:
        """The same."""
        return self


@dataclass(frozen=True, slots=True)
class DeleteRows(_RowByRow):
    """Deletes the rows of which a condition is true."""

    table: str
    condition: pc.Expression
    columns: frozenset[str]

    def look(self, rows: pa.RecordBatch) -> Counts:
        """How many rows are deleted."""
        return Counter({DELETED: pc.sum(self._matches(rows)).as_py() or 0})

    def change(self, rows: pa.RecordBatch) -> ChangedRows:
        """The rows that stay."""
        matches = self._matches(rows)
        copied = rows.filter(pc.invert(matches))
        counts = Counter({COPIED: copied.num_rows, DELETED: rows.num_rows - copied.num_rows})
        return ChangedRows(copied, None, counts, self._before(rows, matches))

    @staticmethod
    def _before(rows: pa.RecordBatch, matches: pa.BooleanArray) -> Iterator[tuple[ChangeType, pa.RecordBatch]]:
        yield ChangeType.DELETE, rows.filter(matches)

    def _matches(self, rows: pa.RecordBatch) -> pa.BooleanArray:
        return is_true(rows, self.condition, self.table)


@dataclass(frozen=True, slots=True)
class UpdateRows(_RowByRow):
    """Gives columns other values, in the rows of which a condition is true; None: in all."""

    table: str
    condition: pc.Expression | None
    columns: frozenset[str]
    values: Mapping[str, pc.Expression] = field(default_factory=dict)

    def look(self, rows: pa.RecordBatch) -> Counts:
        """How many rows are updated."""
        if self.condition is None:
            return Counter({UPDATED: rows.num_rows})
        return Counter({UPDATED: pc.sum(is_true(rows, self.condition, self.table)).as_py() or 0})

    def change(self, rows: pa.RecordBatch) -> ChangedRows:
        """The rows as they are, and those with other values."""
        if self.condition is None:
            copied, found = rows.slice(0, 0), rows
        else:
            matches = is_true(rows, self.condition, self.table)
            copied, found = rows.filter(pc.invert(matches)), rows.filter(matches)
        updated = with_values(found, found, self.values, self.table)
        counts = Counter({COPIED: copied.num_rows, UPDATED: found.num_rows})
        return ChangedRows(copied, updated, counts, [(ChangeType.BEFORE, found)])


def is_true(rows: pa.RecordBatch, condition: pc.Expression, table: str) -> pa.BooleanArray:
    """Of which rows a condition is true: not of those where it is null."""
    return pc.fill_null(evaluated(rows, [condition], table)[0], False)


def with_values(
    rows: pa.RecordBatch, among: pa.RecordBatch, values: Mapping[str, pc.Expression], table: str
) -> pa.RecordBatch:
    """Rows with other values in some columns, which are computed from ``among``, row by row."""
    computed = dict(zip(values, evaluated(among, list(values.values()), table), strict=True))
    columns = [computed.get(name, column) for name, column in zip(rows.schema.names, rows.columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)


def evaluated(rows: pa.RecordBatch, expressions: Iterable[pc.Expression], table: str) -> list[pa.Array]:
    """The values of expressions for each row, in their order."""
    acero = import_module("pyarrow.acero")  # which brings pandas along, and nothing else waits for it
    wanted = list(expressions)
    source = acero.TableSourceNodeOptions(pa.Table.from_batches([rows]))
    project = acero.ProjectNodeOptions(wanted, [str(number) for number in range(len(wanted))])
    plan = [acero.Declaration("table_source", source), acero.Declaration("project", project)]
    with translated_values(table):
        found = acero.Declaration.from_sequence(plan).to_table(use_threads=False)
    return [_one(column) for column in found.columns]


def _one(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


@contextmanager
def translated_values(table: str) -> Iterator[None]:
    """What Arrow cannot compute, in our words: overflow, division by zero, a value that a column cannot have."""
    try:
        yield
    except (pa.ArrowException, OverflowError) as error:
        raise InvalidInput(
            f"table {table!r}: a value of a row cannot be computed: {error}",
            hint="leave such rows out by another condition, or correct the expression",
        ) from error
