"""Which protocol and metadata changes of a winning commit a rebased commit may simply adopt.

A change is harmless if files that were written before it are valid after it, without being written again: turning
on deletion vectors, row tracking, in-commit timestamps, V2 checkpoints, or column mapping by name. All else means
that the transaction has to be computed again. Each function answers with the obstacle, or ``None``.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import msgspec

from deltamirror.delta.actions import Metadata, Protocol
from deltamirror.delta.features import reader_features_of, writer_features_of
from deltamirror.delta.properties import MAX_COLUMN_ID, ROW_TRACKING, checkpoint_policy, column_mapping_mode, is_enabled
from deltamirror.delta.schema.keys import COLUMN_ID, NESTED_IDS, PHYSICAL_NAME

_HARMLESS_FEATURES = frozenset(
    {
        "appendOnly",
        "catalogManaged",
        "changeDataFeed",
        "columnMapping",
        "deletionVectors",
        "domainMetadata",
        "icebergCompatV1",
        "icebergCompatV2",
        "icebergCompatV3",
        "inCommitTimestamp",
        "rowTracking",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
"""Their duties of a writer follow from table properties, and changing those is a metadata change."""

_COLUMN_MAPPING_FIELD_KEYS = frozenset(
    {
        COLUMN_ID,
        NESTED_IDS,
        PHYSICAL_NAME,
        "parquet.field.id",
        "parquet.field.nested.ids",
    }
)

_TIMESTAMPS = "delta.enableInCommitTimestamps"
_VECTORS = "delta.enableDeletionVectors"


def protocol_obstacle(before: Protocol, after: Protocol) -> str | None:
    """Why a commit that was computed under ``before`` may not follow a change to ``after``."""
    had, has = _features(before), _features(after)
    if dropped := had - has:
        return f"features dropped: {_listed(dropped)}"
    if demanding := has - had - _HARMLESS_FEATURES:
        return f"features added: {_listed(demanding)}"
    return None


def metadata_obstacle(before: Metadata, after: Metadata, *, protocol: Protocol) -> str | None:
    """Why a commit that was computed under ``before`` may not follow a change to ``after``.

    ``protocol`` is in force after the change.
    """
    fixed = [name for name in before.__struct_fields__ if name not in ("configuration", "schema_string")]
    if other := {name for name in fixed if getattr(before, name) != getattr(after, name)}:
        return f"changed: {_listed(other)}"
    if properties := _demanding_properties(before, after, _features(protocol)):
        return f"properties changed: {_listed(properties)}"
    if before.schema_string != after.schema_string and not _only_maps_columns(before, after):
        return "schema changed"
    return None


def enables_row_tracking(before: Metadata, after: Metadata) -> bool:
    """Whether the change turns row tracking on; rows copied by a commit computed before have lost their ids."""
    return is_enabled(after, ROW_TRACKING) and not is_enabled(before, ROW_TRACKING)


def _features(protocol: Protocol) -> frozenset[str]:
    return reader_features_of(protocol) | writer_features_of(protocol)


def _demanding_properties(before: Metadata, after: Metadata, features: frozenset[str]) -> set[str]:
    had, has = before.configuration, after.configuration
    changed = {key for key in has if had.get(key) != has[key]}
    return (had.keys() - has.keys()) | {key for key in changed if not _is_harmless(key, before, after, features)}


def _is_harmless(key: str, before: Metadata, after: Metadata, features: frozenset[str]) -> bool:
    if key not in _HARMLESS_PROPERTIES:
        return False
    feature, holds = _HARMLESS_PROPERTIES[key]
    return feature in features and holds(before, after)


_Condition: TypeAlias = Callable[[Metadata, Metadata], bool]


def _turned_on(key: str) -> _Condition:
    return lambda _, after: is_enabled(after, key)


def _maps_by_name(before: Metadata, after: Metadata) -> bool:
    return column_mapping_mode(before) == "none" and column_mapping_mode(after) == "name"


_HARMLESS_PROPERTIES: Mapping[str, tuple[str, _Condition]] = {
    "delta.checkpointPolicy": ("v2Checkpoint", lambda _, after: checkpoint_policy(after) == "v2"),
    MAX_COLUMN_ID: ("columnMapping", _maps_by_name),
    "delta.columnMapping.mode": ("columnMapping", _maps_by_name),
    _VECTORS: ("deletionVectors", _turned_on(_VECTORS)),
    _TIMESTAMPS: ("inCommitTimestamp", _turned_on(_TIMESTAMPS)),
    "delta.inCommitTimestampEnablementTimestamp": ("inCommitTimestamp", _turned_on(_TIMESTAMPS)),
    "delta.inCommitTimestampEnablementVersion": ("inCommitTimestamp", _turned_on(_TIMESTAMPS)),
    ROW_TRACKING: ("rowTracking", _turned_on(ROW_TRACKING)),
    "delta.rowTracking.materializedRowCommitVersionColumnName": ("rowTracking", _turned_on(ROW_TRACKING)),
    "delta.rowTracking.materializedRowIdColumnName": ("rowTracking", _turned_on(ROW_TRACKING)),
}
"""Property -> the feature that the table must have, and the condition under which a change of it is harmless."""


class _Field(msgspec.Struct, frozen=True):
    name: str
    type: msgspec.Raw
    nullable: bool
    metadata: dict[str, msgspec.Raw]


class _Schema(msgspec.Struct, frozen=True):
    fields: list[_Field]


_SCHEMA = msgspec.json.Decoder(_Schema)


def _only_maps_columns(before: Metadata, after: Metadata) -> bool:
    """Whether the change maps columns by name, and its schema differs in the metadata of that only.

    As in Delta Lake on Spark, types are compared as they stand: mapping nested fields is not harmless.
    """
    return _maps_by_name(before, after) and _unmapped(before.schema_string) == _unmapped(after.schema_string)


def _unmapped(schema_string: str | None) -> list[tuple[str, bytes, bool, dict[str, bytes]]]:
    return [
        (field.name, bytes(field.type), field.nullable, _without_mapping(field.metadata))
        for field in (() if schema_string is None else _SCHEMA.decode(schema_string).fields)
    ]


def _without_mapping(metadata: Mapping[str, msgspec.Raw]) -> dict[str, bytes]:
    return {key: bytes(value) for key, value in metadata.items() if key not in _COLUMN_MAPPING_FIELD_KEYS}


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
