"""The row groups of a checkpoint that the next one takes over as bytes: in them, no action changes.

The others are read, and their rows sorted anew among the newer ones. These are row groups with

- actions that are no files;
- a file or tombstone that newer commits replace: the bounds of paths say which row groups may have it, and of these the
  paths are read;
- a tombstone that expires;
- few rows or bytes, so that there are never many small row groups: the newer actions of several checkpoints share one,
  which is written anew until it is large enough to stay;
- paths that too many others may have as well: if files arrive with random paths, each new row group spans all of them,
  and after many checkpoints neither a reader who looks for some files nor the next checkpoint could pass over any;
- anything that is in doubt: no statistics, another compression, columns that are not one after the other.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltamirror.deltalog.checkpoint import parquet
from deltamirror.deltalog.checkpoint.blocks import in_threads
from deltamirror.deltalog.checkpoint.columns import combined
from deltamirror.deltalog.checkpoint.reconciliation import FileActions, keys_of
from deltamirror.publish.checkpoint import grouping
from deltamirror.publish.checkpoint.stitching import span

_SMALL_PART: Final = 8
"""Below this part of the limit a row group is small."""

_MOST_COVERING: Final = 8
"""How many row groups may have one path in their bounds.

Beyond it these row groups are sorted anew. The cost is that of a whole checkpoint, once in eight times that a new row
group has become large enough to stay, which is tens of thousands of files. A lower bound would make it more frequent; a
higher one leaves more row groups to a reader who looks for one path.
"""

_KEY_COLUMNS: Final = ("path", "deletionVector")
_SPELLED_IN_WAYS: Final = "%:"
"""Paths with these may be written in several ways that are equal: bounds do not tell where they are."""

Bounds: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """What the footer says of a row group."""

    number: int
    num_rows: int
    num_files: int
    num_removes: int
    num_bytes: int
    """Encoded."""
    least_bytes: int
    """As Arrow data, which the limit is of, it has at least so many."""
    files: Bounds | None
    """The least and the greatest path of its adds; None: it has none."""
    removes: Bounds | None
    oldest: int
    """When the first of its removed files was deleted (ms)."""

    @property
    def has_others(self) -> bool:
        """Whether there are actions that are no files."""
        return self.num_files + self.num_removes < self.num_rows


def groups_of(file: parquet.File, *, compression: str) -> list[Group]:
    """The row groups of a file of ours; those in doubt are left out."""
    metadata, row_bytes = file.metadata, _least_bytes(file.schema)
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    found = (_group(each, number, compression, row_bytes) for number, each in enumerate(groups))
    return [each for each in found if each is not None]


def unchanged_groups(
    file: parquet.File, newer: FileActions, *, compression: str, most_bytes: int, tombstones_after: int
) -> list[Group]:
    """The row groups that no newer action and no expiry changes, and that are as large as they should be."""
    lasting = [
        each
        for each in groups_of(file, compression=compression)
        if not each.has_others
        and not _is_small(each, most_bytes)
        and not is_too_large(each, most_bytes)
        and (each.removes is None or each.oldest > tombstones_after)
    ]
    sought = [Sought(table) for table in newer]
    lasting = without_crowds(lasting)
    changed = in_threads(lambda group: has_any(file, group, sought), lasting)
    return [each for each, is_changed in zip(lasting, changed, strict=True) if not is_changed]


def _is_small(group: Group, most_bytes: int) -> bool:
    has_few_rows = grouping.has_few_rows(group.num_rows, group.least_bytes)
    return has_few_rows or group.least_bytes < most_bytes // _SMALL_PART


def is_too_large(group: Group, most_bytes: int) -> bool:
    """Whether a row group has more bytes than it may have, because the setting was changed."""
    return group.num_rows > grouping.FEWEST_ROWS and group.num_bytes > most_bytes


def _least_bytes(schema: pa.Schema) -> int:
    """How many bytes a row has as Arrow data, be all of it null: encoded, nulls have next to none."""
    kinds = (kind for _, kind in parquet.leaves(schema))
    return sum(kind.bit_width // 8 for kind in kinds if pa.types.is_primitive(kind) or pa.types.is_decimal(kind))


def _group(group: pq.RowGroupMetaData, number: int, compression: str, row_bytes: int) -> Group | None:
    columns = {each.path_in_schema: each for each in (group.column(n) for n in range(group.num_columns))}
    try:
        span(group)
        files, removes = (_bounds(columns[f"{name}.path"], group.num_rows) for name in ("add", "remove"))
        times = columns["remove.deletionTimestamp"]
        if any(each.compression != compression.upper() for each in columns.values()):
            return None
        return Group(
            number=number,
            num_rows=group.num_rows,
            num_files=files[0],
            num_removes=removes[0],
            num_bytes=group.total_byte_size,
            least_bytes=max(group.total_byte_size, group.num_rows * row_bytes),
            files=files[1],
            removes=removes[1],
            oldest=_oldest(times, removes[0], group.num_rows),
        )
    except (LookupError, ValueError):
        return None


def _bounds(column: pq.ColumnChunkMetaData, num_rows: int) -> tuple[int, Bounds | None]:
    """How many values there are, and their bounds; ValueError where this is not known."""
    told = column.statistics
    if told is None or not told.has_null_count or column.num_values != num_rows:
        raise ValueError("no statistics")
    count = num_rows - told.null_count
    if not count:
        return 0, None
    if not told.has_min_max:
        raise ValueError("no bounds")
    return count, (told.min, told.max)


def _oldest(times: pq.ColumnChunkMetaData, num_removes: int, num_rows: int) -> int:
    """A remove without a time is as old as can be."""
    told = times.statistics
    if not num_removes:
        return 0
    if told is None or not told.has_null_count or num_rows - told.null_count < num_removes or not told.has_min_max:
        raise ValueError("no times")
    return int(told.min)


def without_crowds(groups: Sequence[Group]) -> list[Group]:
    """Without those that have a path in their bounds that too many others have as well."""
    crowded: set[int] = set()
    for own in ("files", "removes"):
        bounds = [(found, each.number) for each in groups if (found := getattr(each, own)) is not None]
        for covering in _covering(bounds):
            if len(covering) > _MOST_COVERING:
                crowded |= covering
    return [each for each in groups if each.number not in crowded]


def _covering(bounds: Iterable[tuple[Bounds, int]]) -> Iterator[set[int]]:
    """For each least path, the numbers of all whose bounds have it: nowhere are there more."""
    open_ones: list[tuple[str, int]] = []
    for (least, greatest), number in sorted(bounds):
        open_ones = [each for each in open_ones if each[0] >= least]
        open_ones.append((greatest, number))
        yield {each for _, each in open_ones}


class Sought:
    """The keys of newer file actions."""

    def __init__(self, newer: pa.Table) -> None:
        keys, paths = keys_of(newer), combined(newer.column("path"))
        unsure = [pc.match_substring(paths, mark) for mark in _SPELLED_IN_WAYS]
        anywhere = pc.or_(*unsure)
        self._anywhere, self._in_order = keys.filter(anywhere), keys.filter(pc.invert(anywhere))

    def within(self, bounds: Bounds) -> pa.Array:
        """The keys whose paths may lie within the bounds. Keys begin with paths; a zero byte ends these."""
        keys = self._in_order
        least, greatest = (pa.scalar(each, keys.type) for each in (bounds[0], f"{bounds[1]}\1"))
        first, last = (pc.search_sorted(keys, each).as_py() for each in (least, greatest))
        return pa.concat_arrays([self._anywhere, keys.slice(first, last - first)])


def has_any(file: parquet.File, group: Group, newer: Sequence[Sought]) -> bool:
    """Whether the row group has a file action of one of the keys."""
    owned = {"add": group.files, "remove": group.removes}
    sought = {
        name: pa.concat_arrays(each.within(bounds) for each in newer)
        for name, bounds in owned.items()
        if bounds is not None
    }
    names = [name for name, keys in sought.items() if len(keys)]
    if not names:
        return False
    columns = [f"{name}.{column}" for name in names for column in _KEY_COLUMNS]
    rows = file.row_group(group.number, columns=columns)
    return any(pc.any(pc.is_in(_keys(rows, name), sought[name])).as_py() for name in names)


def _keys(rows: pa.Table, name: str) -> pa.Array:
    actions = combined(rows.column(name))
    paths, vectors = (pc.struct_field(actions, column) for column in _KEY_COLUMNS)
    named = pa.table({"path": paths.cast(pa.large_string()), "deletionVector": vectors})
    return keys_of(named.filter(paths.is_valid()))
