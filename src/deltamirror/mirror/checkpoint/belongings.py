"""Whether what belongs to a checkpoint beside its own file is as it was written: its sidecars, and the pointer."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from typing import Final

from deltamirror.delta import names
from deltamirror.delta.actions import Sidecar
from deltamirror.delta.lastcheckpoint import decode
from deltamirror.errors import InvalidInput
from deltamirror.mirror.checkpoint.pointer import POINTER_KEY
from deltamirror.mirror.checkpoint.sidecars import TopFile, read_top
from deltamirror.mirror.ranges import stored_digest
from deltamirror.storage.store import Store
from deltamirror.work import Difference

__all__ = ["damaged_pointer", "damaged_sidecar"]

_RANGE: Final = 16 * 1024 * 1024
_THREADS: Final = 4


def damaged_sidecar(store: Store, key: str, version: int, *, whole: bool) -> Difference | None:
    """A sidecar of a checkpoint of ours that is gone or has other bytes; None if all are as they were written.

    Without ``whole``, one that has its size is not read.
    """
    top = store.read(key)
    if top is None:
        return Difference(version=version, key=key, found="")
    try:
        file = read_top(top.data, source=key)
    except (InvalidInput, ValueError):
        return Difference(version=version, key=key, found=sha256(top.data).hexdigest())
    compare = partial(_difference, store, file, version, whole=whole)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="sidecar") as threads:
        return next((found for found in threads.map(compare, file.sidecars) if found is not None), None)


def _difference(store: Store, file: TopFile, version: int, sidecar: Sidecar, *, whole: bool) -> Difference | None:
    key = f"{names.SIDECARS}/{sidecar.path}"
    if not whole:
        meta = store.head(key)
        if meta is not None and meta.size == sidecar.size_in_bytes:
            return None
    digest = stored_digest(store, key, range_bytes=_RANGE)
    if digest is not None and file.is_as_written(sidecar, version, digest):
        return None
    return Difference(version=version, key=key, found="" if digest is None else digest.hex())


def damaged_pointer(store: Store, newest: int) -> Difference | None:
    """What is in the place of a pointer to the newest checkpoint, or to a later one; None if that is what it is."""
    found = store.read(POINTER_KEY)
    if found is None:
        return Difference(version=newest, key=POINTER_KEY, found="")
    pointed = decode(found.data).version
    if pointed is not None and pointed >= newest:
        return None
    return Difference(version=newest, key=POINTER_KEY, found=sha256(found.data).hexdigest())
