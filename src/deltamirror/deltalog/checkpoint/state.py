"""The state of a table that a checkpoint records, and what of it expires."""

from dataclasses import dataclass

import pyarrow as pa

from deltamirror.delta.actions import Action, DomainMetadata, Metadata, Protocol, Txn
from deltamirror.delta.properties import (
    deleted_file_retention_ms,
    transaction_retention_ms,
    write_stats_as_json,
    write_stats_as_struct,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointState:
    """What remains of a table's commits at a version, with the removes and transactions that have not expired."""

    version: int
    protocol: Protocol
    metadata: Metadata
    transactions: tuple[Txn, ...]
    domains: tuple[DomainMetadata, ...]
    files: pa.Table
    """One row an add, in the order of paths: the fields of ``add`` in a checkpoint, without ``*_parsed``.

    A state that continues from a checkpoint may have ``stats_parsed``, which then need not be parsed again.
    """
    removes: pa.Table
    """One row an unexpired remove, in the order of paths: the fields of ``remove`` in a checkpoint."""

    @property
    def others(self) -> tuple[Action, ...]:
        """The actions that are no files."""
        return self.protocol, self.metadata, *self.transactions, *self.domains


def tombstones_after(metadata: Metadata, *, committed_at: int) -> int:
    """Removes of files deleted at this time (ms) or earlier have expired when the version is committed."""
    return committed_at - deleted_file_retention_ms(metadata)


def transactions_after(metadata: Metadata, *, committed_at: int) -> int | None:
    """Application transactions last updated at this time (ms) or earlier have expired; None: they never do."""
    retention = transaction_retention_ms(metadata)
    return None if retention is None else committed_at - retention


def can_continue(base_metadata: Metadata, metadata: Metadata, *, base_committed_at: int, committed_at: int) -> bool:
    """Whether a checkpoint holds all that a full replay up to a later commit keeps.

    It does not where retention grew, so that tombstones or transactions are gone that count again, nor where its
    statistics are in typed columns alone, which do not give back their text.
    """
    tombstones = tombstones_after(metadata, committed_at=committed_at)
    kept = tombstones_after(base_metadata, committed_at=base_committed_at) <= tombstones
    return (
        kept
        and _has_statistics(base_metadata, metadata)
        and _has_transactions(
            transactions_after(base_metadata, committed_at=base_committed_at),
            transactions_after(metadata, committed_at=committed_at),
        )
    )


def _has_statistics(base_metadata: Metadata, metadata: Metadata) -> bool:
    return write_stats_as_json(base_metadata) or not (write_stats_as_json(metadata) or write_stats_as_struct(metadata))


def _has_transactions(kept_after: int | None, wanted_after: int | None) -> bool:
    return kept_after is None or (wanted_after is not None and kept_after <= wanted_after)
