"""The actions of a Delta log as typed values.

The order of the fields is the order on the wire, as Delta Lake on Spark writes it. A required
field has no default, so that ``dataChange: false`` and ``partitionValues: {}`` are written; an
optional field is ``None`` when absent and then left out.

A struct is a *view* of a line: it drops fields that it does not know. A line of another writer
is stored as it is and never encoded again.
"""

from typing import Annotated, NewType, TypeAlias

import msgspec

Version = NewType("Version", int)

Long: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""The integers of the log: signed, of 64 bits. No reader takes in a larger one, and no database stores it."""

Int: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""The integers that readers hold in 32 bits: a larger one makes the whole table unreadable."""

FileKey: TypeAlias = tuple[str, str | None]
"""What identifies a file in a table: its path as spelled, and the id of its deletion vector."""


class DeletionVector(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Which rows of a data file are deleted."""

    storage_type: str
    path_or_inline_dv: str
    offset: Int | None = None
    size_in_bytes: Int
    cardinality: Long

    @property
    def unique_id(self) -> str:
        """The protocol's derived id: part of the key of a file."""
        where = self.storage_type + self.path_or_inline_dv
        return where if self.offset is None else f"{where}@{self.offset}"


class Add(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """A data file becomes part of the table. ``stats`` is raw JSON text, never parsed and re-encoded."""

    path: str
    partition_values: dict[str, str | None]
    size: Long
    modification_time: Long
    data_change: bool
    stats: str | None = None
    tags: dict[str, str] | None = None
    deletion_vector: DeletionVector | None = None
    base_row_id: Long | None = None
    default_row_commit_version: Long | None = None
    clustering_provider: str | None = None


class Remove(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """A data file stops being part of the table; until it expires, it is a tombstone."""

    path: str
    deletion_timestamp: Long | None = None
    data_change: bool
    extended_file_metadata: bool | None = None
    partition_values: dict[str, str | None] | None = None
    size: Long | None = None
    tags: dict[str, str] | None = None
    deletion_vector: DeletionVector | None = None
    base_row_id: Long | None = None
    default_row_commit_version: Long | None = None
    stats: str | None = None


class Cdc(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A file of change data, for readers of the change data feed."""

    path: str
    partition_values: dict[str, str | None]
    size: Long
    tags: dict[str, str] | None = None
    data_change: bool


class Format(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How the data files are encoded: ``parquet``."""

    provider: str
    options: dict[str, str]


class Metadata(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Schema, partitioning and properties of the table. ``schema_string`` is raw JSON text.

    Without one the table has no columns, as the reference reads it; Delta Live Tables begin so. Imported logs may hold
    such a line, a commit may not.
    """

    id: str
    name: str | None = None
    description: str | None = None
    format: Format
    schema_string: str | None = None
    partition_columns: list[str]
    configuration: dict[str, str]
    created_time: Long | None = None


class Protocol(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a client has to understand to read and to write the table."""

    min_reader_version: Int
    min_writer_version: Int
    reader_features: list[str] | None = None
    writer_features: list[str] | None = None


class Txn(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The progress of an application: its newest version that the table holds."""

    app_id: str
    version: Long
    last_updated: Long | None = None


class DomainMetadata(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Configuration of a named domain, as a string; ``removed`` makes it a tombstone."""

    domain: str
    configuration: str
    removed: bool


class CommitInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Provenance of a commit. Values of ``operation_parameters`` are raw JSON."""

    version: Long | None = None
    in_commit_timestamp: Long | None = None
    timestamp: Long | None = None
    user_id: str | None = None
    user_name: str | None = None
    operation: str | None = None
    operation_parameters: dict[str, msgspec.Raw] | None = None
    job: dict[str, object] | None = None
    notebook: dict[str, object] | None = None
    cluster_id: str | None = None
    read_version: Long | None = None
    isolation_level: str | None = None
    is_blind_append: bool | None = None
    operation_metrics: dict[str, str] | None = None
    user_metadata: str | None = None
    tags: dict[str, str] | None = None
    engine_info: str | None = None
    txn_id: str | None = None


class CheckpointMetadata(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Heads a V2 checkpoint; never in a commit."""

    version: Long
    tags: dict[str, str] | None = None


class Sidecar(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A file of a V2 checkpoint that holds file actions; never in a commit."""

    path: str
    size_in_bytes: Long
    modification_time: Long
    tags: dict[str, str] | None = None


Action: TypeAlias = (
    Add | Remove | Cdc | Metadata | Protocol | Txn | DomainMetadata | CommitInfo | CheckpointMetadata | Sidecar
)


def file_key(action: Add | Remove) -> FileKey:
    """The key under which ``add`` and ``remove`` meet in reconciliation."""
    vector = action.deletion_vector
    return action.path, None if vector is None else vector.unique_id
