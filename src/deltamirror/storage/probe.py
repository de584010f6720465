"""Whether a store keeps its promises: some take ``If-None-Match`` and ignore it."""

from contextlib import suppress
from typing import Final

from deltamirror.delta.names import LOG_DIRECTORY
from deltamirror.errors import DeltaMirrorError, Transient, Unsupported
from deltamirror.steps import Step
from deltamirror.storage.keys import temporary_name
from deltamirror.storage.store import Changed, Created, Replaced, Store

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
        # A probe that cannot be deleted is swept later; why the store is refused matters more.
        with suppress(DeltaMirrorError), Step.PROBE_DELETE:
            store.delete([key])


def _probe_create(store: Store, key: str) -> None:
    with Step.PROBE_CREATE:
        first = store.create(key, _FIRST)
    _require(store, key, _FIRST, is_done=isinstance(first, Created))
    with Step.PROBE_CREATE:
        second = store.create(key, _SECOND)
    found = store.read(key)
    if isinstance(second, Created) or found is None or found.data != _FIRST:
        raise _refused(store, "a conditional create replaces what is there")


def _probe_replace(store: Store, key: str) -> None:
    found = store.read(key)
    if found is None:
        raise _refused(store, "an object that was just written cannot be read")
    known = found.meta.etag
    with Step.PROBE_REPLACE:
        replaced = store.replace(key, _SECOND, if_match=known)
    _require(store, key, _SECOND, is_done=isinstance(replaced, Replaced))
    with Step.PROBE_REPLACE:
        stale = store.replace(key, _FIRST, if_match=known)
    left = store.read(key)
    if not isinstance(stale, Changed) or left is None or left.data != _SECOND:
        raise _refused(store, "a conditional replace does not compare")


def _require(store: Store, key: str, data: bytes, *, is_done: bool) -> None:
    """Require that the probe is there, which no other process writes. A "no" of the store may be a lost reply.

    Or it was busy, with whatever: a store that says no without a reason is tried again, and not refused.
    """
    if is_done:
        return
    found = store.read(key)
    if found is None or found.data != data:
        raise Transient(
            f"the store of {store.location} did not write {key}, and says that another writer did",
            hint="the mirror tries again by itself",
        )


def _refused(store: Store, what: str) -> Unsupported:
    return Unsupported(f"the store of {store.location} lets two writers win: {what}", hint=_HINT)
