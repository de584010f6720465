"""The objects of a log that lie before its start, as a store has them, and the checkpoint that replaces them."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from itertools import chain
from typing import Final

from deltamirror.delta import names
from deltamirror.delta.lastcheckpoint import decode
from deltamirror.deltalog.checkpoint_pieces import named_sidecars
from deltamirror.deltalog.commits import read_ranges
from deltamirror.deltalog.listing import numbered_files
from deltamirror.deltalog.pointer import POINTER_KEY
from deltamirror.deltalog.retention import expired_files, expired_originals, expired_sidecars
from deltamirror.storage.store import Meta, Store

SAVED: Final = f"{names.LOG_DIRECTORY}/_deltamirror"
"""Where originals of replaced objects are kept: no reader looks there."""

_THREADS: Final = 8


def pointed_version(store: Store) -> int | None:
    """The version of the checkpoint that readers are sent to; None where they are sent to none."""
    found = store.read(POINTER_KEY)
    return None if found is None else decode(found.data).version


def is_usable(store: Store, name: str, digest: bytes) -> bool:
    """Whether a checkpoint is in the log as it was written, with its sidecars and the commit of its version."""
    file, meta = names.parse(name), store.head(f"{names.LOG_DIRECTORY}/{name}")
    if not isinstance(file, names.CHECKPOINTS) or meta is None or _digest(store, meta) != digest:
        return False
    needed = [names.commit_key(file.version)]
    needed += [f"{names.SIDECARS}/{sidecar}" for sidecar in named_sidecars(store, meta)]
    return all(store.head(key) is not None for key in needed)


def expired_objects(store: Store, *, log_start: int, unversioned_before: int) -> list[Meta]:
    """All objects that lie before the start of a log, in the order in which they go.

    The sidecars come last: a checkpoint that names them is gone before them. They are the ones that no checkpoint
    names which stays.
    """
    old, kept = list[tuple[str, Meta]](), list[Meta]()
    for name, meta in numbered_files(store):
        file = names.parse(name)
        if isinstance(file, names.LogFile) and file.version <= log_start:
            old.append((name, meta))
        if isinstance(file, names.CHECKPOINTS) and file.version >= log_start and meta.size:
            kept.append(meta)
    originals = expired_originals(store.list(SAVED), log_start=log_start)
    expired = partial(expired_sidecars, log_start=log_start, unversioned_before=unversioned_before)
    sidecars = list(expired(store.list(names.SIDECARS)))
    if sidecars:
        sidecars = list(expired(sidecars, named=_named(store, kept)))
    return [*expired_files(old, log_start=log_start), *originals, *sidecars]


def _named(store: Store, checkpoints: Iterable[Meta]) -> set[str]:
    """What checkpoints name: an old sidecar is shared by all of them for as long as nothing in it changes."""
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="named") as threads:
        return set(chain.from_iterable(threads.map(partial(named_sidecars, store), checkpoints)))


def _digest(store: Store, meta: Meta) -> bytes:
    whole = sha256()
    for data in read_ranges(store, meta):
        whole.update(data)
    return whole.digest()
