"""Parquet files in a store, of which only the parts are read that the caller asks for."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from deltamirror.delta.bounds import LARGEST_ROW_GROUP
from deltamirror.deltalog.checkpoint.parquet import UNREADABLE
from deltamirror.deltalog.commits import changed, read_whole
from deltamirror.errors import CapacityExceeded, InvalidInput
from deltamirror.storage.store import Meta, Store

__all__ = ["opened", "translated"]

_WHOLE_BYTES: Final = 4 * 1024 * 1024
"""Up to here, one request for all is faster than several for parts."""


def opened(store: Store, meta: Meta) -> pq.ParquetFile:
    """The file; InvalidInput where it is none. Reading from it is to be ``translated``."""
    with translated(store, meta):
        small = meta.size <= _WHOLE_BYTES
        source = pa.BufferReader(read_whole(store, meta)) if small else pa.PythonFile(_Ranges(store, meta), mode="r")
        file = pq.ParquetFile(source, coerce_int96_timestamp_unit="us", pre_buffer=True)
    _require_bounded(store, meta, file.metadata)
    return file


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


class _Ranges(io.RawIOBase):
    """An object as a file that is read by ranges."""

    def __init__(self, store: Store, meta: Meta) -> None:
        self._store, self._meta, self._at = store, meta, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._meta.size}[whence]
        self._at = start + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        rest = self._meta.size - self._at
        wanted = rest if size < 0 else min(size, rest)
        data = self._store.read_range(self._meta.key, self._at, wanted) if wanted > 0 else b""
        if data is None or len(data) != max(wanted, 0):
            raise changed(self._store, self._meta.key)
        self._at += len(data)
        return data
