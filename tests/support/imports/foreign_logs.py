"""Logs of others, made by hand: commits, and checkpoints in the shapes that other writers give them."""

from collections.abc import Mapping, Sequence
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from deltamirror.config import StorageSettings
from deltamirror.delta import lines, names
from deltamirror.delta.actions import Action
from deltamirror.deltalog.checkpoint.content import CheckpointState, file_rows, replay
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from tests.support.logs.checkpoint_tables import rows
from tests.support.logs.checkpoints import COMMITTED_AT, STORY, first_commit

HISTORY: tuple[bytes, ...] = (first_commit(), *STORY)
"""Versions 0 to 3: files, a tombstone, a null partition, a transaction, a domain."""


def store_in_memory() -> Store:
    """An empty store."""
    return store_at(f"memory://{uuid4()}/table", StorageSettings())


def put_log(store: Store, commits: Mapping[int, bytes]) -> None:
    """The commits of these versions."""
    for version, data in commits.items():
        store.put(f"{names.LOG_DIRECTORY}/{names.commit_name(version)}", data)


def state_after(commits: Sequence[bytes]) -> CheckpointState:
    """The state after all of these commits, with every tombstone."""
    return replay([[each] for each in commits], version=len(commits) - 1, committed_at=COMMITTED_AT, base=None)


def parquet(table: pa.Table, *, row_group_size: int | None = None) -> bytes:
    """The bytes of a Parquet file, as Arrow writes it unless told otherwise."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=row_group_size)
    return bytes(sink.getvalue())


def put_classic(store: Store, version: int, table: pa.Table, *, row_group_size: int | None = None) -> None:
    """A checkpoint in one file."""
    data = parquet(table, row_group_size=row_group_size)
    store.put(f"{names.LOG_DIRECTORY}/{names.checkpoint_name(version)}", data)


def put_parts(store: Store, state: CheckpointState, *, parts: int, only: Sequence[int] | None = None) -> None:
    """A checkpoint in parts, of which some may be left out."""
    table = rows(state)
    size = -(-table.num_rows // parts)
    for part in range(1, parts + 1) if only is None else only:
        name = f"{state.version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet"
        store.put(f"{names.LOG_DIRECTORY}/{name}", parquet(table.slice((part - 1) * size, size)))


def put_v2(store: Store, state: CheckpointState, *, top: str, sidecars: Sequence[str] = ("a.parquet",)) -> None:
    """A checkpoint with sidecars, whose top-level file is ``json`` or ``parquet``."""
    files = file_rows(state)
    size = -(-files.num_rows // len(sidecars))
    for number, name in enumerate(sidecars):
        data = parquet(files.slice(number * size, size))
        store.put(f"{names.SIDECARS}/{name}", data)
    others: list[Action] = [state.protocol, state.metadata, *state.transactions, *state.domains]
    listed = [f'{{"sidecar":{{"path":"{name}","sizeInBytes":1,"modificationTime":1}}}}\n' for name in sidecars]
    text = b'{"checkpointMetadata":{"version":%d}}\n' % state.version + "".join(listed).encode()
    data = text + lines.encode_commit(others) if top == "json" else parquet(_top_table(state, sidecars))
    store.put(f"{names.LOG_DIRECTORY}/{state.version:020d}.checkpoint.{uuid4()}.{top}", data)


def _top_table(state: CheckpointState, sidecars: Sequence[str]) -> pa.Table:
    table = rows(state)
    is_other = pa.compute.and_(table.column("add").is_null(), table.column("remove").is_null())
    paths = pa.table({"sidecar": pa.array([{"path": name, "sizeInBytes": 1} for name in sidecars])})
    return pa.concat_tables([table.filter(is_other), paths], promote_options="default")


def assert_same_state(one: CheckpointState, other: CheckpointState) -> None:
    """The same in all that a state has, in the same order."""
    assert (one.version, one.protocol, one.metadata) == (other.version, other.protocol, other.metadata)
    assert (one.transactions, one.domains) == (other.transactions, other.domains)
    assert one.files.to_pylist() == other.files.to_pylist()
    assert one.removes.to_pylist() == other.removes.to_pylist()
    assert (one.files.schema, one.removes.schema) == (other.files.schema, other.removes.schema)
