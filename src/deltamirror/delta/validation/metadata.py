"""Whether a ``metaData`` action describes a table that Delta can hold, under a given protocol."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from deltamirror.delta.actions import Metadata, Protocol
from deltamirror.delta.bounds import nests_too_deeply
from deltamirror.delta.features import FEATURES, is_enabled, missing_features
from deltamirror.delta.keys import repeated_key
from deltamirror.delta.properties import (
    CONSTRAINT_PREFIX,
    FEATURE_PREFIX,
    LOWER_CASE,
    PROTOCOL_PROPERTIES,
    ROW_TRACKING,
    column_mapping_mode,
    find_invalid,
    max_column_id,
)
from deltamirror.delta.schema import ArrayType, Field, MapType, Primitive, StructType, parse_schema, validate_schema
from deltamirror.delta.schema.keys import COLUMN_ID, PHYSICAL_NAME
from deltamirror.delta.validation.columns import SQL_KEYS, unreadable_key
from deltamirror.delta.validation.expressions import sql_objection
from deltamirror.delta.validation.rules import violation
from deltamirror.errors import InvalidAction, InvalidSchema

_ENABLEMENT = ("delta.inCommitTimestampEnablementVersion", "delta.inCommitTimestampEnablementTimestamp")
_MATERIALIZED = (
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
)
_CHANGE_DATA_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
_MEMBERS = ("name", "type", "nullable", "metadata")
_INNER = ("elementType", "keyType", "valueType")
_UNFIT_FOR_PARTITIONS = (Primitive("variant"), Primitive("void"))


def check_metadata(metadata: Metadata, protocol: Protocol, index: int | None = None, *, verbatim: bool = False) -> None:
    """Raise InvalidAction unless the metadata is in order, and the protocol has what it uses."""
    if not metadata.id:
        raise _broken("id.empty", index, "id", metadata.id)
    if metadata.format.provider != "parquet":
        raise _broken("format", index, "format.provider", metadata.format.provider)
    if metadata.created_time is not None and metadata.created_time < 0:
        raise _broken("created-time.negative", index, "createdTime", metadata.created_time)
    schema = _schema(metadata, index, verbatim=verbatim)
    _check_partition_columns(metadata.partition_columns, schema, index)
    _check_configuration(metadata, index, verbatim=verbatim)
    if column_mapping_mode(metadata) != "none":
        _check_column_mapping(metadata, schema, index)
    for path, column in schema.walk():
        _check_column(".".join(path), column, index, mapped=column_mapping_mode(metadata) != "none")
    for place, expression in _expressions(metadata, schema):
        if (objection := sql_objection(expression)) is not None:
            raise _broken("sql", index, place, f"{expression} ({objection})")
    _check_features(metadata, protocol, index, verbatim=verbatim)


def _expressions(metadata: Metadata, schema: StructType) -> Iterator[tuple[str, str]]:
    """All SQL that Delta Spark parses when it opens or writes the table, with its places."""
    for key, value in metadata.configuration.items():
        if key.lower().startswith(CONSTRAINT_PREFIX):
            yield f"configuration.{key}", value
    for path, column in schema.walk():
        for key in sorted(SQL_KEYS & column.metadata.keys()):
            yield f"schemaString: {'.'.join(path)}.{key}", str(column.metadata[key])


def _check_column(name: str, column: Field, index: int | None, *, mapped: bool) -> None:
    if not mapped and not column.metadata.keys().isdisjoint((COLUMN_ID, PHYSICAL_NAME)):
        raise _broken("column-mapping.off", index, f"schemaString: {name}", PHYSICAL_NAME)
    if (key := unreadable_key(column.metadata)) is not None:
        raise _broken("column-metadata", index, f"schemaString: {name}", f"{key}: {column.metadata[key]!r}")


def _schema(metadata: Metadata, index: int | None, *, verbatim: bool) -> StructType:
    text = metadata.schema_string
    if text is None:
        raise _broken("schema.missing", index, "schemaString", None)
    if nests_too_deeply(text):
        raise _broken("schema.depth", index, "schemaString", text)
    if (key := repeated_key(text)) is not None:
        raise _broken("schema.repeated-key", index, "schemaString", key)
    try:
        schema = parse_schema(text)
        validate_schema(schema, column_mapping=column_mapping_mode(metadata) != "none")
    except InvalidSchema as error:
        raise _broken("schema", index, "schemaString", str(error)) from error
    if not verbatim:
        _check_authored(schema, text, index)
        _check_change_data_columns(metadata, schema, index)
    return schema


def _check_authored(schema: StructType, text: str, index: int | None) -> None:
    """What we write no schema without, though Delta Spark does."""
    if objection := _kernel_objection_to(text):
        raise _broken("schema", index, "schemaString", objection)
    if not schema.fields:  # Delta Spark makes a table without columns, and adds them later
        raise _broken("schema.empty", index, "schemaString", text)


def _check_change_data_columns(metadata: Metadata, schema: StructType, index: int | None) -> None:
    """Delta Spark makes no such table, and reads no feed of one."""
    taken = [field.name for field in schema.fields if field.name.lower() in _CHANGE_DATA_COLUMNS]
    if taken and is_enabled(metadata, "delta.enableChangeDataFeed"):
        raise _broken("change-data-columns", index, "schemaString", taken[0])


def _kernel_objection_to(schema: str) -> str | None:
    try:
        return _kernel_objection(msgspec.json.decode(schema))
    except (msgspec.DecodeError, UnicodeError) as error:  # numbers such as NaN, which Python and Jackson take
        return f"the schema is not JSON: {error}"


def _kernel_objection(kind: object) -> str | None:
    """What the Delta kernel, in delta-rs and DuckDB, does not read of a type, though Delta Spark does."""
    if not isinstance(kind, Mapping):
        return "a decimal has its digits: decimal(10,0)" if kind == "decimal" else None
    for field in kind.get("fields", ()):
        if missing := [name for name in _MEMBERS if name not in field]:
            return f"the column {field.get('name')!r} has no {missing[0]!r}"
    inner = (*(field["type"] for field in kind.get("fields", ())), *(kind.get(name) for name in _INNER))
    return next(filter(None, map(_kernel_objection, inner)), None)


def _check_partition_columns(names: Sequence[str], schema: StructType, index: int | None) -> None:
    columns = {each.name: each for each in schema.fields}
    for position, name in enumerate(names):
        if name not in columns:
            nested = any(".".join(path) == name for path, _ in schema.walk())
            raise _broken("partition.nested" if nested else "partition.unknown", index, "partitionColumns", name)
        if name in names[:position]:
            raise _broken("partition.twice", index, "partitionColumns", name)
        if not _partitions(columns[name]):
            raise _broken("partition.type", index, "partitionColumns", name)
    if names and len(names) == len(columns):
        raise _broken("partition.all", index, "partitionColumns", ", ".join(names))


def _partitions(column: Field) -> bool:
    return not isinstance(column.type, StructType | ArrayType | MapType) and column.type not in _UNFIT_FOR_PARTITIONS


def _check_configuration(metadata: Metadata, index: int | None, *, verbatim: bool) -> None:
    configuration = metadata.configuration
    for key in configuration:
        if key in PROTOCOL_PROPERTIES or key.startswith(FEATURE_PREFIX):
            raise _broken("configuration.protocol", index, "configuration", key)
    if not verbatim:
        for known, value in find_invalid(configuration):
            raise _broken("configuration.value", index, f"configuration.{known.key}", value)
        for key in LOWER_CASE:
            if (word := configuration.get(key, "")) != word.lower():
                raise _broken("configuration.value", index, f"configuration.{key}", word)
    if sum(key in configuration for key in _ENABLEMENT) == 1:
        raise _broken("in-commit-timestamp", index, "configuration", "one of two")
    if is_enabled(metadata, ROW_TRACKING):
        _check_row_tracking(metadata, index)


def _check_row_tracking(metadata: Metadata, index: int | None) -> None:
    if is_enabled(metadata, "delta.rowTrackingSuspended"):
        raise _broken("row-tracking", index, "configuration", "enabled and suspended")
    if missing := [key for key in _MATERIALIZED if not metadata.configuration.get(key)]:
        raise _broken("row-tracking.materialized", index, "configuration", f"no {missing[0]}")


def _check_column_mapping(metadata: Metadata, schema: StructType, index: int | None) -> None:
    ids: set[int] = set()
    names: set[tuple[str, ...]] = set()
    for path, each in schema.walk():
        column = ".".join(path)
        number, name = each.metadata.get(COLUMN_ID), each.metadata.get(PHYSICAL_NAME)
        if not isinstance(number, int) or number < 1 or number in ids:
            raise _broken("column-mapping.id", index, f"schemaString: {column}", number)
        if not isinstance(name, str) or not name or (*path[:-1], name) in names:
            raise _broken("column-mapping.physical-name", index, f"schemaString: {column}", name)
        ids.add(number)
        names.add((*path[:-1], name))
    largest = max_column_id(metadata)
    if ids and (largest is None or largest < max(ids)):
        raise _broken("column-mapping.max-id", index, "configuration.delta.columnMapping.maxColumnId", largest)


def _check_features(metadata: Metadata, protocol: Protocol, index: int | None, *, verbatim: bool) -> None:
    missing = missing_features(metadata, protocol)
    if verbatim:
        missing = frozenset(name for name in missing if FEATURES[name].reader)
    if missing:
        raise _broken("features", index, "configuration, schemaString", ", ".join(sorted(missing)))


def _broken(rule: str, index: int | None, field: str, found: object) -> InvalidAction:
    return violation(f"metaData.{rule}", action="metaData", index=index, field=field, found=found)
