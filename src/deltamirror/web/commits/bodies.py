"""Bodies of commits: spooled to a temporary file before anything is done with them, and read from there.

So a client that sends slowly, or goes away half-way, holds no thread, no connection to the database and no stage; and
a commit of any size takes a bounded part of the memory. Several commits in one body, or in one answer, are frames: a
line ``{"commit":{"table":"orders","version":7,"bytes":1234}}``, then exactly so many bytes of that commit file. Without
a version they are actions, which become the next one. A line ``{"read":{"table":"rates","version":3}}`` says which
version of a table the commits beside it were computed from.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import IO, Final

import anyio.to_thread
import msgspec
from starlette.requests import Request

from deltamirror.delta.bounds import LONGEST_LINE
from deltamirror.errors import CapacityExceeded, InvalidInput
from deltamirror.web.problems import BodyTooLarge

NDJSON: Final = "application/x-ndjson"
FRAMES: Final = "application/vnd.deltamirror.commits"

_IN_MEMORY: Final = 1024 * 1024
_LONGEST_HEAD: Final = 1024
_MOST_PARTS: Final = 100
_FORM: Final = 'each commit begins with a line {"commit":{"table":"orders","version":7,"bytes":1234}}'


class _Frame(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    table: str
    version: int | None = None
    read_version: int | None = None
    bytes: int


class _ReadFrame(msgspec.Struct, forbid_unknown_fields=True):
    table: str
    version: int


class _Head(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One of the two."""

    commit: _Frame | None = None
    read: _ReadFrame | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """The commit of one table in a body: which version it is to become, and where its lines are."""

    table: str
    version: int | None
    """The version that complete lines become; None: they are actions, and become the next one."""
    read_version: int | None
    """The version that actions were computed from."""
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class ReadPart:
    """A table that was read at a version for the commits beside it: changes since then conflict with them."""

    table: str
    version: int


@asynccontextmanager
async def spooled(request: Request, limit: int) -> AsyncIterator[IO[bytes]]:
    """The whole body of a request as a file; ``BodyTooLarge`` as soon as that is known."""
    declared = request.headers.get("content-length")
    if declared is not None and int(declared) > limit:
        raise BodyTooLarge(limit)
    with SpooledTemporaryFile(max_size=_IN_MEMORY) as file:
        taken, waiting = 0, bytearray()
        async for piece in request.stream():
            taken += len(piece)
            if taken > limit:
                raise BodyTooLarge(limit)
            waiting += piece
            if len(waiting) > _IN_MEMORY:
                await _written(file, waiting)
        if taken > _IN_MEMORY:
            await _written(file, waiting)
        else:
            file.write(waiting)  # no disk is touched
        yield file


async def _written(file: IO[bytes], waiting: bytearray) -> None:
    """Write in a thread: a disk may be slow."""
    try:
        await anyio.to_thread.run_sync(file.write, bytes(waiting))
    except OSError as error:
        hint = "make room in the temporary folder of the server"
        raise CapacityExceeded(f"the body cannot be kept: {error.strerror}", hint=hint) from error
    waiting.clear()


def framed_parts(file: IO[bytes]) -> list[Part | ReadPart]:
    """The frames of a body; each has to be complete."""
    end, found, start = file.seek(0, 2), list[Part | ReadPart](), 0
    while start < end:
        file.seek(start)
        head = file.readline(_LONGEST_HEAD)
        part = _part(head, start + len(head), len(found))
        start += len(head) + (part.size if isinstance(part, Part) else 0)
        if start > end:
            raise InvalidInput(f"commit {len(found)} of the body ends before its last byte", hint=_FORM)
        found.append(part)
        if len(found) > _MOST_PARTS:
            raise InvalidInput(f"the body has more than {_MOST_PARTS} commits", hint="commit fewer tables at once")
    return found


def part_lines(file: IO[bytes], part: Part) -> Iterator[bytes]:
    """The lines of a part, with their ends, one after the other."""
    at, end = part.start, part.start + part.size
    while at < end:
        file.seek(at)  # each time: the parts of a body are read in turns
        # One byte more than the longest that is taken tells a line that is too long, without reading all of it.
        line = file.readline(min(end - at, LONGEST_LINE + 1))
        at += len(line)
        yield line


def require_one_version(table: str, version: int | None, read_version: int | None) -> None:
    """Refuse complete lines that name a version that they were computed from: it is the one before theirs."""
    if version is not None and read_version is not None:
        hint = "leave read_version out: complete lines are computed from the version before theirs"
        raise InvalidInput(f"the commit of {table[:255]} has both version and read_version", hint=hint)


def frame_head(table: str, version: int, size: int) -> bytes:
    """The line that begins a frame."""
    return msgspec.json.encode(_Head(_Frame(table=table, version=version, bytes=size))) + b"\n"


def _part(head: bytes, start: int, number: int) -> Part | ReadPart:
    """The part that begins with a head; its lines begin at ``start``."""
    try:
        found = msgspec.json.decode(head, type=_Head)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"commit {number} of the body has no head that can be read: {error}", hint=_FORM) from error
    match found:
        case _Head(commit=None, read=_ReadFrame() as read) if head.endswith(b"\n"):
            return ReadPart(read.table, read.version)
        case _Head(commit=_Frame() as frame, read=None) if frame.bytes >= 0 and head.endswith(b"\n"):
            require_one_version(frame.table, frame.version, frame.read_version)
            return Part(frame.table, frame.version, frame.read_version, start, frame.bytes)
    raise InvalidInput(f"commit {number} of the body has no head that can be read", hint=_FORM)
