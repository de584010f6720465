"""Deletion vectors as readers of rows need them: which rows of a file are gone."""

import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltamirror.delta.actions import DeletionVector
from deltamirror.delta.validation.bitmaps import MalformedBitmap, Range, row_ranges
from deltamirror.delta.validation.vectors import INLINE, inline_bitmap, vector_file
from deltamirror.errors import InvalidInput

_AROUND: Final = struct.Struct(">i")
"""The size before a bitmap in its file, and the checksum behind it."""


def deleted_ranges(vector: DeletionVector, read: Callable[[str, int, int], bytes]) -> list[Range]:
    """The deleted rows of a file, ascending. ``read`` takes the path in the log, start and length."""
    try:
        found = list(row_ranges(_bitmap(vector, read)))
    except (MalformedBitmap, ValueError) as error:
        raise _damaged(vector, str(error)) from error
    count = sum(end - start for start, end in found)
    if count != vector.cardinality:
        raise _damaged(vector, f"it has {count} rows, and should have {vector.cardinality}")
    return found


def _bitmap(vector: DeletionVector, read: Callable[[str, int, int], bytes]) -> bytes:
    if vector.storage_type == INLINE:
        return inline_bitmap(vector)
    data = read(vector_file(vector), vector.offset or 0, vector.size_in_bytes + 2 * _AROUND.size)
    if len(data) != vector.size_in_bytes + 2 * _AROUND.size:
        raise MalformedBitmap("its file ends too early")
    bitmap = data[_AROUND.size : -_AROUND.size]
    if _AROUND.unpack_from(data)[0] != vector.size_in_bytes:
        raise MalformedBitmap("its file states another size")
    if _AROUND.unpack(data[-_AROUND.size :])[0] & 0xFFFFFFFF != zlib.crc32(bitmap):
        raise MalformedBitmap("its checksum does not match")
    return bitmap


def _damaged(vector: DeletionVector, problem: str) -> InvalidInput:
    return InvalidInput(f"the deletion vector {vector.unique_id} is damaged: {problem}", hint="restore its file")


class RowMask:
    """Tells which rows of a file are live; its batches come in the order of the file."""

    def __init__(self, deleted: Sequence[Range]) -> None:
        self._deleted, self._next, self._at = deleted, 0, 0

    def live(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The next batch without its deleted rows."""
        kept = self.of_next(batch.num_rows)
        return batch if kept is None else batch.filter(kept)

    def of_next(self, count: int) -> pa.BooleanArray | None:
        """Which of the next rows are live; None: all of them."""
        start, end = self._at, self._at + count
        self._at = end
        marks = bytearray(count)
        while self._next < len(self._deleted) and self._deleted[self._next][0] < end:
            first, behind = self._deleted[self._next]
            low, high = max(first, start) - start, min(behind, end) - start
            marks[low:high] = b"\x01" * (high - low)
            if behind > end:
                break
            self._next += 1
        if not any(marks):
            return None
        return pc.equal(pa.Array.from_buffers(pa.uint8(), count, [None, pa.py_buffer(bytes(marks))]), 0)
