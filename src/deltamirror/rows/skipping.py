"""Which files a filter can be true of, by partition values and statistics: what the log says of a file, as guarantees.

Arrow finds out whether a filter contradicts what is guaranteed of all rows of a file. Only columns that the filter
names are looked at, and only at the top: columns inside of structs exclude no file.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal as Number
from functools import partial, reduce
from itertools import chain
from operator import and_
from typing import Any, Final, Self, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from deltamirror.delta.partitions import PartitionValue, parse_partition
from deltamirror.delta.schema import DataType, Decimal, Field, Primitive
from deltamirror.errors import Unsupported
from deltamirror.rows.layout import Layout

PartitionChoice: TypeAlias = Callable[[Sequence[str]], Sequence[str]]
"""Of JSON objects of partition values, as the log has them, those whose files are wanted."""

_TIMES: Final = frozenset({"timestamp", "timestamp_ntz"})
_STATS: Final = msgspec.json.Decoder(float_hook=Number)
_ANYTHING: Final = pc.scalar(True)
_UNBOUNDED: Final = frozenset({"boolean", "binary", "variant", "void"})


def mentioned(condition: pc.Expression, fields: Sequence[Field]) -> list[Field]:
    """The columns that a filter may name: more where its text has other words that are names of columns."""
    text = str(condition)
    return [each for each in fields if each.name in text]


def partition_choice(condition: pc.Expression | None, layout: Layout) -> PartitionChoice | None:
    """What tells the partitions that may have rows for a filter; None where it names no partition column."""
    if condition is None:
        return None
    known = _Known.of(condition, layout)
    return partial(_possible_partitions, condition=condition, known=known) if known.partitions else None


def _possible_partitions(texts: Sequence[str], condition: pc.Expression, known: "_Known") -> list[str]:
    """Those of these JSON objects of partition values that a filter leaves; it is for files to have values at all."""
    partitions = [known.partition_of(msgspec.json.decode(text)) for text in texts]
    possible = _fulfilling(condition, known, partitions) if known.is_all else _left(condition, known, partitions)
    return [texts[number] for number in sorted(possible)]


def _fulfilling(condition: pc.Expression, known: "_Known", partitions: Sequence[tuple[str | None, ...]]) -> set[int]:
    """The numbers of the partitions that a filter of nothing else is true of, and of those where nothing is certain.

    All of them as one batch of rows: something guaranteed of each by itself costs ten times as much.
    """
    certain, rows = [], []
    for number, partition in enumerate(partitions):
        with suppress(Unsupported):
            values = known.values_of(partition)
            if not any(map(_is_nan, values)):
                certain.append(number)
                rows.append(values)
    every = set(range(len(partitions)))
    try:
        columns = [
            pa.array([values[place] for values in rows], kind) for place, kind in enumerate(known.partition_types)
        ]
        names = [*(each.name for each in known.partitions), ""]
        found = pa.table([*columns, pa.array(certain, pa.int64())], names=names).filter(condition)
    except pa.ArrowException:  # as in ``_agreeing``
        return every
    return every.difference(certain).union(found.column(len(columns)).to_pylist())


def _left(condition: pc.Expression, known: "_Known", partitions: Sequence[tuple[str | None, ...]]) -> set[int]:
    """The numbers of the partitions that a filter does not contradict, which names other columns as well."""
    guarantees = []
    for partition in partitions:
        guarantees.append(_ANYTHING)
        with suppress(Unsupported):
            guarantees[-1] = known.guaranteed_by(partition)
    return _agreeing(condition, guarantees, known.layout)


def possible_files(
    partition_values: Sequence[Mapping[str, str | None]],
    stats: Sequence[str | None],
    condition: pc.Expression,
    layout: Layout,
) -> list[int]:
    """The numbers of the files that may have rows for a filter, which names columns as users do.

    Each partition is looked at once, and the statistics of files in those that the filter leaves.
    """
    known = _Known.of(condition, layout)
    keys = [known.partition_of(each) for each in partition_values]
    partitions = {key: known.guaranteed_by(key) for key in dict.fromkeys(keys)}
    possible = _agreeing(condition, list(partitions.values()), layout)
    left = {key for number, key in enumerate(partitions) if number in possible}
    numbers = [number for number, key in enumerate(keys) if key in left]
    if not known.bounded:
        return numbers
    guarantees = [_all([partitions[keys[each]], *known.bounds(stats[each])]) for each in numbers]
    return [numbers[each] for each in sorted(_agreeing(condition, guarantees, layout))]


def _agreeing(condition: pc.Expression, guarantees: Sequence[pc.Expression], layout: Layout) -> set[int]:
    """The numbers of the guarantees that a filter does not contradict."""
    file_format, nowhere = ds.ParquetFileFormat(), fs.LocalFileSystem()
    fragments = [
        file_format.make_fragment(str(number), nowhere, partition_expression=guarantee)
        for number, guarantee in enumerate(guarantees)
    ]
    dataset = ds.FileSystemDataset(fragments, layout.arrow_schema, file_format)
    try:
        return {int(each.path) for each in dataset.get_fragments(filter=condition)}
    except pa.ArrowException:  # a value that cannot be computed, such as a sum that is too large: its rows will tell
        return set(range(len(guarantees)))


def partition_guarantee(
    values: Mapping[str, str | None], layout: Layout, naming: Callable[[Field], str]
) -> pc.Expression:
    """The values of a file's partition columns, as something that all of its rows have."""
    return _all(
        _has_value(naming(each), _value(each, values, layout), layout.arrow_type(each.type))
        for each in layout.partition_fields
    )


