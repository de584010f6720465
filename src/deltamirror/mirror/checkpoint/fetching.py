"""Objects of any size, read in pieces: what is large lies aside."""

from typing import Final

import pyarrow as pa

from deltamirror.mirror.checkpoint.scratch import Pile
from deltamirror.storage.store import Store

__all__ = ["PIECE_BYTES", "fetched"]

PIECE_BYTES: Final = 32 * 1024 * 1024


def fetched(store: Store, key: str) -> pa.Buffer | None:
    """The whole object; None where there is none, or where it vanished meanwhile."""
    pile = Pile()
    while True:
        piece = store.read_range(key, pile.size, PIECE_BYTES)
        if piece is None:
            return None
        pile.add(piece)
        if len(piece) < PIECE_BYTES:
            return pile.whole()
