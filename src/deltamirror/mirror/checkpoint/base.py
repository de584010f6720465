"""The checkpoint to start from: read from the store, and believed only if it is the one that was recorded."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from typing import Final

import pyarrow as pa

from deltamirror.delta import lines, names
from deltamirror.delta.actions import CheckpointMetadata, Metadata, Sidecar
from deltamirror.errors import InvalidInput
from deltamirror.mirror.checkpoint import content, parquet
from deltamirror.mirror.checkpoint.classic import classic_state
from deltamirror.mirror.checkpoint.content import CheckpointState
from deltamirror.mirror.checkpoint.sidecars import SIDECARS, unique_name
from deltamirror.storage.store import Store
from deltamirror.work import CheckpointBase

__all__ = ["base_state"]

_THREADS: Final = 4


def base_state(base: CheckpointBase, store: Store) -> CheckpointState | None:
    """What the checkpoint says; None where it is gone, is not the file that was recorded, or cannot be read."""
    found = store.read(f"{names.LOG_DIRECTORY}/{base.name}")
    if found is None or sha256(found.data).digest() != base.digest:
        return None
    if isinstance(names.parse(base.name), names.Checkpoint):
        return classic_state(found.data, version=base.version, with_statistics=True)
    return _v2_state(found.data, base, store)


def _v2_state(top: bytes, base: CheckpointBase, store: Store) -> CheckpointState | None:
    """A sidecar that is gone or has another content than its name says makes the whole checkpoint unusable."""
    try:
        actions = lines.decode_commit(top, source=base.name)
        others = [action for action in actions if not isinstance(action, CheckpointMetadata | Sidecar)]
        (metadata,) = (action for action in others if isinstance(action, Metadata))
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="sidecar") as threads:
            rows_of = partial(_sidecar_rows, store, metadata.id, base.version)
            files = list(threads.map(rows_of, [each for each in actions if isinstance(each, Sidecar)]))
    except (InvalidInput, ValueError):
        return None
    return _joined(lines.encode_commit(others), files, base)


def _sidecar_rows(store: Store, table_id: str, version: int, sidecar: Sidecar) -> pa.Table:
    found = store.read(f"{SIDECARS}/{sidecar.path}")
    if found is None:
        raise InvalidInput(f"there is no sidecar {sidecar.path} in {store.location}")
    if unique_name(table_id, version, sha256(found.data).digest()) not in sidecar.path:
        raise InvalidInput(f"the sidecar {sidecar.path} in {store.location} is not the one that was written")
    return parquet.table_of(found.data)


def _joined(others: bytes, files: list[pa.Table], base: CheckpointBase) -> CheckpointState:
    """As if all of it had been one file."""
    without_files = content.replay([[others]], version=base.version, committed_at=base.committed_at, base=None)
    rows = pa.concat_tables([content.rows(without_files), *files], promote_options="permissive")
    return content.state_of_table(rows, version=base.version)
