"""The bytes of listed objects: commits in blocks of whole lines, many small ones read ahead of their use."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from deltamirror.delta.bounds import LONGEST_LINE, MOST_BLANKS, blank_bytes, has_long_line
from deltamirror.errors import CapacityExceeded, LogChanged
from deltamirror.storage.store import Meta, Store

_BLOCK_BYTES: Final = 8 * 1024 * 1024
_SMALL_BYTES: Final = 1024 * 1024
_THREADS: Final = 16
"""They wait for the store, and do next to nothing else."""

_AHEAD: Final = 2 * _THREADS


def read_whole(store: Store, meta: Meta) -> bytes:
    """The object as it was listed; LogChanged where it is gone, or another one is in its place."""
    found = store.read(meta.key)
    if found is None or len(found.data) != meta.size:
        raise changed(store, meta.key)
    return found.data


def read_blocks(store: Store, meta: Meta, *, block_bytes: int = _BLOCK_BYTES) -> Iterator[bytes]:
    """The bytes of a commit, in order, cut behind the last newline of every ``block_bytes`` that were read.

    Joined, the blocks are the file. An empty file has none.
    """
    rest, bounds = b"", _Bounds(store, meta)
    for data in read_ranges(store, meta, range_bytes=block_bytes):
        whole, newline, begun = data.rpartition(b"\n")
        if newline:
            yield bounds.checked(rest + whole + newline)
            rest = begun
        else:
            rest += begun
        bounds.check_line(rest)
    if rest:
        yield bounds.checked(rest)


class _Bounds:
    """What a commit of another writer may have in lines and in blank ones, block by block."""

    def __init__(self, store: Store, meta: Meta) -> None:
        self._place = f"{meta.key} in {store.location}"
        self._blanks = 0

    def checked(self, block: bytes) -> bytes:
        """The whole lines; CapacityExceeded where one is too long, or blank ones came to be too many."""
        self.check_line(block)
        self._blanks += blank_bytes(block)
        if self._blanks > MOST_BLANKS:
            raise self._exceeded(f"more than {MOST_BLANKS:,} bytes of blank lines")
        return block

    def check_line(self, text: bytes) -> None:
        """Refuse a line that is too long, also one whose end was not read."""
        if has_long_line(text):
            raise self._exceeded(f"a line of more than {LONGEST_LINE:,} bytes")

    def _exceeded(self, what: str) -> CapacityExceeded:
        hint = "no Delta writer makes such a file, and Delta readers fail at it: look at the file"
        return CapacityExceeded(f"{self._place} has {what}", hint=hint)


def read_ranges(store: Store, meta: Meta, *, range_bytes: int = _BLOCK_BYTES) -> Iterator[bytes]:
    """The bytes of an object, in order, so many at a time."""
    at = 0
    while at < meta.size:
        data = store.read_range(meta.key, at, min(range_bytes, meta.size - at))
        if not data:
            raise changed(store, meta.key)
        at += len(data)
        yield data


def read_commits(store: Store, metas: Sequence[Meta]) -> Iterator[Iterable[bytes]]:
    """The blocks of each commit. Small ones are read ahead, in threads; of a large one a block is in memory."""
    for meta, data in zip(metas, _ahead(store, metas), strict=True):
        yield read_blocks(store, meta) if data is None else [_Bounds(store, meta).checked(data)]


def changed(store: Store, what: str) -> LogChanged:
    """The error where another writer changes the log while it is read."""
    return LogChanged(
        f"{what} in {store.location} is not what it was when the log was listed",
        hint="another process cleans up, or writes there: try again when that has come to an end",
    )


def _ahead(store: Store, metas: Sequence[Meta]) -> Iterator[bytes | None]:
    pending: deque[Future[bytes] | None] = deque()
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="commits") as threads:
        try:
            for meta in metas:
                small = meta.size <= _SMALL_BYTES
                pending.append(threads.submit(read_whole, store, meta) if small else None)
                if len(pending) > _AHEAD:
                    yield _result(pending.popleft())
            while pending:
                yield _result(pending.popleft())
        finally:
            threads.shutdown(cancel_futures=True)


def _result(future: Future[bytes] | None) -> bytes | None:
    return None if future is None else future.result()
