"""One Parquet file made of several: their row groups, one after the other, under one footer.

So row groups can be encoded at the same time. Their bytes are taken over as they are; the footer changes in
the places in the file, the numbers of the row groups, and the number of rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count, islice
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from deltamirror.deltalog.checkpoint.scratch import Pile
from deltamirror.errors import Internal
from deltamirror.publish.checkpoint.thrift import LIST, Struct, decoded, encoded

__all__ = ["stitched"]

_MAGIC: Final = b"PAR1"
_TAIL: Final = 8
"""The length of the footer, and the magic once more."""

# Fields of the structs of Parquet's footer.
_NUM_ROWS, _ROW_GROUPS = 3, 4
_COLUMNS, _GROUP_PLACE, _GROUP_NUMBER = 1, 5, 7
_CHUNK_PLACE, _CHUNK_METADATA, _INDEX_PLACES = 2, 3, (4, 6)
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


def stitched(files: Iterable[pa.Buffer]) -> pa.Buffer:
    """The file of all row groups, in order. The files have one schema and the same metadata; one alone stays itself.

    Each file is let go of before the next one is taken.
    """
    remaining = iter(files)
    some = list(islice(remaining, 2))
    if len(some) == 1:
        return some[0]
    remaining = chain(some, remaining)
    del some
    pile, parts = Pile(), list[_Part]()
    pile.add(_MAGIC)
    for file in remaining:
        parts.append(_Part(pile.size - len(_MAGIC), decoded(_footer(file).to_pybytes()), _read_by_arrow(file)))
        pile.add(_content(file))
    footer = encoded(_joined(parts))
    for piece in (footer, len(footer).to_bytes(4, "little"), _MAGIC):
        pile.add(piece)
    whole = pile.whole()
    _check(_read_by_arrow(whole), parts)
    return whole


@dataclass(frozen=True, slots=True)
class _Part:
    distance: int
    """How far its bytes were moved."""
    footer: Struct
    metadata: pq.FileMetaData
    """The footer, as Arrow reads it."""


def _joined(parts: Sequence[_Part]) -> Struct:
    whole = dict(parts[0].footer)
    kind, _ = whole[_NUM_ROWS]
    whole[_NUM_ROWS] = kind, sum(part.footer[_NUM_ROWS][1] for part in parts)
    whole[_ROW_GROUPS] = LIST, (whole[_ROW_GROUPS][1][0], list(_moved(parts)))
    return whole


def _read_by_arrow(file: pa.Buffer) -> pq.FileMetaData:
    return pq.read_metadata(pa.BufferReader(file))


def _check(whole: pq.FileMetaData, parts: Sequence[_Part]) -> None:
    """Internal unless Arrow finds every column of every part, with all that is known of it, where its bytes are now."""
    expected = [
        (part.metadata.row_group(n), part.distance) for part in parts for n in range(part.metadata.num_row_groups)
    ]
    same = whole.num_rows == sum(part.metadata.num_rows for part in parts) and whole.num_row_groups == len(expected)
    for number, (group, distance) in enumerate(expected):
        found = whole.row_group(number)
        same = same and all(
            _told(found.column(n), 0) == _told(group.column(n), distance) for n in range(whole.num_columns)
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


def _moved(parts: Sequence[_Part]) -> Iterator[Struct]:
    """The row groups of all files, with the places and the numbers that they get."""
    numbers = count()
    for part in parts:
        for group in part.footer[_ROW_GROUPS][1][1]:
            _move_group(group, part.distance)
            number = next(numbers)
            if _GROUP_NUMBER in group:
                group[_GROUP_NUMBER] = group[_GROUP_NUMBER][0], number
            yield group


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
