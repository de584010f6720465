"""What is too large to stay in memory is put aside, in files that have no name.

Such a file is mapped: its pages are the system's, which takes them back when memory is short. It goes with the last
array or buffer that lies in it, at the latest with the process. It is where temporary files are (``TMPDIR``).
"""

import errno
import mmap
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Final

import pyarrow as pa

from deltamirror.errors import CapacityExceeded, Unavailable

__all__ = ["Gathering", "Pile"]

_MOST_BYTES: Final = 512 * 1024 * 1024
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Pile:
    """Bytes, one piece after the other: in memory up to a limit, and beyond it in a file."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes, self.size = most_bytes, 0
        self._pieces: list[pa.Buffer | bytes] = []
        self._file: _File | None = None

    def add(self, piece: pa.Buffer | bytes) -> None:
        """Put this on top."""
        self._pieces.append(piece)
        self.size += len(piece)
        if self._file is None and self.size > self._most_bytes:
            self._file = _File()
        if self._file is not None:
            self._file.write(self._pieces)
            self._pieces = []

    def whole(self) -> pa.Buffer:
        """All of it. Nothing is added any more."""
        return pa.py_buffer(b"".join(self._pieces)) if self._file is None else self._file.mapped()


class Gathering:
    """Tables of one schema, one after the other: in memory up to a limit, and beyond it in a file."""

    def __init__(self, schema: pa.Schema, most_bytes: int = _MOST_BYTES) -> None:
        self._schema, self._most_bytes = schema, most_bytes
        self._held: list[pa.Table] = []
        self._size = 0
        self._aside, self._ends = Pile(0), [0]

    def add(self, table: pa.Table) -> None:
        """Put these rows after the others."""
        self._held.append(table)
        self._size += table.nbytes
        if self._size > self._most_bytes:
            self._put_aside()

    def whole(self) -> pa.Table:
        """All rows. Nothing is added any more."""
        if self._aside.size:
            self._put_aside()
        return pa.concat_tables([self._schema.empty_table(), *self._read(), *self._held])

    def _put_aside(self) -> None:
        for table in self._held:
            self._aside.add(_serialized(table))
            self._ends.append(self._aside.size)
        self._held, self._size = [], 0

    def _read(self) -> Iterator[pa.Table]:
        if self._aside.size:
            whole = self._aside.whole()
            for start, end in pairwise(self._ends):
                yield pa.ipc.open_stream(whole.slice(start, end - start)).read_all()


class _File:
    """A file without a name."""

    def __init__(self) -> None:
        with _translated(), tempfile.TemporaryFile() as file:
            self._descriptor = os.dup(file.fileno())

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)

    def write(self, pieces: Iterable[pa.Buffer | bytes]) -> None:
        with _translated():
            for piece in pieces:
                rest = memoryview(piece).cast("B")
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]

    def mapped(self) -> pa.Buffer:
        with _translated():
            return pa.py_buffer(mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_READ))


def _serialized(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = f"a temporary file in {tempfile.gettempdir()} cannot be written: {error.strerror or error}"
        hint = "a large checkpoint needs some gigabytes there: make room, or set TMPDIR to another folder"
        kind = CapacityExceeded if error.errno in _FULL else Unavailable
        raise kind(what, hint=hint) from error
