"""A merge, batch by batch: the rows of a table are joined with those of a source, and clauses say what becomes of them.

Joined rows have two columns, the structs ``target`` and ``source``. The first clause whose condition holds decides
about a row. The source is held in memory; the table is not.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import and_
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from deltamirror.errors import InvalidInput
from deltamirror.rows.changes import (
    COPIED,
    DELETED,
    UPDATED,
    ChangedRows,
    ChangeType,
    Counts,
    evaluated,
    is_true,
    with_values,
)
from deltamirror.rows.expressions import Path
from deltamirror.rows.writing import row_numbers

TARGET: Final = "target"
SOURCE: Final = "source"
INSERTED: Final = "inserted"
BY_SOURCE: Final = " by source"
"""What is said behind a count of rows that the source does not have."""

_TOP: Final = 2
"""The names of a column of the table: its side, and its own."""


@dataclass(frozen=True, slots=True)
class Clause:
    """What becomes of rows of which a condition is true; None: of all. Without values, they are deleted."""

    condition: pc.Expression | None
    values: Mapping[str, pc.Expression] | None = None

    @property
    def counted_as(self) -> str:
        """The name of its count."""
        return DELETED if self.values is None else UPDATED


@dataclass(frozen=True)  # no slots: the keys of the source are found once
class MergeRows:
    """Changes rows by those of a source that match them; ``keys`` are values that are equal where rows match."""

    table: str
    columns: frozenset[str]
    source: pa.Table
    keys: Sequence[tuple[pc.Expression, pc.Expression]]
    key_paths: Sequence[Path | None]
    """The columns of the table that are keys by themselves."""
    on: pc.Expression
    matched: Sequence[Clause] = ()
    not_matched: Sequence[Clause] = ()
    by_source: Sequence[Clause] = ()
    _seen: list[pa.Array] = field(default_factory=list, compare=False, repr=False)
    """The rows of the source that matched a row of the table."""

    @property
    def only_inserts(self) -> bool:
        """Whether rows that match stay as they are, and so do the others."""
        return not self.matched and not self.by_source

    def key_bounds(self) -> pc.Expression | None:
        """What has to be possible in a file with rows that match; None: nothing is known."""
        columns = [each[1] if each is not None and len(each) == _TOP else None for each in self.key_paths]
        keys = zip(columns, evaluated(self._source_rows, [other for _, other in self.keys], self.table), strict=True)
        known = [_between(pc.field(name), values) for name, values in keys if name is not None and _is_ordered(values)]
        return reduce(and_, known) if known else None

    def look(self, rows: pa.RecordBatch) -> Counts:
        """How many rows are updated and deleted; it takes down which rows of the source matched."""
        found = self._joined(rows)
        self._seen.append(found.sources.unique())
        return self._counts(found)

    def change(self, rows: pa.RecordBatch) -> ChangedRows:
        """What the rows come to."""
        found = self._joined(rows)
        updated = list(self._updated(rows, found))
        touched = pa.chunked_array([found.targets.filter(pc.is_valid(found.acts)), *found.orphans_that_go])
        copied = rows.filter(pc.invert(pc.is_in(row_numbers(rows.num_rows), value_set=touched.combine_chunks())))
        counts = self._counts(found) + Counter({COPIED: copied.num_rows})
        return ChangedRows(copied, pa.concat_batches(updated) if updated else None, counts, self._before(rows, found))

    def inserted(self, counts: Counts) -> Iterator[pa.RecordBatch]:
        """The rows that the source has and the table has not; to be asked once all files were looked at."""
        numbers = row_numbers(self.source.num_rows)
        missing = numbers.filter(pc.invert(pc.is_in(numbers, value_set=self.report())))
        yield from self.insertions(self._source_rows.take(missing), counts)

    def insertions(self, rows: pa.RecordBatch, counts: Counts) -> Iterator[pa.RecordBatch]:
        """What rows of the source come to that match none of the table; they are counted."""
        acts = self._chosen(rows, self.not_matched)
        for number, clause in enumerate(self.not_matched):
            found = rows.filter(_equals(acts, number))
            if found.num_rows and clause.values is not None:
                counts[INSERTED] += found.num_rows
                values = evaluated(found, clause.values.values(), self.table)
                yield pa.RecordBatch.from_arrays(values, names=list(clause.values))

    def report(self) -> pa.Array:
        """The rows of the source that matched."""
        return pa.chunked_array(self._seen, pa.int64()).combine_chunks().unique()

    def learn(self, reports: Iterable[pa.Array]) -> "MergeRows":
        """The merge that knows which rows of the source matched elsewhere."""
        return replace(self, _seen=list(reports))

    def source_keys(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """The keys of rows of the source, as values that are equal where rows may match."""
        return self._comparable_keys(rows, [other for _, other in self.keys])

    def target_keys(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """The same of rows of the table, which have at least ``columns``."""
        return self._comparable_keys(one_struct(rows, TARGET), [one for one, _ in self.keys])

    def _joined(self, rows: pa.RecordBatch) -> "_Joined":
        """The pairs of rows that match, with the number of the clause that each of them meets."""
        target = one_struct(rows, TARGET)
        keys = self._keys(target, [one for one, _ in self.keys])
        pairs = keys.join(self._source_keys, [str(number) for number in range(len(self.keys))], join_type="inner")
        targets, sources = (_array(pairs.column(name)) for name in (TARGET, SOURCE))
        joined = pa.RecordBatch.from_arrays(
            [target.column(0).take(targets), self._source_rows.column(0).take(sources)],
            names=[TARGET, SOURCE],
        )
        matches = is_true(joined, self.on, self.table)
        joined, targets, sources = joined.filter(matches), targets.filter(matches), sources.filter(matches)
        acts = self._chosen(joined, self.matched)
        self._require_one_source(rows, targets, acts)
        orphans = self._orphans(target, targets)
        return _Joined(joined, targets, sources, acts, *orphans)

    @cached_property
    def _source_rows(self) -> pa.RecordBatch:
        return one_struct(_one_batch(self.source), SOURCE)

    @cached_property
    def _source_keys(self) -> pa.Table:
        return self._keys(self._source_rows, [other for _, other in self.keys])

    def _keys(self, rows: pa.RecordBatch, expressions: Sequence[pc.Expression]) -> pa.Table:
        """The keys of rows, and their numbers."""
        columns = self._comparable_keys(rows, expressions)
        names = [str(number) for number in range(len(columns))]
        return pa.table([*columns, row_numbers(rows.num_rows)], names=[*names, rows.schema.names[0]])

    def _comparable_keys(self, rows: pa.RecordBatch, expressions: Sequence[pc.Expression]) -> list[pa.Array]:
        return [_comparable(each) for each in evaluated(rows, expressions, self.table)]

    def _chosen(self, rows: pa.RecordBatch, clauses: Sequence[Clause]) -> pa.Array:
        """The number of the first clause whose condition is true of each row; null: none."""
        chosen = pa.nulls(rows.num_rows, pa.int64())
        for number, clause in reversed(list(enumerate(clauses))):
            condition = pc.scalar(True) if clause.condition is None else clause.condition
            chosen = pc.if_else(is_true(rows, condition, self.table), pa.scalar(number, pa.int64()), chosen)
        return chosen

    def _orphans(self, target: pa.RecordBatch, matched: pa.Array) -> tuple[pa.RecordBatch, pa.Array, pa.Array]:
        """The rows that no row of the source matches, with their numbers and their clauses."""
        if not self.by_source:
            return target.slice(0, 0), pa.array([], pa.int64()), pa.array([], pa.int64())
        numbers = row_numbers(target.num_rows)
        numbers = numbers.filter(pc.invert(pc.is_in(numbers, value_set=matched)))
        rows = target.take(numbers)
        return rows, numbers, self._chosen(rows, self.by_source)

    def _require_one_source(self, rows: pa.RecordBatch, targets: pa.Array, acts: pa.Array) -> None:
        """Refuse two rows of the source for one row of the table, as Delta does: which of them counts is chance."""
        if not self.matched or self._is_plain_delete:
            return
        counted = targets if self.not_matched or self.by_source else targets.filter(pc.is_valid(acts))
        found = pc.value_counts(counted)
        several = found.filter(pc.greater(found.field("counts"), 1))
        if len(several):
            row = rows.slice(several[0]["values"].as_py(), 1)
            values = evaluated(one_struct(row, TARGET), [one for one, _ in self.keys], self.table)
            shown = zip(self.key_paths, values, strict=True)
            key = ", ".join(
                f"{'.'.join(path[1:]) if path else 'its key'} = {value[0].as_py()!r}" for path, value in shown
            )
            raise InvalidInput(
                f"table {self.table!r}: {several[0]['counts']} rows of the source match the row with {key}",
                hint="leave one row of the source for each row of the table: group or deduplicate it by the key",
            )

    @property
    def _is_plain_delete(self) -> bool:
        """Two rows that delete the same row agree."""
        return len(self.matched) == 1 and self.matched[0].condition is None and self.matched[0].values is None

    def _counts(self, found: "_Joined") -> Counts:
        counts: Counts = Counter()
        for clauses, numbers, acts, more in (
            (self.matched, found.targets, found.acts, ""),
            (self.by_source, found.orphan_numbers, found.orphan_acts, BY_SOURCE),
        ):
            for number, clause in enumerate(clauses):
                rows = len(numbers.filter(_equals(acts, number)).unique())
                counts[f"{clause.counted_as}{more}"] += rows
        return Counter({name: count for name, count in counts.items() if count})

    def _updated(self, rows: pa.RecordBatch, found: "_Joined") -> Iterator[pa.RecordBatch]:
        for clause, among, numbers in self._met(found):
            if clause.values is not None:
                yield with_values(rows.take(numbers), among, clause.values, self.table)

    def _before(self, rows: pa.RecordBatch, found: "_Joined") -> Iterator[tuple[ChangeType, pa.RecordBatch]]:
        """The rows that change, as they were; one that two rows of the source delete is deleted once."""
        for clause, _, numbers in self._met(found):
            kind = ChangeType.DELETE if clause.values is None else ChangeType.BEFORE
            yield kind, rows.take(numbers.unique())

    def _met(self, found: "_Joined") -> Iterator[tuple[Clause, pa.RecordBatch, pa.Array]]:
        """The clauses that rows meet, with these rows beside those of the source, and their numbers."""
        for clauses, joined, numbers, acts in (
            (self.matched, found.rows, found.targets, found.acts),
            (self.by_source, found.orphans, found.orphan_numbers, found.orphan_acts),
        ):
            for number, clause in enumerate(clauses):
                wanted = _equals(acts, number)
                if pc.any(wanted).as_py():
                    yield clause, joined.filter(wanted), numbers.filter(wanted)


@dataclass(frozen=True, slots=True)
class _Joined:
    """Rows of the table beside those of the source that match them, and those that none matches."""

    rows: pa.RecordBatch
    targets: pa.Array
    sources: pa.Array
    acts: pa.Array
    orphans: pa.RecordBatch
    orphan_numbers: pa.Array
    orphan_acts: pa.Array

    @property
    def orphans_that_go(self) -> list[pa.Array]:
        """The numbers of rows that no row of the source matches, and that change or go."""
        return [self.orphan_numbers.filter(pc.is_valid(self.orphan_acts))]


def _is_ordered(values: pa.Array) -> bool:
    """Whether bounds of these values say something of files: statistics of numbers leave NaN out."""
    return not (kinds.is_floating(values.type) or kinds.is_boolean(values.type) or kinds.is_binary(values.type))


def _between(column: pc.Expression, values: pa.Array) -> pc.Expression:
    bounds = pc.min_max(values)
    if not bounds["min"].is_valid:
        return pc.scalar(False)
    return (column >= bounds["min"]) & (column <= bounds["max"])


def _equals(acts: pa.Array, number: int) -> pa.BooleanArray:
    return pc.fill_null(pc.equal(acts, number), False)


def one_struct(rows: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """All columns as the fields of one."""
    column = pa.StructArray.from_arrays(rows.columns, names=rows.schema.names)
    return pa.RecordBatch.from_arrays([column], names=[name])


def _comparable(column: pa.Array) -> pa.Array:
    """Values that a join takes for equal where Spark does: of floating point numbers, all NaN, and both zeros."""
    if not kinds.is_floating(column.type):
        return column
    wide = pc.add(column.cast(pa.float64()), 0.0)
    return pc.if_else(pc.is_nan(wide), float("nan"), wide).view(pa.int64())


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _array(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
