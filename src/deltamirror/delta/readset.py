"""What a transaction read of a table: the whole of it, partitions, files, the progress of applications.

A read set answers one question about a file that another commit added or removed: should this transaction have
seen it? Values are compared, not texts: ``1.5`` and ``1.50`` are one decimal. The answer is never "no" out of
ignorance: a partition value that a file does not state, or that is no value of its column, matches every read.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from math import prod
from typing import ClassVar, TypeAlias

from deltamirror.delta.actions import Metadata
from deltamirror.delta.partitions import parse_partition
from deltamirror.delta.paths import path_identity
from deltamirror.delta.schema import DataType, Primitive, parse_schema

PartitionValues: TypeAlias = Mapping[str, str | None]
"""Partition values of a file, as the log spells them, under physical column names."""

PartitionRead: TypeAlias = Mapping[str, frozenset[str | None]]
"""The partitions that a scan selected: every named column has one of its values. ``{}`` selects all."""


_LARGEST_EXPANDED = 10_000
_STRING = Primitive("string")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSet:
    """What was read. ``files`` are paths as the log spells them; values of partitions likewise (``""`` is null).

    ``types`` are those of the partition columns, by physical name; without them, every column holds strings.
    """

    whole_table: bool = False
    partitions: tuple[PartitionRead, ...] = ()
    files: frozenset[str] = frozenset()
    app_ids: frozenset[str] = frozenset()
    types: Mapping[str, DataType] | None = None
    _index: tuple["_Columns", ...] = field(init=False, repr=False, compare=False)

    NOTHING: ClassVar["ReadSet"]

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", frozenset(map(path_identity, self.files)))
        # Built once, since every file of every winner is looked up in it.
        object.__setattr__(self, "_index", _index(self.partitions, self.types))

    @property
    def reads_anything(self) -> bool:
        """Whether data was read. The progress of applications is not data."""
        return self.whole_table or bool(self.partitions) or bool(self.files)

    def typed(self, metadata: Metadata) -> "ReadSet":
        """The same reads, with the values of partitions compared by the types that the table's columns have."""
        return replace(self, types=partition_types(metadata)) if self.partitions else self

    def covers(self, path: str, partition_values: PartitionValues | None) -> bool:
        """Whether this transaction read, or would have read, the file; ``None`` means values unknown."""
        if self.whole_table or path in self.files:
            return True
        if partition_values is None:
            return bool(self._index)
        return any(columns.match(partition_values) for columns in self._index)


def partition_types(metadata: Metadata) -> dict[str, DataType]:
    """The types of a table's partition columns, by physical name."""
    schema = parse_schema(metadata.schema_string)
    found = (schema.get(name) for name in metadata.partition_columns)
    return {field.physical_name: field.type for field in found if field is not None}


def value_key(text: str | None, kind: DataType) -> Hashable:
    """What two texts of a partition column have in common exactly when they spell one value; ValueError for none."""
    value = parse_partition(text, kind)
    return "NaN" if value != value else value  # NaN equals nothing, not even itself


@dataclass(frozen=True, slots=True)
class _Column:
    """A partition column: turns texts into values, each text once, since a winner's files repeat them."""

    name: str
    kind: DataType
    _known: dict[str | None, Hashable] = field(default_factory=dict, repr=False, compare=False)

    def key(self, text: str | None) -> Hashable:
        """The value; ValueError where the text is none of the column."""
        if text not in self._known:
            self._known[text] = value_key(text, self.kind)
        return self._known[text]


_Box: TypeAlias = Mapping[str, frozenset[Hashable]]


@dataclass(frozen=True, slots=True)
class _Columns:
    """All partition reads that name the same columns: their partitions in a hash table, huge products one by one."""

    columns: tuple[_Column, ...]
    points: frozenset[tuple[Hashable, ...]]
    boxes: tuple[_Box, ...]

    def match(self, values: PartitionValues) -> bool:
        try:
            point = tuple([column.key(values[column.name]) for column in self.columns])
        except (KeyError, ValueError):  # removes drop null values, or state none at all; or it is no value
            return True
        return point in self.points or any(self._inside(box, point) for box in self.boxes)

    def _inside(self, box: _Box, point: tuple[Hashable, ...]) -> bool:
        return all(value in box[column.name] for column, value in zip(self.columns, point, strict=True))


def _index(reads: Iterable[PartitionRead], types: Mapping[str, DataType] | None) -> tuple[_Columns, ...]:
    possible = [_box(read, types) for read in reads if all(read.values())]
    by_names = groupby(sorted(possible, key=sorted), key=sorted)
    return tuple(
        _columns([_Column(name, _kind(name, types)) for name in names], list(group)) for names, group in by_names
    )


def _box(read: PartitionRead, types: Mapping[str, DataType] | None) -> _Box:
    """The read by values. A column whose values are not all understood does not narrow it."""
    keys = {name: _keys(values, types is None or name in types, _kind(name, types)) for name, values in read.items()}
    return {name: values for name, values in keys.items() if values is not None}


def _keys(texts: Iterable[str | None], known: bool, kind: DataType) -> frozenset[Hashable] | None:
    try:
        return frozenset(value_key(text, kind) for text in texts) if known else None
    except ValueError:
        return None


def _kind(name: str, types: Mapping[str, DataType] | None) -> DataType:
    return _STRING if types is None else types.get(name, _STRING)


def _columns(columns: list[_Column], reads: list[_Box]) -> _Columns:
    points: set[tuple[Hashable, ...]] = set()
    boxes: list[_Box] = []
    for read in reads:
        if prod(map(len, read.values())) <= _LARGEST_EXPANDED:
            points.update(product(*(read[column.name] for column in columns)))
        else:
            boxes.append(read)
    return _Columns(tuple(columns), frozenset(points), tuple(boxes))


ReadSet.NOTHING = ReadSet()
