"""One Parquet file made of several: their row groups, one after the other, under one footer.

So row groups can be encoded at the same time, and those of an earlier file be in the next one. Their bytes are taken
over as they are; the footer changes in the places in the file, the numbers of the row groups, and the number of rows.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, count, islice
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from deltamirror.deltalog.checkpoint.scratch import Pile
from deltamirror.errors import Internal
from deltamirror.publish.checkpoint.thrift import LIST, Struct, decoded, encoded

_MAGIC: Final = b"PAR1"
_TAIL: Final = 8
"""The length of the footer, and the magic once more."""

# Fields of the structs of Parquet's footer.
_NUM_ROWS, _ROW_GROUPS = 3, 4
_COLUMNS, _GROUP_PLACE, _GROUP_NUMBER = 1, 5, 7
_CHUNK_PLACE, _CHUNK_METADATA, _INDEX_PLACES = 2, 3, (4, 6)
_CHUNK_INDEXES, _BLOOM_FILTER = (4, 5, 6, 7), (14, 15)
_PAGE_PLACES: Final = (9, 10, 11, 14)
"""Of data pages, index pages, the dictionary and the Bloom filter."""

_PLACES_IN_ARROW: Final = ("file_offset", "data_page_offset", "dictionary_page_offset")
_TOLD: Final = (
    "path_in_schema",
    "physical_type",
    "num_values",
    "compression",
    "encodings",
    "is_stats_set",
    "total_compressed_size",
    "total_uncompressed_size",
)


@dataclass(frozen=True, slots=True)
class UnchangedGroups:
    """Row groups of a file that are in the next one as they are. Page indexes and Bloom filters are left behind."""

    file: pa.Buffer
    numbers: Collection[int]


def stitched(files: Iterable[pa.Buffer], unchanged: UnchangedGroups | None = None) -> pa.Buffer:
    """The file of all row groups, in order, unchanged ones at the end. One file alone stays itself.

    The files have one schema and the same metadata. Each is let go of before the next one is taken.
    """
    remaining = iter(files)
    some = list(islice(remaining, 2))
    if len(some) == 1 and unchanged is None:
        return some[0]
    remaining = chain(some, remaining)
    del some
    pile, form, groups = Pile(), None, list[_Group]()
    pile.add(_MAGIC)
    for file in remaining:
        footer = _take_in(file, pile, groups)
        form = form or footer
    if unchanged is not None:
        _take_over(unchanged, pile, groups)
    ending = encoded(_joined(form or {}, groups))
    for piece in (ending, len(ending).to_bytes(4, "little"), _MAGIC):
        pile.add(piece)
    whole = pile.whole()
    _check(_read_by_arrow(whole), groups)
    return whole


def have_same_form(one: pa.Buffer, other: pa.Buffer) -> bool:
    """Whether files agree in schema, writer and metadata: in all of their footers but the rows."""
    forms = [_with_groups(file, lambda *_: None) for file in (one, other)]
    for form in forms:
        del form[_NUM_ROWS], form[_ROW_GROUPS]
    return forms[0] == forms[1]


@dataclass(frozen=True, slots=True)
class _Group:
    encoded: bytes
    """Its fields, with the places and the number that it gets."""
    told: pq.RowGroupMetaData
    """The same of the file that it is from, as Arrow reads it."""
    distance: int
    """How far its bytes were moved."""


def _with_groups(file: pa.Buffer, take: Callable[[int, Struct], object]) -> Struct:
    """The footer. Its row groups are handed over one by one, with their numbers, and not kept."""
    numbers = count()
    return decoded(_footer(file).to_pybytes(), {_ROW_GROUPS: lambda fields: take(next(numbers), fields)})


def _take_in(file: pa.Buffer, pile: Pile, groups: list[_Group]) -> Struct:
    """Put all row groups of a file on the pile; its footer."""
    told, distance = _read_by_arrow(file), pile.size - len(_MAGIC)

    def take(number: int, fields: Struct) -> None:
        groups.append(_moved(fields, told.row_group(number), distance, len(groups)))

    footer = _with_groups(file, take)
    pile.add(_content(file))
    return footer


def _take_over(unchanged: UnchangedGroups, pile: Pile, groups: list[_Group]) -> None:
    """Put some row groups of a file on the pile."""
    told, wanted = _read_by_arrow(unchanged.file), set(unchanged.numbers)

    def take(number: int, fields: Struct) -> None:
        if number in wanted:
            wanted.remove(number)
            group = told.row_group(number)
            start, length = span(group)
            _drop_indexes(fields)
            groups.append(_moved(fields, group, pile.size - start, len(groups)))
            pile.add(unchanged.file.slice(start, length))

    _with_groups(unchanged.file, take)
    if wanted:
        raise Internal(f"a checkpoint has no row groups {sorted(wanted)}, which the next one was to take over")


def span(group: pq.RowGroupMetaData) -> tuple[int, int]:
    """Where a row group begins, and how many bytes it has; ValueError where its columns are not one after the other."""
    columns = [group.column(number) for number in range(group.num_columns)]
    starts = [each.dictionary_page_offset or each.data_page_offset for each in columns]
    sizes = [each.total_compressed_size for each in columns]
    if starts != list(accumulate(sizes[:-1], initial=starts[0])):
        raise ValueError("columns of a row group that are not one after the other")
    return starts[0], sum(sizes)


def _drop_indexes(group: Struct) -> None:
    """Page indexes lie elsewhere in the file, and Bloom filters may."""
    for chunk in group[_COLUMNS][1][1]:
        for field in _CHUNK_INDEXES:
            chunk.pop(field, None)
        for field in _BLOOM_FILTER:
            chunk[_CHUNK_METADATA][1].pop(field, None)


def _joined(form: Struct, groups: Sequence[_Group]) -> Struct:
    whole = dict(form)
    kind, _ = whole[_NUM_ROWS]
    whole[_NUM_ROWS] = kind, sum(group.told.num_rows for group in groups)
    whole[_ROW_GROUPS] = LIST, (whole[_ROW_GROUPS][1][0], [group.encoded for group in groups])
    return whole


def _read_by_arrow(file: pa.Buffer) -> pq.FileMetaData:
    return pq.read_metadata(pa.BufferReader(file))


def _check(whole: pq.FileMetaData, groups: Sequence[_Group]) -> None:
    """Internal unless Arrow finds every column of all groups, with all that is known of it, where its bytes are now."""
    same = whole.num_rows == sum(group.told.num_rows for group in groups) and whole.num_row_groups == len(groups)
    for number, group in enumerate(groups):
        found = whole.row_group(number)
        same = same and all(
            _told(found.column(n), 0) == _told(group.told.column(n), group.distance) for n in range(whole.num_columns)
        )
    if not same:
        raise Internal("a checkpoint, joined of its row groups, has another footer than they have")


def _told(column: pq.ColumnChunkMetaData, distance: int) -> Sequence[object]:
    """All but the bounds of its values: not all of these are values of Python."""
    places = [getattr(column, name) for name in _PLACES_IN_ARROW]
    return [*(place + distance if place else place for place in places), *(getattr(column, name) for name in _TOLD)]


def _footer(file: pa.Buffer) -> pa.Buffer:
    length = _footer_length(file)
    return file.slice(file.size - _TAIL - length, length)


def _content(file: pa.Buffer) -> pa.Buffer:
    """All between the magic and the footer."""
    return file.slice(len(_MAGIC), file.size - len(_MAGIC) - _footer_length(file) - _TAIL)


def _footer_length(file: pa.Buffer) -> int:
    return int.from_bytes(file.slice(file.size - _TAIL, 4).to_pybytes(), "little")


def _moved(fields: Struct, told: pq.RowGroupMetaData, distance: int, number: int) -> _Group:
    """The row group with the places and the number that it gets."""
    _move_group(fields, distance)
    if _GROUP_NUMBER in fields:
        fields[_GROUP_NUMBER] = fields[_GROUP_NUMBER][0], number
    return _Group(encoded(fields), told, distance)


def _move_group(group: Struct, distance: int) -> None:
    _move(group, (_GROUP_PLACE,), distance)
    for chunk in group[_COLUMNS][1][1]:
        _move(chunk, (_CHUNK_PLACE, *_INDEX_PLACES), distance)
        _move(chunk[_CHUNK_METADATA][1], _PAGE_PLACES, distance)


def _move(fields: Struct, places: Sequence[int], distance: int) -> None:
    """Zero is no place in a file that begins with the magic: writers have it for a place that they do not state."""
    for place in places:
        if place in fields and fields[place][1]:
            fields[place] = fields[place][0], fields[place][1] + distance
