"""The lines of many commits as blocks of some megabytes, worked on in threads, in order, a few of them at a time."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import Final, TypeVar

import pyarrow as pa

BLOCK_BYTES: Final = 8 * 1024 * 1024
"""Enough for Arrow to work on many lines at once, little enough to have several of them in memory."""

_WORTH_THREADS: Final = 10_000

T = TypeVar("T")
R = TypeVar("R")


def blocks_of(commits: Iterable[Iterable[bytes]]) -> Iterator[bytes]:
    """Whole lines, in order. Small commits share a block; the last line of a commit may lack its newline."""
    parts: list[bytes] = []
    size = 0
    for chunk in _chunks(commits):
        parts.append(chunk)
        size += len(chunk)
        if size >= BLOCK_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)


def in_threads(function: Callable[[T], R], items: Iterable[T], *, rows: int = _WORTH_THREADS) -> Iterator[R]:
    """The results, in order. Arrow works without Python's lock; only as many items as cores are taken ahead.

    Where all items have few ``rows``, to start threads would take longer than to work on them.
    """
    remaining = iter(items)
    ahead = list(islice(remaining, 2))
    if len(ahead) < 2 or rows < _WORTH_THREADS:
        yield from map(function, chain(ahead, remaining))
        return
    workers = pa.cpu_count()
    pending: deque[Future[R]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="checkpoint") as threads:
        for item in chain(ahead, remaining):
            pending.append(threads.submit(function, item))
            if len(pending) > workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def _chunks(commits: Iterable[Iterable[bytes]]) -> Iterator[bytes]:
    for commit in commits:
        last = b"\n"
        for chunk in commit:
            yield chunk
            last = chunk or last
        if not last.endswith(b"\n"):
            yield b"\n"
