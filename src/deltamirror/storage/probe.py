"""Whether a store keeps its promises: some take ``If-None-Match`` and ignore it."""

from contextlib import suppress
from typing import Final

from deltamirror.delta.names import LOG_DIRECTORY
from deltamirror.errors import DeltaMirrorError, Unsupported
from deltamirror.storage.keys import temporary_name
from deltamirror.storage.store import Changed, Created, Store

__all__ = ["probe"]

_FIRST: Final = b"first"
_SECOND: Final = b"second"
_HINT: Final = (
    "publish to a store with conditional writes: AWS S3, MinIO, SeaweedFS, R2, Google, Azure, or a local disk"
)


def probe(store: Store) -> None:
    """Refuse a store that lets two writers win: with a temporary object that no reader looks at."""
    # Where cleaning sweeps what could not be deleted.
    key = f"{LOG_DIRECTORY}/{temporary_name('deltamirror-probe')}"
    try:
        _probe_create(store, key)
        _probe_replace(store, key)
    finally:
        # What cannot be deleted is swept later; why the store is refused matters more.
        with suppress(DeltaMirrorError):
            store.delete([key])


def _probe_create(store: Store, key: str) -> None:
    # That the first may answer Exists is its own lost reply; what counts is whose bytes are there.
    store.create(key, _FIRST)
    second = store.create(key, _SECOND)
    found = store.read(key)
    if isinstance(second, Created) or found is None or found.data != _FIRST:
        raise _refused(store, "a conditional create replaces what is there")


def _probe_replace(store: Store, key: str) -> None:
    found = store.read(key)
    if found is None:
        raise _refused(store, "an object that was just written cannot be read")
    store.replace(key, _SECOND, if_match=found.meta.etag)
    stale = store.replace(key, _FIRST, if_match=found.meta.etag)
    left = store.read(key)
    if not isinstance(stale, Changed) or left is None or left.data != _SECOND:
        raise _refused(store, "a conditional replace does not compare")


def _refused(store: Store, what: str) -> Unsupported:
    return Unsupported(f"the store of {store.location} lets two writers win: {what}", hint=_HINT)
