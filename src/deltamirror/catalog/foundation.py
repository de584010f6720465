"""The metadata and protocol that rows are written for, where they bring columns along."""

import pyarrow as pa

from deltamirror.catalog.alteration import altered_by
from deltamirror.delta.actions import Action, Metadata, Protocol
from deltamirror.delta.columnmapping import is_same_type, reuse_mapping
from deltamirror.delta.definition import CLUSTERING_DOMAIN, Alteration, clustering_domain
from deltamirror.delta.dependencies import dependents
from deltamirror.delta.properties import column_mapping_mode
from deltamirror.delta.schema import StructType, parse_schema
from deltamirror.delta.validation.metadata import check_metadata
from deltamirror.delta.widening import may_widen
from deltamirror.errors import InvalidInput
from deltamirror.rows.schema_merging import data_schema, merged_schema
from deltamirror.txnlog.tables.reading import Snapshot


def founded_on(
    metadata: Metadata,
    protocol: Protocol,
    source: pa.Schema,
    *,
    merges: bool,
    partition_by: tuple[str, ...] | None,
) -> tuple[Metadata, Protocol]:
    """Metadata and protocol of a table for data of these columns.

    The table has its own columns; if it ``merges``, those that the data has besides, too. With ``partition_by``, it has
    those of the data alone, and is partitioned by some of them.
    """
    if partition_by is not None:
        return _overwritten_with(metadata, protocol, source, partition_by)
    return _merged_with(metadata, protocol, source) if merges else (metadata, protocol)


def _merged_with(metadata: Metadata, protocol: Protocol, source: pa.Schema) -> tuple[Metadata, Protocol]:
    before = parse_schema(metadata.schema_string)
    schema = merged_schema(before, source, widens=may_widen(metadata, protocol))
    return altered_by(Alteration(schema=schema, is_evolved=True), metadata, protocol)


def _overwritten_with(
    metadata: Metadata, protocol: Protocol, source: pa.Schema, partition_by: tuple[str, ...]
) -> tuple[Metadata, Protocol]:
    """Properties of the table stay, and so do mapped columns that the data has, too."""
    before, schema = parse_schema(metadata.schema_string), data_schema(source)
    if column_mapping_mode(metadata) != "none":
        schema = reuse_mapping(schema, before)
    alteration = Alteration(schema=schema, is_evolved=True, partition_by=partition_by)
    after, upgraded = altered_by(alteration, metadata, protocol)
    check_metadata(after, upgraded)
    _require_constrained_columns(before, schema, after)
    return after, upgraded


def _require_constrained_columns(before: StructType, schema: StructType, after: Metadata) -> None:
    """Refuse to take a column away from a constraint: no writer could check it any more."""
    for column in before.fields:
        found = schema.get(column.name)
        is_kept = found is not None and is_same_type(found.type, column.type)
        if not is_kept and (users := dependents(after, (column.name,))):
            change = "is gone" if found is None else "has another type"
            raise InvalidInput(
                f"the column {column.name!r} {change} in the schema of the data, and {users[0]} names it",
                hint="drop the constraint first, or leave the column as it is",
            )


def changed_foundation(taken: Snapshot, metadata: Metadata, protocol: Protocol) -> list[Action]:
    """Which of metadata and protocol differ from those of a snapshot: a commit has no others."""
    changed: list[Action] = [] if metadata == taken.metadata else [metadata]
    return changed if protocol == taken.protocol else [*changed, protocol]


def unclustered(taken: Snapshot) -> list[Action]:
    """The actions after which a table is not clustered, as by Delta Spark where its schema is overwritten."""
    return [clustering_domain(())] if CLUSTERING_DOMAIN in taken.domain_metadata() else []
