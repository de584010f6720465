"""A checkpoint in one Parquet file of the classic name."""

from dataclasses import replace
from hashlib import sha256
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltamirror.delta import names
from deltamirror.deltalog.checkpoint import content, parquet
from deltamirror.deltalog.checkpoint.content import CheckpointState
from deltamirror.deltalog.checkpoint.layout import FILES, STATS_PARSED, checkpoint_columns
from deltamirror.deltalog.checkpoint.reading import state_of_actions
from deltamirror.deltalog.checkpoint.row_groups import parquet_actions
from deltamirror.deltalog.checkpoint.state import tombstones_after
from deltamirror.errors import InvalidInput
from deltamirror.publish.checkpoint.encoding import encoded
from deltamirror.publish.checkpoint.equivalence import is_equivalent
from deltamirror.publish.checkpoint.placement import place
from deltamirror.publish.checkpoint.summary import Written
from deltamirror.steps import Step
from deltamirror.storage.store import Store
from deltamirror.work import CheckpointUnit, Guard

__all__ = ["classic_state", "write_classic"]

_UNREADABLE: Final = (InvalidInput, pa.ArrowException, LookupError, TypeError, ValueError)
"""The errors that reading a file of another writer may lead to: it is not a checkpoint that we understand."""


def write_classic(state: CheckpointState, unit: CheckpointUnit, store: Store, *, guard: Guard) -> Written:
    """Put the checkpoint, or keep one of the same content that another writer put there."""
    data, schema = _encoded(state, unit)
    name = names.checkpoint_name(unit.version)

    def holds_our_state(found: bytes) -> bool:
        theirs = classic_state(found, version=unit.version)
        return theirs is not None and is_equivalent(_unexpired(theirs, state, unit), state)

    found = place(
        store, f"{names.LOG_DIRECTORY}/{name}", data, step=Step.PUT_CHECKPOINT, guard=guard, accept=holds_our_state
    )
    return _written(found.data, state, schema, name=name)


def _encoded(state: CheckpointState, unit: CheckpointUnit) -> tuple[pa.Buffer, str]:
    """The bytes of the checkpoint, which were read back, and Spark's text of its schema."""
    columns = checkpoint_columns(state.metadata, state.protocol)
    schema = content.checkpoint_schema(columns)
    data = encoded(
        content.row_batches(state),
        columns,
        schema,
        compression=unit.compression,
        row_group_bytes=unit.row_group_bytes,
    )
    return data, schema


def classic_state(data: bytes | pa.Buffer, *, version: int, with_statistics: bool = False) -> CheckpointState | None:
    """What a checkpoint in one file says; None where it cannot be read.

    ``with_statistics`` also takes over ``stats_parsed`` of a file of ours; others read texts in their own ways.
    """
    try:
        columns = _with_statistics(data) if with_statistics and parquet.is_ours(data) else FILES
        return state_of_actions(parquet_actions(data, columns=columns), version=version)
    except MemoryError:  # Arrow's is an exception of both kinds
        raise
    except _UNREADABLE:
        return None


def _with_statistics(data: bytes | pa.Buffer) -> pa.Schema:
    add = parquet.opened(data).schema_arrow.field("add").type
    place = add.get_field_index(STATS_PARSED)
    return FILES if place < 0 else FILES.append(add.field(place))


def _unexpired(theirs: CheckpointState, ours: CheckpointState, unit: CheckpointUnit) -> CheckpointState:
    """Without tombstones that expired before the version's commit: another writer's clock may have kept them."""
    after = tombstones_after(ours.metadata, committed_at=unit.committed_at)
    kept = pc.greater(pc.fill_null(theirs.removes.column("deletionTimestamp"), 0), after)
    return replace(theirs, removes=theirs.removes.filter(kept))


def _written(data: bytes | pa.Buffer, state: CheckpointState, schema: str, *, name: str) -> Written:
    """The file, be it ours or another writer's, which may state another schema."""
    footer = parquet.opened(data).metadata
    stated = (footer.metadata or {}).get(parquet.SCHEMA_KEY)
    return Written(
        version=state.version,
        name=name,
        digest=sha256(data).digest(),
        num_rows=footer.num_rows,
        num_files=state.files.num_rows,
        num_bytes=len(data),
        schema=schema if stated == schema.encode() else None,
    )
