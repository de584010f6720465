"""Putting an object of a checkpoint to its place, whoever was there before."""

from collections.abc import Callable
from typing import Final, TypeAlias

import pyarrow as pa

from deltamirror.errors import Transient
from deltamirror.storage.store import Object, Store
from deltamirror.work import Guard

__all__ = ["Accept", "place"]

Accept: TypeAlias = Callable[[bytes], bool]
"""Whether an object that has other bytes than ours may stay."""

_TURNS: Final = 5


def place(store: Store, key: str, data: pa.Buffer, *, guard: Guard, accept: Accept) -> Object:
    """Put ``data`` where nothing is, or where nothing acceptable is; the object that lies there, as the store reads it.

    A writer that died, a reply that was lost and somebody else's file all look alike: what counts is what can be read.
    """
    body = memoryview(data).cast("B")  # Arrow's own format is of signed bytes, which not every store takes
    for _ in range(_TURNS):
        found = store.read(key)
        if found is None:
            guard()
            store.create(key, body)
        elif _is_ours(found, data) or accept(found.data):
            return found
        else:
            guard()
            store.replace(key, body, if_match=found.meta.etag)
    raise Transient(f"{key} in {store.location} keeps changing", hint="somebody else writes this checkpoint, too")


def _is_ours(found: Object, data: pa.Buffer) -> bool:
    return bool(data.equals(pa.py_buffer(found.data)))
