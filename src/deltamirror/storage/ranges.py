"""Objects of any size, read range by range."""

from collections.abc import Callable
from hashlib import sha256
from typing import Final

from deltamirror.storage.store import Store

__all__ = ["read_into", "stored_digest"]

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
