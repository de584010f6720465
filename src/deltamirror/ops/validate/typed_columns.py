"""The typed columns of a checkpoint, held against the texts that they repeat: some readers go by the ones, some by the
others.

Writers derive typed values in ways of their own: they cut times, round decimals, and leave out what they cannot read. A
bound may therefore be wider than its text, by which a reader reads too much. One that is narrower loses rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltamirror.delta.schema import StructType
from deltamirror.delta.schema.arrow import from_arrow
from deltamirror.deltalog.checkpoint.blocks import in_threads
from deltamirror.deltalog.checkpoint.layout import PARTITIONS_PARSED, STATS_PARSED
from deltamirror.deltalog.checkpoint.typed_columns import partition_values, statistics
from deltamirror.deltalog.parquet import rows_at_once
from deltamirror.deltalog.rules.findings import Finding, LogObject

PARTITIONS_RULE: Final = "checkpoint.partition-values-parsed.differing"
STATISTICS_RULE: Final = "checkpoint.stats-parsed.differing"
MISSING_RULE: Final = "checkpoint.stats-parsed.missing"

_BATCH_ROWS: Final = 20_000
_SOURCES: Final[Mapping[str, str]] = {STATS_PARSED: "stats", PARTITIONS_PARSED: "partitionValues"}
"""The typed columns of ``add``, and the texts that they repeat."""

_MILLISECOND: Final = 1_000
_ZONES: Final = 15 * 3_600 * 1_000_000
"""Farther apart than any zone is from UTC: a partition's time may have been written as the clock showed it."""

_PLAIN: Final = (1e-4, 1e15)
"""Decimals from here to there are written without an exponent."""

_COMPARABLE: Final = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_date32,
    pa.types.is_timestamp,
)
_READ_IN_OTHER_WAYS: Final = (pa.types.is_temporal, pa.types.is_decimal)
"""The types of which a writer may understand texts that we do not."""


