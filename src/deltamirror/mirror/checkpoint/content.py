"""What a checkpoint holds, as Arrow tables: a row for every action that a full replay of the log leaves."""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from deltamirror.delta.actions import DomainMetadata, Metadata, Protocol, Txn

__all__ = [
    "CheckpointState",
    "can_continue",
    "checkpoint_schema",
    "file_rows",
    "replay",
    "rows",
    "state_of_table",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointState:
    """What remains of a table's commits at a version, with the removes and transactions that have not expired."""

    version: int
    protocol: Protocol
    metadata: Metadata
    transactions: tuple[Txn, ...]
    domains: tuple[DomainMetadata, ...]
    files: pa.Table
    """One row an add, in the order of paths: the fields of ``add`` in a checkpoint, without ``*_parsed``."""
    removes: pa.Table
    """One row an unexpired remove, in the order of paths: the fields of ``remove`` in a checkpoint."""


def replay(
    fetched: Iterable[Iterable[bytes]], *, version: int, committed_at: int, base: CheckpointState | None
) -> CheckpointState:
    """The state after commits, oldest first, each of them a stream of whole lines, that follow on ``base``."""
    raise NotImplementedError


def state_of_table(table: pa.Table, *, version: int) -> CheckpointState:
    """What a V1 checkpoint of ours says, as Arrow reads it: the inverse of ``rows``."""
    raise NotImplementedError


def can_continue(base_metadata: Metadata, metadata: Metadata, *, base_committed_at: int, committed_at: int) -> bool:
    """Whether a checkpoint holds every tombstone and transaction that a full replay up to a later commit keeps."""
    raise NotImplementedError


def rows(state: CheckpointState, *, file_rows: bool = True) -> pa.Table:
    """The table of a V1 checkpoint: txn, add, remove, metaData, protocol, domainMetadata, one of them in each row."""
    raise NotImplementedError


def file_rows(state: CheckpointState) -> pa.Table:
    """The table of a sidecar: add, remove."""
    raise NotImplementedError


def checkpoint_schema(table: pa.Table, metadata: Metadata) -> str:
    """Spark's JSON text of the schema of ``table``, which ``rows`` or ``file_rows`` made."""
    raise NotImplementedError
