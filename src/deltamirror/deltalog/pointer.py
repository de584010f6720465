"""Moving ``_last_checkpoint``: forward only, and never over a pointer that another writer wrote in between."""

from typing import Final

from deltamirror.delta import names
from deltamirror.delta.lastcheckpoint import LastCheckpoint, decode, encode
from deltamirror.errors import Transient
from deltamirror.steps import Step
from deltamirror.storage.store import Object, Replaced, Store
from deltamirror.work import Guard

POINTER_KEY: Final = f"{names.LOG_DIRECTORY}/{names.LAST_CHECKPOINT}"

_TURNS: Final = 5


def move_pointer(store: Store, pointer: LastCheckpoint, *, guard: Guard) -> None:
    """Point to this checkpoint, which is there and verified, unless the pointer is at it or beyond.

    A damaged pointer is replaced. Transient, if others write it as fast as we do.
    """
    data = encode(pointer)
    for _ in range(_TURNS):
        found = store.read(POINTER_KEY)
        if found is not None and _stays(found, pointer, data):
            return
        guard()
        with Step.MOVE_POINTER:
            moved = store.replace(POINTER_KEY, data, if_match=found.meta.etag if found else None)
        if isinstance(moved, Replaced):
            return
    raise Transient(f"{POINTER_KEY} in {store.location} keeps changing", hint="another writer moves it, too")


def _stays(found: Object, pointer: LastCheckpoint, data: bytes) -> bool:
    return found.data == data or not pointer.may_follow(decode(found.data))
