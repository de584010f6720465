"""Objects of any size, read in pieces: what is large lies aside."""

from typing import Final

import pyarrow as pa

from deltamirror.deltalog.checkpoint.scratch import Pile
from deltamirror.storage.ranges import read_into
from deltamirror.storage.store import Store

PIECE_BYTES: Final = 32 * 1024 * 1024


def fetched(store: Store, key: str) -> pa.Buffer | None:
    """The whole object; None where there is none, or where it vanished meanwhile."""
    pile = Pile()
    return pile.whole() if read_into(pile.add, store, key, range_bytes=PIECE_BYTES) else None
