"""Values that are too large to stay in memory are put aside, in files that have no name.

Such a file is mapped: its pages are the system's, which takes them back when memory is short. It goes with the last
array or buffer that lies in it, at the latest with the process. It is where temporary files are (``TMPDIR``), which
should be on a disk.
"""

import mmap
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from deltamirror.errors import CapacityExceeded

_MOST_BYTES: Final = 512 * 1024 * 1024


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
    """Tables of one schema, one after the other: in memory up to a limit, and beyond it in a file.

    Several of them may share the pile that they put aside to.
    """

    def __init__(self, schema: pa.Schema, most_bytes: int = _MOST_BYTES, aside: Pile | None = None) -> None:
        self._schema, self._most_bytes = schema, most_bytes
        self._held: list[pa.Table] = []
        self._size = 0
        self._aside = Pile(0) if aside is None else aside
        self._places: list[tuple[int, int]] = []

    def add(self, table: pa.Table) -> None:
        """Put these rows after the others."""
        self._held.append(table)
        self._size += table.nbytes
        if self._size > self._most_bytes:
            self._put_aside()

    def end(self) -> None:
        """Nothing is added any more. Those that share a pile all end before one of them is read."""
        if self._places:
            self._put_aside()

    def whole(self) -> pa.Table:
        """All rows, at the end."""
        self.end()
        return pa.concat_tables([self._schema.empty_table(), *self._read(), *self._held])

    def _put_aside(self) -> None:
        for table in self._held:
            data = _serialized(table)
            self._places.append((self._aside.size, data.size))
            self._aside.add(data)
        self._held, self._size = [], 0

    def _read(self) -> Iterator[pa.Table]:
        for start, size in self._places:
            yield pa.ipc.open_stream(self._aside.whole().slice(start, size)).read_all()


class _File:
    """A file without a name."""

    def __init__(self) -> None:
        with _translated(), tempfile.TemporaryFile() as file:
            self._descriptor = os.dup(file.fileno())
        self._map: pa.Buffer | None = None

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
        if self._map is None:
            with _translated():
                self._map = pa.py_buffer(mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_READ))
        return self._map


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
        raise CapacityExceeded(
            f"a temporary file cannot be written: {error.strerror or error} ({error.filename or _folder()})",
            hint="checkpoints of millions of files, and rows that are put in order, need gigabytes for them: make "
            "room, or set TMPDIR to another folder",
        ) from error


def _folder() -> str:
    """Where temporary files are, if it is known by now."""
    return tempfile.tempdir or os.environ.get("TMPDIR") or "TMPDIR is not set"
