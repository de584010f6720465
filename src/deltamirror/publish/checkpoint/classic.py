"""A checkpoint in one Parquet file of the classic name."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256

import pyarrow as pa
import pyarrow.compute as pc

from deltamirror.delta import names
from deltamirror.deltalog.checkpoint import content, parquet
from deltamirror.deltalog.checkpoint.content import CheckpointState
from deltamirror.deltalog.checkpoint.layout import checkpoint_columns
from deltamirror.deltalog.checkpoint.reading import state_of_actions
from deltamirror.deltalog.checkpoint.row_groups import parquet_actions
from deltamirror.deltalog.checkpoint.state import tombstones_after
from deltamirror.publish.checkpoint.building import Built
from deltamirror.publish.checkpoint.classic_base import UNREADABLE
from deltamirror.publish.checkpoint.encoding import encoded
from deltamirror.publish.checkpoint.equivalence import is_equivalent
from deltamirror.publish.checkpoint.grouping import classic_row_groups
from deltamirror.publish.checkpoint.placement import Placed, place
from deltamirror.publish.checkpoint.summary import Written
from deltamirror.steps import Step
from deltamirror.storage.store import Store
from deltamirror.work import CheckpointUnit, Guard


def write_classic(built: Built, unit: CheckpointUnit, store: Store, *, guard: Guard) -> Written:
    """Put the checkpoint, or keep one of the same content that another writer put there."""
    data, schema = _encoded(built, unit)
    name = names.checkpoint_name(unit.version)

    def holds_our_state(found: bytes) -> bool:
        theirs = classic_state(found, version=unit.version)
        ours = built.state if built.unchanged is None else classic_state(data, version=unit.version)
        return theirs is not None and ours is not None and is_equivalent(_unexpired(theirs, ours, unit), ours)

    key = f"{names.LOG_DIRECTORY}/{name}"
    with ThreadPoolExecutor() as beside:
        # While the store writes, the cores have nothing else to do.
        own = beside.submit(lambda: sha256(data).digest())
        found = place(store, key, data, step=Step.PUT_CHECKPOINT, guard=guard, accept=holds_our_state)
    return _written(found, built, schema, name=name, digest=_digest(found, own.result()))


def _encoded(built: Built, unit: CheckpointUnit) -> tuple[pa.Buffer, str]:
    """The bytes of the checkpoint, which were read back, and Spark's text of its schema."""
    state = built.state
    columns = checkpoint_columns(state.metadata, state.protocol)
    schema = content.checkpoint_schema(columns)
    groups = classic_row_groups(content.row_batches(state), columns, unit.row_group_bytes)
    return encoded(groups, columns, schema, compression=unit.compression, unchanged=built.unchanged), schema


def classic_state(data: bytes | pa.Buffer, *, version: int) -> CheckpointState | None:
    """What a checkpoint in one file says; None where it cannot be read."""
    try:
        return state_of_actions(parquet_actions(parquet.File(data)), version=version)
    except MemoryError:  # Arrow's is an exception of both kinds
        raise
    except UNREADABLE:
        return None


def _unexpired(theirs: CheckpointState, ours: CheckpointState, unit: CheckpointUnit) -> CheckpointState:
    """Without tombstones that expired before the version's commit: another writer's clock may have kept them."""
    after = tombstones_after(ours.metadata, committed_at=unit.committed_at)
    kept = pc.greater(pc.fill_null(theirs.removes.column("deletionTimestamp"), 0), after)
    return replace(theirs, removes=theirs.removes.filter(kept))


def _digest(found: Placed, own: bytes) -> bytes | None:
    """Of the file that lies there, if the next checkpoint may build on it."""
    if found.is_as_given:
        return own
    # A file that looks like one of ours and is another could pass on what only its own columns and statistics say.
    return None if parquet.is_ours(found.data) else sha256(found.data).digest()


def _written(found: Placed, built: Built, schema: str, *, name: str, digest: bytes | None) -> Written:
    """The file, be it ours or another writer's, which may state another schema."""
    footer = parquet.opened(found.data).metadata
    stated = (footer.metadata or {}).get(parquet.SCHEMA_KEY)
    return Written(
        version=built.state.version,
        name=name,
        digest=digest,
        num_rows=footer.num_rows,
        num_files=built.num_files,
        num_bytes=len(found.data),
        schema=schema if stated == schema.encode() else None,
    )