def partition_rows(files: Sequence[Mapping[str, Any]], layout: Layout) -> pa.RecordBatch:
    """The values that files have in the partition columns, as users name them: one row for each file.

    A column without a name is there, so that there are rows where a table has no partitions.
    """
    fields = layout.partition_fields
    columns = [
        pa.array([_value(each, file["partition_values"], layout) for file in files], layout.arrow_type(each.type))
        for each in fields
    ]
    return pa.RecordBatch.from_arrays([*columns, pa.nulls(len(files))], names=[*(each.name for each in fields), ""])


def live_records(file: Mapping[str, Any]) -> int | None:
    """How many rows a file has, as far as its statistics tell, without those that are deleted."""
    records = _decoded(file["stats"]).get("numRecords")
    if not isinstance(records, int):
        return None
    deleted = json.loads(file["deletion_vector"])["cardinality"] if file["deletion_vector"] is not None else 0
    return records - int(deleted)


@dataclass(frozen=True, slots=True)
class _Known:
    """The columns that a filter names, of which the log tells something."""

    layout: Layout
    partitions: Sequence[Field]
    partition_names: Sequence[str]
    """Those in the log."""
    partition_types: Sequence[pa.DataType]
    bounded: Sequence["_Bounded"]
    is_all: bool
    """Whether the filter names partition columns and nothing else."""

    @classmethod
    def of(cls, condition: pc.Expression, layout: Layout) -> Self:
        """Those of a filter."""
        named, partitions = mentioned(condition, layout.schema.fields), {each.name for each in layout.partition_fields}
        of_partitions = [each for each in named if each.name in partitions]
        bounded = [each for each in named if each.name not in partitions and _has_bounds(each.type)]
        return cls(
            layout,
            of_partitions,
            [layout.naming(each) for each in of_partitions],
            [layout.arrow_type(each.type) for each in of_partitions],
            [
                _Bounded(layout.naming(each), pc.field(each.name), each.type, layout.arrow_type(each.type))
                for each in bounded
            ],
            len(of_partitions) == len(named),
        )

    def partition_of(self, values: Mapping[str, str | None]) -> tuple[str | None, ...]:
        """The values that a file has in these columns, as texts."""
        return tuple(map(values.get, self.partition_names))

    def guaranteed_by(self, partition: tuple[str | None, ...]) -> pc.Expression:
        """What all rows of a partition have in common."""
        return _all(
            _has_value(each.name, value, kind)
            for each, kind, value in zip(self.partitions, self.partition_types, self.values_of(partition), strict=True)
            if not _is_nan(value)
        )

    def values_of(self, partition: tuple[str | None, ...]) -> list[PartitionValue]:
        """What these texts stand for; Unsupported for one that cannot be read."""
        texts = dict(zip(self.partition_names, partition, strict=True))
        return [_value(each, texts, self.layout) for each in self.partitions]

    def bounds(self, stats: str | None) -> Iterator[pc.Expression]:
        """What statistics say of all rows of a file."""
        decoded = _decoded(stats)
        return chain.from_iterable(each.bounds(decoded) for each in self.bounded)


