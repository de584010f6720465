"""What a table begins with, and what altering it comes to: metadata and protocol from a person's words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from deltamirror.delta.actions import DomainMetadata, Format, Metadata, Protocol
from deltamirror.delta.columnmapping import assign_columns, keep_mapping
from deltamirror.delta.features import (
    features_for,
    is_enabled,
    protocol_for,
    table_features_from_properties,
    upgrade,
)
from deltamirror.delta.lines import json_text
from deltamirror.delta.order import ordered
from deltamirror.delta.properties import (
    COLUMN_MAPPING_MODE,
    MAX_COLUMN_ID,
    ROW_TRACKING,
    canonical_properties,
    column_mapping_mode,
    max_column_id,
)
from deltamirror.delta.schema import Field, StructType, parse_schema, schema_string, validate_schema
from deltamirror.errors import InvalidInput, InvalidSchema

CLUSTERING_DOMAIN = "delta.clustering"

_TIMESTAMPS = "delta.enableInCommitTimestamps"
_ROW_ID_COLUMN = "delta.rowTracking.materializedRowIdColumnName"
_ROW_VERSION_COLUMN = "delta.rowTracking.materializedRowCommitVersionColumnName"
_MINIMUM_VERSIONS = ("delta.minwriterversion", "delta.minreaderversion")

Fresh = Callable[[], str]
"""Makes a random UUID; an argument, so that this module stays pure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDefinition:
    """A table that is to be created. In-commit timestamps are on unless the properties say otherwise."""

    name: str
    location: str
    schema: StructType
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    features: tuple[str, ...] = ()
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """The changes to a table that a caller asks for. ``None`` leaves a thing as it is."""

    schema: StructType | None = None
    is_evolved: bool = False
    """The schema was made from that of the table: a column without an id is another one, whatever its name."""
    partition_by: tuple[str, ...] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    name: str | None = None
    description: str | None = None


def first_actions(
    definition: TableDefinition, *, created_time: int, fresh: Fresh
) -> tuple[Metadata, Protocol, *tuple[DomainMetadata, ...]]:
    """metaData, protocol and domains of version 0."""
    properties, asked = table_features_from_properties(definition.properties)
    configuration = _with_defaults(canonical_properties(properties), definition.properties)
    metadata = Metadata(
        id=fresh(),
        description=definition.description,
        format=Format(provider="parquet", options={}),
        schema_string=schema_string(definition.schema),
        partition_columns=list(definition.partition_by),
        configuration=configuration,
        created_time=created_time,
    )
    metadata = _with_row_columns(_with_mapping(metadata, definition.schema, lambda _: f"col-{fresh()}"), fresh)
    clustering = _clustering(definition, parse_schema(metadata.schema_string))
    wanted = {*features_for(metadata), *(["clustering"] if clustering else [])}
    return metadata, protocol_for(wanted, named={*asked, *definition.features}), *clustering


def altered(
    alteration: Alteration, metadata: Metadata, protocol: Protocol, *, fresh: Fresh
) -> tuple[Metadata | None, Protocol | None]:
    """The metadata and protocol after an alteration; ``None`` where it leaves them as they are.

    Whether the table may make the change is decided when it is committed (``delta.evolution``): that depends on its
    files. Under column mapping, a column keeps its id and its physical name, unless the schema states others.
    """
    properties, asked = table_features_from_properties(alteration.properties)
    properties = canonical_properties(properties)
    kept = {key: value for key, value in metadata.configuration.items() if key not in alteration.unset}
    if missing := [key for key in alteration.unset if key not in metadata.configuration]:
        raise InvalidInput(f"the table has no property {missing[0]!r}", hint="`deltamirror table show` lists them")
    _require_mapping_kept(
        column_mapping_mode(metadata), {**kept, **properties}.get(COLUMN_MAPPING_MODE, "none").lower()
    )
    if ROW_TRACKING in properties and not is_enabled(metadata, ROW_TRACKING):
        raise InvalidInput(
            f"{ROW_TRACKING} cannot be set on an existing table: its files would need row ids first",
            hint="set it when the table is created",
        )
    mapped, before = column_mapping_mode(metadata) != "none", parse_schema(metadata.schema_string)
    schema = alteration.schema or before
    if mapped and alteration.schema is not None and not alteration.is_evolved:
        schema = keep_mapping(schema, before)
    after = replace(
        metadata,
        name=metadata.name if alteration.name is None else alteration.name,
        description=metadata.description if alteration.description is None else alteration.description,
        schema_string=metadata.schema_string if schema == before else schema_string(schema),
        partition_columns=_partition_columns(alteration, metadata, schema),
        configuration=ordered({**kept, **properties}),
    )
    # A dropped column may have had the name of an added one, and its data is in the files yet.
    after = _with_mapping(after, schema, lambda column: f"col-{fresh()}" if mapped else column.name)
    protocol_after = upgrade(protocol, {*asked, *alteration.features, *features_for(after)})
    return None if after == metadata else after, None if protocol_after == protocol else protocol_after


