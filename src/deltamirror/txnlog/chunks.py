"""A commit's bytes, in chunks of whole lines.

A small commit is one plain chunk. A large one has a plain first chunk, with the lines that are known only under the
lock, and zstd chunks of some thousand lines each after it. The digest of a commit is the sha256 of its file if it has
one chunk, and the sha256 of its chunks' digests, joined, if it has several: so it can be computed without reading
gigabytes while others wait.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from sqlalchemy import Connection, select

from deltamirror.delta import lines
from deltamirror.delta.actions import Action
from deltamirror.errors import Internal
from deltamirror.txnlog.database import Row
from deltamirror.txnlog.schema import chunks

__all__ = [
    "Chunk",
    "commit_actions",
    "commit_bytes",
    "commit_digest",
    "compressed_chunk",
    "plain_chunk",
    "read_commit",
]

_READ_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole lines of a commit, as they are stored."""

    codec: str
    raw_bytes: int
    digest: bytes
    data: bytes

    def row(self, commit_id: int, number: int) -> Row:
        """The row of ``dl_commit_chunks``."""
        return commit_id, number, self.codec, self.raw_bytes, self.digest, self.data

    def decoded(self) -> bytes:
        """The lines, checked against their digest."""
        data = self.data
        if self.codec == "zstd":
            data = pa.Codec("zstd").decompress(self.data, self.raw_bytes, asbytes=True)
        if hashlib.sha256(data).digest() != self.digest:
            raise Internal("a stored chunk does not have the digest it was stored with: the database is damaged")
        return data


def plain_chunk(data: bytes) -> Chunk:
    """A chunk stored as it is."""
    return Chunk("plain", len(data), hashlib.sha256(data).digest(), data)


def compressed_chunk(data: bytes) -> Chunk:
    """A chunk stored compressed."""
    packed = pa.Codec("zstd").compress(data, asbytes=True)
    return Chunk("zstd", len(data), hashlib.sha256(data).digest(), packed)


def commit_digest(digests: Iterable[bytes]) -> bytes:
    """The digest of a commit from those of its chunks."""
    first, *others = digests
    return hashlib.sha256(b"".join([first, *others])).digest() if others else first


def read_commit(connection: Connection, commit_id: int) -> Iterator[bytes]:
    """The bytes of a commit, chunk by chunk: joined, they are its file."""
    c = chunks.c
    query = select(c.codec, c.raw_bytes, c.digest, c.data).where(c.commit_id == commit_id).order_by(c.chunk)
    for row in connection.execute(query.execution_options(yield_per=_READ_AT_ONCE)):
        yield Chunk(row.codec, row.raw_bytes, bytes(row.digest), bytes(row.data)).decoded()


def commit_bytes(connection: Connection, commit_id: int) -> bytes:
    """The whole file of a commit."""
    return b"".join(read_commit(connection, commit_id))


def commit_actions(connection: Connection, commit_id: int) -> Iterator[Action]:
    """The actions of a commit, in order."""
    for data in read_commit(connection, commit_id):
        yield from lines.decode_commit(data)