def _is_nan(value: object) -> bool:
    """Arrow compares NaN with nothing: of a file with it, nothing is guaranteed."""
    return value == "NaN" or value != value


def _value(field: Field, values: Mapping[str, str | None], layout: Layout) -> PartitionValue:
    text = values.get(layout.naming(field))
    try:
        return parse_partition(text, field.type)
    except ValueError as error:  # of another writer: years beyond 9999
        problem = f"a file has {text!r} as its value of the partition column {field.name!r}, which cannot be read"
        hint = "read this table by Delta Spark"
        raise Unsupported(f"table {layout.table!r}: {problem}", hint=hint, table=layout.table) from error


def _has_value(name: str, value: PartitionValue, kind: pa.DataType) -> pc.Expression:
    return pc.field(name).is_null() if value is None else pc.field(name) == pa.scalar(value, kind)


@dataclass(frozen=True, slots=True)
class _Bounded:
    """A column with bounds in statistics."""

    name: str
    """That in statistics."""
    column: pc.Expression
    kind: DataType
    arrow: pa.DataType

    def bounds(self, stats: Mapping[str, Any]) -> Iterator[pc.Expression]:
        """What statistics say of the column in all rows of a file."""
        nulls, low, high = (_member(stats, part, self.name) for part in ("nullCount", "minValues", "maxValues"))
        if _is_nan(low) or _is_nan(high):
            return
        with suppress(ValueError, TypeError, ArithmeticError, pa.ArrowException):  # then it says nothing
            if nulls is not None and nulls == stats.get("numRecords"):
                yield self.column.is_null()
                return
            if low is not None:
                yield self._inside(self.column >= self._scalar(low, is_upper=False), nulls)
            if high is not None:
                yield self._inside(self.column <= self._scalar(high, is_upper=True), nulls)

    def _inside(self, bound: pc.Expression, nulls: object) -> pc.Expression:
        return bound if nulls == 0 else bound | self.column.is_null()

    def _scalar(self, value: object, *, is_upper: bool) -> pa.Scalar:
        """A bound as a value of the column. Times are cut to milliseconds there, so that the upper one is later."""
        kind = self.kind
        if isinstance(kind, Primitive) and kind.name in _TIMES:
            time = datetime.fromisoformat(str(value))
            return pa.scalar(time + timedelta(milliseconds=is_upper), self.arrow)
        if kind == Primitive("string"):
            return pa.scalar(value, pa.string())
        given = float(value) if isinstance(value, Number) and isinstance(kind, Primitive) else value
        return pa.scalar(parse_partition(given, kind), self.arrow)  # type: ignore[arg-type]


def _has_bounds(kind: DataType) -> bool:
    return isinstance(kind, Decimal) or (isinstance(kind, Primitive) and kind.name not in _UNBOUNDED)


def _member(stats: Mapping[str, Any], part: str, name: str) -> Any:
    found = stats.get(part)
    return found.get(name) if isinstance(found, Mapping) else None


def _decoded(stats: str | None) -> Mapping[str, Any]:
    try:
        found = _STATS.decode(stats or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, Mapping) else {}


def _all(parts: Iterable[pc.Expression]) -> pc.Expression:
    found = list(parts)
    return reduce(and_, found) if found else _ANYTHING
