"""The bytes of one commit from its chunks, which threads decode into their places in one buffer."""

import os
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec

from deltamirror.delta.chunks import Chunk, commit_digest
from deltamirror.errors import Internal
from deltamirror.storage.store import Data
from deltamirror.work import CommitWork, Fetch, Verification

# Decompression and digests run beside each other; what is under way bounds the memory beyond the buffer.
_THREADS = min(4, os.cpu_count() or 1)
_UNDER_WAY = 2 * _THREADS

_LINE = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Damage(Exception):
    """What is wrong with the stored form of a commit."""


def commit_data(work: CommitWork, fetch: Fetch, *, table: str, verify: Verification = Verification.BASIC) -> Data:
    """The file of a commit. ``fetch`` is called, and what it gives is read, in the calling thread.

    The stored form has to be complete. Unless ``verify`` is off it also has to have the digest of the commit, and
    the shape of one: lines that are JSON objects, with the one key that names an action. Other writers leave blank
    lines, or no newline at the end: their commits are carried as they are.
    """
    check = verify is not Verification.OFF
    try:
        return _whole(work, fetch(work), check) if work.num_chunks == 1 else _joined(work, fetch(work), check)
    except _Damage as damage:
        raise Internal(
            f"version {work.version} of table {table!r} is damaged in the database: {damage}",
            hint="nothing of it was published; restore the rows of `dl_commit_chunks` from a backup",
        ) from damage


def _whole(work: CommitWork, chunks: Iterable[Chunk], check: bool) -> bytes:
    found = list(chunks)
    _check_size(work, len(found), sum(chunk.raw_bytes for chunk in found))
    _check_digest(work, found[0].digest, check=check)
    data, num_lines = _decoded(found[0], check)
    _check_lines(num_lines, check=check)
    return data


def _joined(work: CommitWork, chunks: Iterable[Chunk], check: bool) -> memoryview:
    buffer = memoryview(bytearray(work.num_bytes))
    digests: list[bytes] = []
    under_way: deque[Future[int]] = deque()
    at = num_lines = 0
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="deltamirror-assembly") as threads:
        for chunk in chunks:
            place = buffer[at : at + chunk.raw_bytes]
            at += chunk.raw_bytes
            if at > work.num_bytes:
                raise _Damage(f"more than {work.num_bytes} bytes")
            digests.append(chunk.digest)
            under_way.append(threads.submit(_fill, place, chunk, check, is_last=at == work.num_bytes))
            if len(under_way) >= _UNDER_WAY:
                num_lines += under_way.popleft().result()
        num_lines += sum(filled.result() for filled in under_way)
    _check_size(work, len(digests), at)
    _check_digest(work, commit_digest(digests), check=check)
    _check_lines(num_lines, check=check)
    return buffer.toreadonly()


def _fill(place: memoryview, chunk: Chunk, check: bool, *, is_last: bool) -> int:
    """Decode a chunk into its place; how many lines it has."""
    data, num_lines = _decoded(chunk, check)
    if check and not is_last and not data.endswith(b"\n"):
        raise _Damage("a chunk does not end with a line")
    place[:] = data
    return num_lines


def _decoded(chunk: Chunk, check: bool) -> tuple[bytes, int]:
    try:
        data = chunk.decoded(check=check)
    except Internal as error:
        raise _Damage(str(error)) from error
    if len(data) != chunk.raw_bytes:
        raise _Damage(f"a chunk has {len(data)} bytes, not {chunk.raw_bytes}")
    return data, _num_lines(data) if check else 0


def _num_lines(data: bytes) -> int:
    """How many lines there are, all of them JSON objects of one key."""
    try:
        lines = _LINE.decode_lines(data)
        if len(lines) != data.count(b"\n"):
            lines = [_LINE.decode(line) for line in data.split(b"\n") if line.strip()]
        data.isascii() or data.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _Damage(f"a line is not one JSON object: {error}") from error
    if any(len(line) != 1 for line in lines):
        raise _Damage("a line has not exactly one action")
    return len(lines)


def _check_size(work: CommitWork, num_chunks: int, num_bytes: int) -> None:
    if (num_chunks, num_bytes) != (work.num_chunks, work.num_bytes):
        raise _Damage(f"{num_chunks} chunks of {num_bytes} bytes, not {work.num_chunks} of {work.num_bytes}")


def _check_digest(work: CommitWork, digest: bytes, *, check: bool) -> None:
    if check and digest != work.digest:
        raise _Damage(f"its digest is {digest.hex()}, not {work.digest.hex()}")


def _check_lines(num_lines: int, *, check: bool) -> None:
    if check and not num_lines:
        raise _Damage("it has no actions")
