"""The stored form of a commit: its bytes, in chunks of whole lines.

A small commit is one plain chunk. A large one has a plain first chunk, with the lines that are known only under the
lock, and zstd chunks of some thousand lines each after it; where rows have ids, a plain last chunk says how far these
have come. The digest of a commit is the sha256 of its file if it has one chunk, and the sha256 of its chunks' digests,
joined, if it has several: so it can be computed without reading gigabytes while others wait.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from deltamirror.delta.bounds import LARGEST_CHUNK
from deltamirror.errors import CapacityExceeded, Internal


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole lines of a commit, as they are stored."""

    codec: str
    raw_bytes: int
    digest: bytes
    data: bytes

    def decoded(self, *, check: bool = True) -> bytes:
        """The lines, checked against their digest unless told not to."""
        data = self._decompressed() if self.codec == "zstd" else self.data
        if check and hashlib.sha256(data).digest() != self.digest:
            raise Internal("a stored chunk does not have the digest it was stored with: the database is damaged")
        return data

    def _decompressed(self) -> bytes:
        if self.raw_bytes > LARGEST_CHUNK:
            raise Internal(f"a stored chunk of {self.raw_bytes} bytes is larger than any that is written")
        data: bytes = _zstd().decompress(self.data, self.raw_bytes)
        return data


def plain_chunk(data: bytes) -> Chunk:
    """A chunk stored as it is."""
    return Chunk("plain", len(data), hashlib.sha256(data).digest(), data)


def compressed_chunk(data: bytes) -> Chunk:
    """A chunk stored compressed."""
    if len(data) > LARGEST_CHUNK:
        raise CapacityExceeded(
            f"a chunk of {len(data):,} bytes is too large: the limit is {LARGEST_CHUNK:,}",
            hint="lower catalog.chunk_lines, or give shorter statistics",
        )
    packed = _zstd().compress(data)
    return Chunk("zstd", len(data), hashlib.sha256(data).digest(), packed)


def commit_digest(digests: Iterable[bytes]) -> bytes:
    """The digest of a commit from those of its chunks."""
    first, *others = digests
    return hashlib.sha256(b"".join([first, *others])).digest() if others else first


@cache
def _zstd() -> Any:
    """Imported with the first chunk that is compressed: small commits have none, nor does a look at a table."""
    return import_module("deltamirror.delta.zstd")
