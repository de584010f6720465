"""Checkpoints with sidecars that are damaged, and all others that share what is damaged.

One of ours that is written again may get another name, and readers choose among those of a version as they like. So the
damaged file moves aside.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from deltamirror.delta.names import SIDECARS
from deltamirror.deltalog.checkpoint_pieces import named_sidecars
from deltamirror.deltalog.comparison import ListedLog
from deltamirror.deltalog.listing import CheckpointKind
from deltamirror.errors import InvalidInput
from deltamirror.ops.reconcile.shortcuts import Misleading
from deltamirror.storage.store import Meta, Store
from deltamirror.work import ObjectDifference

_ALTERED: Final = "is not the checkpoint that was written"
_INCOMPLETE: Final = "names the sidecar {key}, which is gone or not the one that was written"


def damaged_manifests(
    store: Store, listed: ListedLog, found: Sequence[ObjectDifference]
) -> Iterator[tuple[Misleading, ObjectDifference]]:
    """The files of V2 checkpoints that were found damaged, or name a sidecar that was; and what is damaged of each."""
    damaged = {each.key: each for each in found}
    sidecars = {key for key in damaged if key.startswith(f"{SIDECARS}/")}
    for files in listed.checkpoints:
        meta = files.metas[0]
        if files.kind is not CheckpointKind.V2:
            continue
        if meta.key in damaged:
            yield Misleading(version=files.version, meta=meta, reason=_ALTERED), damaged[meta.key]
        elif sidecars and (lost := _first_named(store, meta, sidecars)):
            misleading = Misleading(version=files.version, meta=meta, reason=_INCOMPLETE.format(key=lost))
            yield misleading, replace(damaged[lost], version=files.version)


def _first_named(store: Store, meta: Meta, sidecars: set[str]) -> str | None:
    """The first of these sidecars that a file names. One that cannot be read is judged by itself."""
    with suppress(InvalidInput):
        return next((key for name in named_sidecars(store, meta) if (key := f"{SIDECARS}/{name}") in sidecars), None)
    return None
