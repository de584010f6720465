"""Parquet files in a store, of which only the parts are read that the caller asks for."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from deltamirror.delta.bounds import LARGEST_ROW_GROUP
from deltamirror.deltalog.checkpoint.parquet import UNREADABLE
from deltamirror.deltalog.commits import changed, read_whole
from deltamirror.errors import CapacityExceeded, InvalidInput
from deltamirror.storage.ranges import RangedFile
from deltamirror.storage.store import Meta, Store

_WHOLE_BYTES: Final = 4 * 1024 * 1024
"""Up to here, one request for all is faster than several for parts."""

_DECODED_BYTES: Final = 256 * 1024 * 1024
"""Far below the two gigabytes that Arrow decodes of a column of texts at once."""


def opened(store: Store, meta: Meta) -> pq.ParquetFile:
    """The file; InvalidInput where it is none. Reading from it is to be ``translated``."""
    with translated(store, meta):
        small = meta.size <= _WHOLE_BYTES
        source = pa.BufferReader(read_whole(store, meta)) if small else pa.PythonFile(_ranged(store, meta), mode="r")
        file = pq.ParquetFile(source, coerce_int96_timestamp_unit="us", pre_buffer=True)
    _require_bounded(store, meta, file.metadata)
    return file


def rows_at_once(footer: pq.FileMetaData, groups: Iterable[int], *, most: int) -> int:
    """How many rows of some row groups are decoded at once: fewer than ``most`` where they have many bytes."""
    for group in map(footer.row_group, groups):
        if group.num_rows and group.total_byte_size > 0:
            most = min(most, _DECODED_BYTES * group.num_rows // group.total_byte_size)
    return max(most, 1)


def _ranged(store: Store, meta: Meta) -> RangedFile:
    return RangedFile(store, meta.key, meta.size, lambda: changed(store, meta.key))


def _require_bounded(store: Store, meta: Meta, footer: pq.FileMetaData) -> None:
    """Refuse a file of which a row group, which is decoded at once, is larger than any writer makes it."""
    largest = max((footer.row_group(number).total_byte_size for number in range(footer.num_row_groups)), default=0)
    if largest > LARGEST_ROW_GROUP:
        raise CapacityExceeded(
            f"{meta.key} in {store.location} has a row group of {largest:,} bytes: the limit is {LARGEST_ROW_GROUP:,}",
            hint="begin with another checkpoint, or let Delta Spark write one with smaller row groups",
        )


@contextmanager
def translated(store: Store, meta: Meta) -> Iterator[None]:
    """Errors of Arrow about the file become InvalidInput that names it."""
    try:
        yield
    except UNREADABLE as error:
        raise InvalidInput(
            f"{meta.key} in {store.location} is no Parquet file, or a damaged one: {error}",
            hint="bring it back from a backup, or begin with another checkpoint",
        ) from error