def _partition_columns(alteration: Alteration, metadata: Metadata, after: StructType) -> list[str]:
    """The partition columns by the names that they have after: under column mapping, one may have been renamed."""
    if alteration.partition_by is not None:
        return [name if (found := after.get(name)) is None else found.name for name in alteration.partition_by]
    before, named = parse_schema(metadata.schema_string), {each.physical_name: each.name for each in after.fields}
    physical = {each.name: each.physical_name for each in before.fields}
    return [named.get(physical.get(name, name), name) for name in metadata.partition_columns]


def _require_mapping_kept(before: str, after: str) -> None:
    """Files name their columns by what held when they were written, so the mode changes from none to name only."""
    if before != after and (before, after) != ("none", "name"):
        raise InvalidInput(
            f"{COLUMN_MAPPING_MODE} cannot change from {before} to {after} on an existing table: "
            "its files would be misread",
            hint="only none can become name; create another table for the rest",
        )


def _with_defaults(configuration: dict[str, str], given: Mapping[str, str]) -> dict[str, str]:
    # Asking for old versions means asking for a table that old clients can write.
    asks_for_versions = any(key.lower() in _MINIMUM_VERSIONS for key in given)
    if _TIMESTAMPS in configuration or asks_for_versions:
        return ordered(configuration)
    return ordered({**configuration, _TIMESTAMPS: "true"})


def _with_mapping(metadata: Metadata, schema: StructType, fresh_name: Callable[[Field], str]) -> Metadata:
    """The metadata with ids and physical names on all columns, where the table maps columns."""
    mapped = column_mapping_mode(metadata) != "none"
    validate_schema(schema, column_mapping=mapped)
    if not mapped:
        return metadata
    schema, highest = assign_columns(schema, above=max_column_id(metadata) or 0, fresh_name=fresh_name)
    configuration = ordered({**metadata.configuration, MAX_COLUMN_ID: str(highest)})
    return replace(metadata, schema_string=schema_string(schema), configuration=configuration)


def _with_row_columns(metadata: Metadata, fresh: Fresh) -> Metadata:
    if not is_enabled(metadata, ROW_TRACKING):
        return metadata
    columns = {_ROW_ID_COLUMN: f"_row-id-col-{fresh()}", _ROW_VERSION_COLUMN: f"_row-commit-version-col-{fresh()}"}
    return replace(metadata, configuration=ordered({**metadata.configuration, **columns}))


def _clustering(definition: TableDefinition, schema: StructType) -> tuple[DomainMetadata, ...]:
    if not definition.cluster_by:
        return ()
    if definition.partition_by:
        raise InvalidInput("a table is partitioned or clustered, not both", hint="leave out one of the two")
    paths = [_physical_path(column, schema) for column in definition.cluster_by]
    return (clustering_domain(paths),)


def clustering_domain(columns: Sequence[Sequence[str]]) -> DomainMetadata:
    """The domain that says by which columns a table is clustered: their paths, by physical names."""
    configuration = json_text({"clusteringColumns": columns, "domainName": CLUSTERING_DOMAIN})
    return DomainMetadata(domain=CLUSTERING_DOMAIN, configuration=configuration, removed=False)


def _physical_path(column: str, schema: StructType) -> list[str]:
    path: list[str] = []
    kind: object = schema
    for name in column.split("."):
        found = kind.get(name) if isinstance(kind, StructType) else None
        if found is None:
            raise InvalidSchema(f"the table cannot be clustered by {column!r}: there is no such column", column=column)
        path.append(found.physical_name)
        kind = found.type
    return path
