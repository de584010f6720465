"""Objects of any size, read range by range."""

from collections.abc import Callable

from deltamirror.storage.store import Store

__all__ = ["read_into"]


def read_into(take: Callable[[bytes], None], store: Store, key: str, *, range_bytes: int) -> bool:
    """Hand over an object in pieces, in order; whether it is there, to its end."""
    at = 0
    while (piece := store.read_range(key, at, range_bytes)) is not None:
        take(piece)
        at += len(piece)
        if len(piece) < range_bytes:
            return True
    return False