@dataclass(slots=True)
class _Cells:
    """The cells of a column that break a rule."""

    row: int
    expected: object
    found: object
    count: int = 0


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A column of a typed struct beside what its text says, and the rows where there is a text."""

    name: str
    expected: pa.Array
    found: pa.Array
    told: pa.Array


@dataclass(slots=True)
class TypedColumns:
    """The typed columns that a file of a checkpoint has beside their texts, a block of rows at a time."""

    types: Mapping[str, StructType]
    """By column: what is compared of it."""
    broken: dict[tuple[str, str], _Cells] = field(default_factory=dict)
    """By rule and field."""

    @classmethod
    def of(cls, file: pq.ParquetFile) -> "TypedColumns":
        """Those of this file."""
        place = file.schema_arrow.get_field_index("add")
        kind = file.schema_arrow.field(place).type if place >= 0 else pa.struct([])
        fields = {each.name: each.type for each in kind} if pa.types.is_struct(kind) else {}
        zoned = _zoned_times(file)
        return cls(
            {
                name: from_arrow(pa.schema(_pruned(fields[name], f"add.{name}", zoned)))
                for name, source in _SOURCES.items()
                if {"path", name, source} <= fields.keys() and pa.types.is_struct(fields[name])
            }
        )

    def findings(self, subject: LogObject, file: pq.ParquetFile) -> Iterator[Finding]:
        """The rules that they break: one finding a rule and column, with the first of the rows."""
        types = {name: kind for name, kind in self.types.items() if kind.fields}
        columns = [f"add.{each}" for name in types for each in (name, _SOURCES[name])]
        most, first = rows_at_once(file.metadata, range(file.num_row_groups), most=_BATCH_ROWS), 1
        batches = file.iter_batches(most, columns=columns) if columns else iter(())
        for size, wrong in in_threads(partial(_compared, types), batches):
            for each in wrong:
                self._take(each, first)
            first += size
        for (rule, name), cells in self.broken.items():
            told = f"{cells.found!r} ({cells.count:,} such rows)"
            yield subject.finding(rule, row=cells.row, field=f"add.{name}", expected=cells.expected, found=told)

    def _take(self, wrong: "_Wrong", first: int) -> None:
        leaf = wrong.leaf
        row = pc.index(wrong.rows, True).as_py()
        expected, found = leaf.expected[row].as_py(), leaf.found[row].as_py()
        self.broken.setdefault((wrong.rule, leaf.name), _Cells(first + row, expected, found)).count += wrong.count


@dataclass(frozen=True, slots=True)
class _Wrong:
    """The rows of a block that break a rule by a column."""

    rule: str
    leaf: _Leaf
    rows: pa.Array
    count: int


def _compared(types: Mapping[str, StructType], batch: pa.RecordBatch) -> tuple[int, list[_Wrong]]:
    """How many rows there are, and which of them break a rule."""
    adds = dict(zip((each.name for each in batch.schema.field("add").type), _flat(batch), strict=True))
    wrong: list[_Wrong] = []
    for name, kind in types.items():
        compare = _compared_partitions if name == PARTITIONS_PARSED else _compared_statistics
        found = (
            (rule, leaf, rows, pc.sum(rows).as_py())
            for rule, leaf, rows in compare(adds[_SOURCES[name]], adds[name], kind)
        )
        wrong += [_Wrong(rule, leaf, rows, count) for rule, leaf, rows, count in found if count]
    return batch.num_rows, wrong


def _compared_statistics(
    texts: pa.Array, typed: pa.StructArray, kind: StructType
) -> Iterator[tuple[str, _Leaf, pa.Array]]:
    told = pc.fill_null(pc.not_equal(pc.utf8_trim_whitespace(texts), ""), False)
    for each in _leaves(STATS_PARSED, statistics(texts, kind), typed, told):
        both = pc.and_(told, pc.and_(each.expected.is_valid(), each.found.is_valid()))
        wrong = pc.and_(both, pc.fill_null(_excludes(each), False))
        if not _is_any(_READ_IN_OTHER_WAYS, each.expected.type):
            wrong = pc.or_(wrong, pc.and_(told, pc.and_(each.expected.is_null(), each.found.is_valid())))
        yield STATISTICS_RULE, each, wrong
        yield MISSING_RULE, each, pc.and_(told, pc.and_(_surely_readable(each.expected), each.found.is_null()))


def _compared_partitions(
    maps: pa.MapArray, typed: pa.StructArray, kind: StructType
) -> Iterator[tuple[str, _Leaf, pa.Array]]:
    told = maps.is_valid()
    for each in _leaves(PARTITIONS_PARSED, partition_values(maps, kind), typed, told):
        texts = _none_if_empty(pc.map_lookup(maps, each.name.rpartition(".")[2], "first"))
        wrong = pc.xor(texts.is_valid(), _none_if_empty(each.found).is_valid())
        unread = pc.and_(texts.is_valid(), each.expected.is_null())
        wrong = pc.and_(wrong, pc.invert(unread))
        yield PARTITIONS_RULE, each, pc.and_(told, pc.or_(wrong, pc.fill_null(_is_another(each), False)))


def _zoned_times(file: pq.ParquetFile) -> frozenset[str]:
    """The columns that are INT96, which is how times of a zone are written, and does not tell so."""
    columns = (file.schema.column(number) for number in range(len(file.schema)))
    return frozenset(each.path for each in columns if each.physical_type == "INT96")


def _pruned(kind: pa.StructType, path: str, zoned: frozenset[str]) -> Iterator[pa.Field]:
    """The fields whose values are compared, with times in microseconds, as in texts."""
    for each in kind:
        name, to = f"{path}.{each.name}", each.type
        if pa.types.is_struct(to):
            inner = list(_pruned(to, name, zoned))
            yield from [pa.field(each.name, pa.struct(inner))] if inner else []
        elif pa.types.is_timestamp(to):
            yield pa.field(each.name, pa.timestamp("us", "UTC" if to.tz or name in zoned else None))
        elif _is_any(_COMPARABLE, to) and not pa.types.is_unsigned_integer(to):
            yield pa.field(each.name, to)


def _flat(batch: pa.RecordBatch) -> list[pa.Array]:
    adds: list[pa.Array] = batch.column("add").flatten()
    return adds


def _leaves(name: str, expected: pa.StructArray, found: pa.StructArray, told: pa.Array) -> Iterator[_Leaf]:
    """The columns that both have, the found ones in the types of the expected ones."""
    fields = {each.name: column for each, column in zip(found.type, found.flatten(), strict=True)}
    for each, column in zip(expected.type, expected.flatten(), strict=True):
        path, other = f"{name}.{each.name}", fields[each.name]
        if pa.types.is_struct(each.type):
            yield from _leaves(path, column, other, told)
        else:
            yield _Leaf(path, column, other.cast(each.type, safe=False), told)


def _surely_readable(column: pa.Array) -> pa.Array:
    """The values that every writer gets from their texts: delta-rs reads no decimal with an exponent, which it writes
    of large numbers and of small ones.
    """
    if not pa.types.is_decimal(column.type):
        return column.is_valid()
    sizes = pc.abs(column.cast(pa.float64()))
    plain = pc.and_(pc.greater_equal(sizes, _PLAIN[0]), pc.less(sizes, _PLAIN[1]))
    return pc.fill_null(pc.or_(plain, pc.equal(sizes, 0)), False)


def _excludes(leaf: _Leaf) -> pa.Array:
    """Where a reader that goes by the typed value passes over a file that its text includes."""
    expected, found = _numbers(leaf.expected), _numbers(leaf.found)
    slack = _MILLISECOND - 1 if pa.types.is_timestamp(leaf.expected.type) else None
    match leaf.name.split(".")[1]:
        case "minValues":
            return _exceeds(found if slack is None else pc.subtract(found, slack), expected)
        case "maxValues":
            return _exceeds(expected, found if slack is None else pc.add(found, slack))
        case _:
            return pc.not_equal(expected, found)


def _exceeds(lower: pa.Array, upper: pa.Array) -> pa.Array:
    """Where the lower bound is above the upper one; a number that is none is above all others."""
    above = pc.greater(lower, upper)
    if not pa.types.is_floating(lower.type):
        return above
    return pc.and_(pc.or_(above, pc.is_nan(lower)), pc.invert(pc.is_nan(upper)))


def _is_another(leaf: _Leaf) -> pa.Array:
    """Where a partition's value is not the one that its text says."""
    kind = leaf.expected.type
    if pa.types.is_timestamp(kind):
        apart = pc.abs(pc.subtract(leaf.expected.cast(pa.int64()), leaf.found.cast(pa.int64())))
        return pc.greater(apart, _MILLISECOND if kind.tz is None else _ZONES)
    if pa.types.is_floating(kind):
        nan = pc.and_(pc.is_nan(leaf.expected), pc.is_nan(leaf.found))
        return pc.and_(pc.not_equal(leaf.expected, leaf.found), pc.invert(nan))
    return pc.not_equal(leaf.expected, leaf.found)


def _numbers(column: pa.Array) -> pa.Array:
    """Times as integers; decimals with as many digits as those writers keep that take them for floating numbers."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64())
    return column.cast(pa.float64()) if pa.types.is_decimal(column.type) else column


def _none_if_empty(column: pa.Array) -> pa.Array:
    """An empty text is null as a partition's value."""
    if not pa.types.is_string(column.type):
        return column
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, column.type), column)


def _is_any(kinds: Sequence[Any], kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in kinds)
