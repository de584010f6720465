"""Putting an object of a checkpoint to its place, where another writer may have put one before."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa

from deltamirror.errors import Transient
from deltamirror.publish.checkpoint.fetching import PIECE_BYTES
from deltamirror.steps import Step
from deltamirror.storage.store import Meta, Store
from deltamirror.work import Guard

Accept: TypeAlias = Callable[[bytes], bool]
"""Whether an object that has other bytes than ours may stay."""

_TURNS: Final = 5


@dataclass(frozen=True, slots=True)
class Placed:
    """What lies there."""

    meta: Meta
    data: bytes | pa.Buffer
    is_as_given: bool
    """Whether these are the bytes that were to be put, and not others that may stay."""


def place(store: Store, key: str, data: pa.Buffer, *, step: Step, guard: Guard, accept: Accept) -> Placed:
    """Put ``data`` where nothing is, or where nothing acceptable is; the object that lies there, as the store reads it.

    A writer that died, a reply that was lost and another writer's file all look alike: only the bytes there count.
    """
    body = memoryview(data).cast("B")  # Arrow's own format is of signed bytes, which not every store takes
    for _ in range(_TURNS):
        if data.size > PIECE_BYTES and (meta := _meta_of_same(store, key, data)):
            return Placed(meta, data, is_as_given=True)
        found = store.read(key)
        if found is None:
            guard()
            with step:
                store.create(key, body)
        elif (is_as_given := data.equals(pa.py_buffer(found.data))) or accept(found.data):
            return Placed(found.meta, found.data, is_as_given)
        else:
            guard()
            with step:
                store.replace(key, body, if_match=found.meta.etag)
    raise Transient(f"{key} in {store.location} keeps changing", hint="another writer writes this checkpoint, too")


def _meta_of_same(store: Store, key: str, data: pa.Buffer) -> Meta | None:
    """What the store knows of an object, if it has these bytes: it is not in memory as a whole, beside them."""
    meta = store.head(key)
    if meta is None or meta.size != data.size:
        return None
    for start in range(0, data.size, PIECE_BYTES):
        expected = data.slice(start, min(PIECE_BYTES, data.size - start))
        piece = store.read_range(key, start, PIECE_BYTES)
        if piece is None or not expected.equals(pa.py_buffer(piece)):
            return None
    return meta
