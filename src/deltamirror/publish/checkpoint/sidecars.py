"""A V2 checkpoint: file actions in Parquet files of their own, and a JSON file that names them.

Names are made of what they name: the UUID of a file follows from the table, the version and the digest of the file's
content. So a second attempt finds the files of the first one in place, and a reader of a sidecar can tell from its
name whether it is the one that was meant, be the checkpoint that names it a later one. Only where an attempt with other
settings follows on one that failed, files stay behind that no checkpoint refers to; cleanup deletes those.

A range of paths goes to one sidecar, so that a reader who looks for certain files needs few of them. Typed columns and
Parquet bytes exist for a few sidecars at a time only.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Final
from uuid import UUID, uuid5

import msgspec
import pyarrow as pa

from deltamirror.delta import lines, names
from deltamirror.delta.actions import Action, CheckpointMetadata, Metadata, Sidecar, Version
from deltamirror.delta.lastcheckpoint import V2Checkpoint
from deltamirror.deltalog.checkpoint import content
from deltamirror.deltalog.checkpoint.content import CheckpointState
from deltamirror.deltalog.checkpoint.layout import file_columns
from deltamirror.publish.checkpoint.encoding import encoded
from deltamirror.publish.checkpoint.grouping import row_groups
from deltamirror.publish.checkpoint.placement import Placed, place
from deltamirror.publish.checkpoint.summary import Written
from deltamirror.publish.checkpoint.unchanged_sidecars import UnchangedSidecars
from deltamirror.steps import Step
from deltamirror.storage.store import Store
from deltamirror.work import CheckpointUnit, Guard

_NAMESPACE: Final = UUID("5f0c6b0e-6f0e-5d5a-9d53-7b0c3f6f2c1d")
_THREADS: Final = 4
_LONGEST_SCHEMA: Final = 20_000
_NO_SIDECARS: Final = UnchangedSidecars(named=(), num_actions=0, num_files=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writing:
    """What all sidecars that a checkpoint adds have in common."""

    state: CheckpointState
    schema: str
    parts: int
    unit: CheckpointUnit
    store: Store
    guard: Guard


def write_v2(
    state: CheckpointState,
    unit: CheckpointUnit,
    store: Store,
    *,
    guard: Guard,
    unchanged: UnchangedSidecars | None = None,
) -> Written:
    """Put the sidecars of the state, in parallel, and then the file that makes them a checkpoint.

    It also names the ``unchanged`` ones, which are in the store, and whose actions are not in the state.
    """
    writing = _Writing(
        state=state,
        schema=content.checkpoint_schema(file_columns(state.metadata, state.protocol)),
        parts=-(-_num_actions(state) // unit.sidecar_actions),
        unit=unit,
        store=store,
        guard=guard,
    )
    older = unchanged or _NO_SIDECARS
    sidecars = [*_put_sidecars(writing), *older.named]
    num_actions, num_files = _num_actions(state) + older.num_actions, state.files.num_rows + older.num_files
    tags = _tags(sidecars, writing.schema, num_actions=num_actions, num_files=num_files)
    head = CheckpointMetadata(version=state.version, tags=tags)
    top = lines.encode_commit([head, *sidecars, *_non_file_actions(state)])
    unique = _unique_name(state.metadata.id, state.version, sha256(top).digest())
    key = f"{names.LOG_DIRECTORY}/{names.UuidCheckpoint(Version(state.version), unique, 'json').name}"
    found = place(store, key, pa.py_buffer(top), step=Step.PUT_MANIFEST, guard=guard, accept=_nothing_else)
    return _written(state, head, sidecars, num_actions=num_actions, num_files=num_files, top=found)


def _unique_name(table_id: str, version: int, digest: bytes) -> str:
    """The UUID in the name of a file with this digest."""
    return str(uuid5(_NAMESPACE, f"{table_id}/{version}/{digest.hex()}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopFile:
    """What the file of a checkpoint with sidecars holds."""

    metadata: Metadata
    sidecars: Sequence[Sidecar]
    others: Sequence[Action]
    """All actions but for the sidecars and the head of the file."""

    def is_named(self, key: str, version: int, digest: bytes) -> bool:
        """Whether a key has the name that we give to a file with this digest."""
        return _unique_name(self.metadata.id, version, digest) in key

    def is_as_written(self, sidecar: Sidecar, version: int, digest: bytes) -> bool:
        """Whether an object with this digest is what was written as a sidecar, at this version or before.

        Its name says so.
        """
        made = names.sidecar_version(sidecar.path)
        return made is not None and made <= version and _unique_name(self.metadata.id, made, digest) in sidecar.path


def read_top(data: bytes, *, source: str) -> TopFile:
    """The actions of a top file of ours; InvalidInput or ValueError where it is none."""
    actions = lines.decode_commit(data, source=source)
    others = [action for action in actions if not isinstance(action, CheckpointMetadata | Sidecar)]
    (metadata,) = (action for action in others if isinstance(action, Metadata))
    return TopFile(
        metadata=metadata, sidecars=[action for action in actions if isinstance(action, Sidecar)], others=others
    )


def _put_sidecars(writing: _Writing) -> list[Sidecar]:
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="sidecar") as threads:
        return list(threads.map(partial(_put_sidecar, writing), range(writing.parts)))


def _put_sidecar(writing: _Writing, part: int) -> Sidecar:
    unit, most = writing.unit, writing.unit.sidecar_actions
    rows = content.file_rows(_range(writing.state, part * most, most))
    groups = row_groups(rows.to_batches(), rows.schema, unit.row_group_bytes)
    data = encoded(groups, rows.schema, writing.schema, compression=unit.compression)
    unique = _unique_name(writing.state.metadata.id, unit.version, sha256(data).digest())
    name = names.sidecar_name(unit.version, unique, part=part + 1, parts=writing.parts)
    found = place(
        writing.store,
        f"{names.SIDECARS}/{name}",
        data,
        step=Step.PUT_SIDECAR,
        guard=writing.guard,
        accept=_nothing_else,
    )
    return Sidecar(path=name, size_in_bytes=found.meta.size, modification_time=found.meta.modified)


def _range(state: CheckpointState, start: int, most: int) -> CheckpointState:
    """The state with some of its file actions: files come first, then tombstones."""
    files = state.files.slice(min(start, state.files.num_rows), most)
    removes = state.removes.slice(max(start - state.files.num_rows, 0), most - files.num_rows)
    return replace(state, files=files, removes=removes)


def _num_actions(state: CheckpointState) -> int:
    return int(state.files.num_rows + state.removes.num_rows)


def _nothing_else(_: bytes) -> bool:
    return False


def _tags(sidecars: Sequence[Sidecar], schema: str, *, num_actions: int, num_files: int) -> dict[str, str]:
    tags = {
        "sidecarNumActions": str(num_actions),
        "sidecarSizeInBytes": str(_total_size(sidecars)),
        "numOfAddFiles": str(num_files),
    }
    return tags | ({"sidecarFileSchema": schema} if len(schema) <= _LONGEST_SCHEMA else {})


def _total_size(sidecars: Sequence[Sidecar]) -> int:
    return sum(sidecar.size_in_bytes for sidecar in sidecars)


def _non_file_actions(state: CheckpointState) -> list[Action]:
    return [state.protocol, state.metadata, *state.domains, *state.transactions]


def _written(
    state: CheckpointState,
    head: CheckpointMetadata,
    sidecars: Sequence[Sidecar],
    *,
    num_actions: int,
    num_files: int,
    top: Placed,
) -> Written:
    others = _non_file_actions(state)
    name = top.meta.key.rpartition("/")[2]
    return Written(
        version=state.version,
        name=name,
        digest=sha256(top.data).digest(),
        num_rows=1 + len(sidecars) + len(others) + num_actions,
        num_files=num_files,
        num_bytes=top.meta.size + _total_size(sidecars),
        v2=V2Checkpoint(
            path=name,
            size_in_bytes=top.meta.size,
            modification_time=top.meta.modified,
            non_file_actions=tuple(msgspec.Raw(lines.encode(action)) for action in [*others, head]),
            sidecar_files=tuple(sidecars),
        ),
    )
