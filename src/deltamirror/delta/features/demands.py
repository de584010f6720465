"""What a table's metadata demands of its protocol, and of those who write its rows."""

from collections.abc import Iterator

from deltamirror.delta.actions import Metadata, Protocol
from deltamirror.delta.features.protocols import writer_features_of
from deltamirror.delta.features.table import FEATURES
from deltamirror.delta.properties import is_enabled
from deltamirror.delta.schema import (
    Field,
    StructType,
    parse_schema,
    primitive_names,
)

# The values that switch a property's feature on: of booleans, of columnMapping.mode, of checkpointPolicy.
_ON = frozenset({"true", "name", "id", "v2"})
_BY_PROPERTY = {row.by_property: name for name, row in FEATURES.items() if row.by_property}
_BY_PREFIX = {prefix: name for prefix, name in _BY_PROPERTY.items() if prefix.endswith(".")}
_BY_COLUMN = {row.by_column: name for name, row in FEATURES.items() if row.by_column}
_BY_TYPE = {row.by_type: name for name, row in FEATURES.items() if row.by_type}


def features_for(metadata: Metadata) -> frozenset[str]:
    """The features that the table's properties and schema use, without those that these depend on."""
    schema = parse_schema(metadata.schema_string)
    return frozenset((*_by_properties(metadata), *_by_columns(schema), *_by_nulls(schema)))


def missing_features(metadata: Metadata, protocol: Protocol) -> frozenset[str]:
    """The features that the table uses and its protocol lacks; a preview edition serves in place of its feature."""
    supported = writer_features_of(protocol)
    return frozenset(
        name for name in features_for(metadata) if name not in supported and FEATURES[name].preview not in supported
    )


def row_duties(metadata: Metadata, schema: StructType) -> dict[str, str]:
    """The duties of a writer of rows, which the log cannot show; by feature.

    ``schema`` is that of the metadata, parsed.
    """
    used = {*_by_properties(metadata), *_by_columns(schema)}
    return {name: FEATURES[name].row_duty for name in sorted(used) if FEATURES[name].row_duty}


def row_tracking(metadata: Metadata, protocol: Protocol) -> bool:
    """Whether commits assign row ids: the protocol has the feature, and it is not suspended."""
    return "rowTracking" in writer_features_of(protocol) and not is_enabled(metadata, "delta.rowTrackingSuspended")


def _by_properties(metadata: Metadata) -> Iterator[str]:
    for key, value in metadata.configuration.items():
        if key in _BY_PROPERTY and value.lower() in _ON:
            yield _BY_PROPERTY[key]
        yield from (name for prefix, name in _BY_PREFIX.items() if key.startswith(prefix))


def _by_columns(schema: StructType) -> Iterator[str]:
    for _, each in schema.walk():
        yield from (name for key, name in _BY_COLUMN.items() if key in each.metadata)
        yield from (_BY_TYPE[name] for name in primitive_names(each.type) if name in _BY_TYPE)


def _by_nulls(schema: StructType) -> Iterator[str]:
    """As for Spark, NOT NULL is an invariant, of columns that are not inside an array or a map."""
    if any(_is_required(each) for each in schema.fields):
        yield "invariants"


def _is_required(each: Field) -> bool:
    return not each.nullable or (isinstance(each.type, StructType) and any(map(_is_required, each.type.fields)))
