"""Objects of any size, read range by range."""

import io
from collections.abc import Callable
from hashlib import sha256
from typing import Final

from deltamirror.storage.store import Store

_DIGEST_RANGE: Final = 16 * 1024 * 1024


def read_into(take: Callable[[bytes], None], store: Store, key: str, *, range_bytes: int) -> bool:
    """Hand over an object in pieces, in order; whether it is there, to its end."""
    at = 0
    while (piece := store.read_range(key, at, range_bytes)) is not None:
        take(piece)
        at += len(piece)
        if len(piece) < range_bytes:
            return True
    return False


def stored_digest(store: Store, key: str) -> bytes | None:
    """The sha256 of an object, which is never in memory as a whole; None where there is none."""
    digest = sha256()
    return digest.digest() if read_into(digest.update, store, key, range_bytes=_DIGEST_RANGE) else None


class RangedFile(io.RawIOBase):
    """An object of a known size as a file that is read by ranges; ``missing`` makes the error of one that is not."""

    def __init__(self, store: Store, key: str, size: int, missing: Callable[[], Exception]) -> None:
        self._store, self._key, self._size, self._missing = store, key, size, missing
        self._at = 0

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def seekable(self) -> bool:
        """Whether it can be read anywhere."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Read from somewhere else."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = start + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        """The next bytes, or all that are left."""
        rest = self._size - self._at
        wanted = rest if size < 0 else min(size, rest)
        data = self._store.read_range(self._key, self._at, wanted) if wanted > 0 else b""
        if data is None or len(data) != max(wanted, 0):
            raise self._missing()
        self._at += len(data)
        return data
