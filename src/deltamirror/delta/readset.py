"""What a transaction read of a table: the whole of it, partitions, files, the progress of applications.

A read set answers one question about a file that another commit added or removed: should this transaction have
seen it? The answer is never "no" out of ignorance: a partition value that a file does not state matches every read.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby, product
from math import prod
from typing import ClassVar, TypeAlias

from deltamirror.delta.paths import path_identity

__all__ = ["PartitionRead", "PartitionValues", "ReadSet"]

PartitionValues: TypeAlias = Mapping[str, str | None]
"""Partition values of a file, as the log spells them, under physical column names."""

PartitionRead: TypeAlias = Mapping[str, frozenset[str | None]]
"""The partitions that a scan selected: every named column has one of its values. ``{}`` selects all."""


_LARGEST_EXPANDED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSet:
    """What was read. ``files`` are paths as the log spells them; values of partitions likewise (``""`` is null)."""

    whole_table: bool = False
    partitions: tuple[PartitionRead, ...] = ()
    files: frozenset[str] = frozenset()
    app_ids: frozenset[str] = frozenset()
    _index: tuple["_Columns", ...] = field(init=False, repr=False, compare=False)

    NOTHING: ClassVar["ReadSet"]

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", frozenset(map(path_identity, self.files)))
        # Built once, since every file of every winner is looked up in it.
        object.__setattr__(self, "_index", _index(self.partitions))

    @property
    def reads_anything(self) -> bool:
        """Whether data was read. The progress of applications is not data."""
        return self.whole_table or bool(self.partitions) or bool(self.files)

    def covers(self, path: str, partition_values: PartitionValues | None) -> bool:
        """Whether this transaction read, or would have read, the file; ``None`` means values unknown."""
        if self.whole_table or path in self.files:
            return True
        if partition_values is None:
            return bool(self._index)
        return any(columns.match(partition_values) for columns in self._index)


@dataclass(frozen=True, slots=True)
class _Columns:
    """All partition reads that name the same columns: their partitions in a hash table, huge products one by one."""

    names: tuple[str, ...]
    points: frozenset[tuple[str | None, ...]]
    boxes: tuple[PartitionRead, ...]

    def match(self, values: PartitionValues) -> bool:
        try:
            point = tuple([values[name] or None for name in self.names])
        except KeyError:  # removes drop null values, or state none at all
            return True
        return point in self.points or any(_inside(box, self.names, point) for box in self.boxes)


def _inside(box: PartitionRead, names: tuple[str, ...], point: tuple[str | None, ...]) -> bool:
    return all(value in box[name] for name, value in zip(names, point, strict=True))


def _index(reads: Iterable[PartitionRead]) -> tuple[_Columns, ...]:
    possible = [{name: _nulls(values) for name, values in read.items()} for read in reads if all(read.values())]
    by_names = groupby(sorted(possible, key=sorted), key=sorted)
    return tuple(_columns(tuple(names), list(group)) for names, group in by_names)


def _columns(names: tuple[str, ...], reads: list[PartitionRead]) -> _Columns:
    points: set[tuple[str | None, ...]] = set()
    boxes: list[PartitionRead] = []
    for read in reads:
        if prod(map(len, read.values())) <= _LARGEST_EXPANDED:
            points.update(product(*(read[name] for name in names)))
        else:
            boxes.append(read)
    return _Columns(names, frozenset(points), tuple(boxes))


def _nulls(values: Iterable[str | None]) -> frozenset[str | None]:
    """The protocol reads an empty partition value as null."""
    return frozenset(value or None for value in values)


ReadSet.NOTHING = ReadSet()
