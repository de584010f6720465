"""Objects of a log kept aside before others take their place, or readers would go by them."""

import hashlib
from typing import Final

from deltamirror.delta.names import LOG_DIRECTORY
from deltamirror.deltalog.expiry import SAVED
from deltamirror.errors import Transient
from deltamirror.steps import Step
from deltamirror.storage.ranges import stored_digest
from deltamirror.storage.store import Created, Meta, Object, Store

_DIGITS: Final = 12


def save(store: Store, found: Object) -> str:
    """Keep the bytes of an object under a name that says what they are; that name. Nothing is kept of an empty one."""
    if not found.data:
        return ""
    aside = _name(found.meta.key, hashlib.sha256(found.data).digest())
    with Step.SAVE_ALTERED:
        saved = store.create(aside, found.data)
    if not isinstance(saved, Created):
        there = store.read(aside)
        if there is None or there.data != found.data:
            raise changing(store, aside)
    return aside


def set_aside(store: Store, meta: Meta) -> str | None:
    """Move an object, of any size, to where no reader looks; its name there, or empty where nothing is kept.

    None: it is gone, or another since it was looked at, and stays. The next comparison judges it.
    """
    found = store.head(meta.key)
    if found is None or found.etag != meta.etag:
        return None
    aside = _copied(store, found) if found.size else ""
    with Step.REMOVE_MISLEADING:
        store.delete([meta.key])
    return aside


def remove_link(store: Store, key: str) -> None:
    """Take a symbolic link away, and nothing of what it leads to. What is an object by this time stays."""
    if any(each.is_link and each.key == key for each in store.obstacles(key.rpartition("/")[0])):
        with Step.REMOVE_MISLEADING:
            store.delete([key])


def _copied(store: Store, meta: Meta) -> str:
    digest = stored_digest(store, meta.key)
    if digest is None:
        raise changing(store, meta.key)
    aside = _name(meta.key, digest)
    with Step.COPY_ASIDE:
        store.copy(meta.key, aside)
    if stored_digest(store, aside) != digest:
        raise changing(store, aside)
    return aside


def changing(store: Store, key: str) -> Transient:
    """The error where another writer changes an object while it is repaired."""
    return Transient(f"{key} in {store.location} changes while it is repaired", hint="keep others away, and try again")


def _name(key: str, digest: bytes) -> str:
    return f"{SAVED}/{key.removeprefix(f'{LOG_DIRECTORY}/')}.{digest.hex()[:_DIGITS]}"
