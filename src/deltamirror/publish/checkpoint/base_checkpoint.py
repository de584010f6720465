"""The checkpoint to start from: read from the store, and believed only if it is the one that was recorded."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Final

import pyarrow as pa

from deltamirror.delta import lines, names
from deltamirror.delta.actions import Sidecar
from deltamirror.deltalog.checkpoint import content
from deltamirror.deltalog.checkpoint.content import CheckpointState
from deltamirror.deltalog.checkpoint.row_groups import parquet_actions
from deltamirror.errors import InvalidInput
from deltamirror.publish.checkpoint.classic_base import ClassicBase
from deltamirror.publish.checkpoint.fetching import fetched
from deltamirror.publish.checkpoint.sidecars import TopFile, read_top
from deltamirror.storage.store import Store
from deltamirror.work import CheckpointBase

_THREADS: Final = 4


def read_base(base: CheckpointBase, store: Store) -> ClassicBase | CheckpointState | None:
    """What the checkpoint says; None where it is gone, or is not the file that was recorded.

    One of the errors ``UNREADABLE`` where it cannot be read, be it for one of its sidecars.
    """
    data = fetched(store, f"{names.LOG_DIRECTORY}/{base.name}")
    if data is None or sha256(data).digest() != base.digest:
        return None
    if isinstance(names.parse(base.name), names.Checkpoint):
        return ClassicBase.of(data)
    return _v2_state(data.to_pybytes(), base, store)


def _v2_state(top: bytes, base: CheckpointBase, store: Store) -> CheckpointState:
    """A sidecar that is gone or has another content than its name says makes the whole checkpoint unusable."""
    file = read_top(top, source=base.name)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="sidecar") as threads:
        sidecars = list(threads.map(partial(_sidecar, store, file, base.version), file.sidecars))
    return _joined(lines.encode_commit(file.others), sidecars, base)


def _sidecar(store: Store, file: TopFile, version: int, sidecar: Sidecar) -> pa.Buffer:
    data = fetched(store, f"{names.SIDECARS}/{sidecar.path}")
    if data is None:
        raise InvalidInput(f"there is no sidecar {sidecar.path} in {store.location}")
    if not file.is_as_written(sidecar, version, sha256(data).digest()):
        raise InvalidInput(f"the sidecar {sidecar.path} in {store.location} is not the one that was written")
    return data


def _joined(others: bytes, sidecars: Sequence[pa.Buffer], base: CheckpointBase) -> CheckpointState:
    """As if all of it had been one file."""
    state = content.replay([[others]], version=base.version, committed_at=base.committed_at, base=None)
    actions = parquet_actions(*sidecars)
    return replace(state, files=actions.files, removes=actions.removes)
