"""Schemas between Arrow and Delta.

Delta has no unsigned integers, no half floats and no times of day: such a column is refused, since
a silent widening would change what the data files have to hold. Of an Arrow field's own metadata
only ``comment`` crosses, in both directions.
"""

from collections.abc import Callable, Mapping
from typing import assert_never

import pyarrow as pa
import pyarrow.types as kinds

from deltamirror.delta.schema.keys import COMMENT
from deltamirror.delta.schema.types import ArrayType, DataType, Decimal, Field, MapType, Primitive, StructType
from deltamirror.errors import InvalidSchema

_TO_ARROW: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
    "variant": pa.struct(
        [pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)]
    ),
}

_PRIMITIVE_KINDS: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (kinds.is_int64, "long"),
    (kinds.is_int32, "integer"),
    (kinds.is_int16, "short"),
    (kinds.is_int8, "byte"),
    (kinds.is_float64, "double"),
    (kinds.is_float32, "float"),
    (kinds.is_boolean, "boolean"),
    (kinds.is_string, "string"),
    (kinds.is_large_string, "string"),
    (kinds.is_string_view, "string"),
    (kinds.is_binary, "binary"),
    (kinds.is_large_binary, "binary"),
    (kinds.is_binary_view, "binary"),
    (kinds.is_fixed_size_binary, "binary"),
    (kinds.is_date, "date"),
    (kinds.is_null, "void"),
)

_LISTS = (
    kinds.is_list,
    kinds.is_large_list,
    kinds.is_fixed_size_list,
    kinds.is_list_view,
    kinds.is_large_list_view,
)


def from_arrow(schema: pa.Schema) -> StructType:
    """The Delta schema that holds the same values; InvalidSchema names the column that has no match."""
    return StructType(tuple(_field(each, "") for each in schema))


def to_arrow(schema: StructType) -> pa.Schema:
    """The Arrow schema under which a table of this Delta schema is read."""
    return pa.schema([_arrow_field(each) for each in schema.fields])


def _field(source: pa.Field, parent: str) -> Field:
    path = f"{parent}.{source.name}" if parent else source.name
    comment = (source.metadata or {}).get(COMMENT.encode())
    metadata = {} if comment is None else {COMMENT: comment.decode()}
    return Field(source.name, _type(source.type, path), source.nullable, metadata)


def _type(source: pa.DataType, path: str) -> DataType:
    if kinds.is_dictionary(source):
        return _type(source.value_type, path)
    if kinds.is_decimal(source) and source.precision <= 38 and source.scale >= 0:
        return Decimal(source.precision, source.scale)
    if kinds.is_timestamp(source):
        return Primitive("timestamp_ntz" if source.tz is None else "timestamp")
    return _nested(source, path) or _primitive(source, path)


def _nested(source: pa.DataType, path: str) -> DataType | None:
    if kinds.is_struct(source):
        return StructType(tuple(_field(source.field(i), path) for i in range(source.num_fields)))
    if kinds.is_map(source):
        key, value = _type(source.key_type, f"{path}.key"), _type(source.item_type, f"{path}.value")
        return MapType(key, value, source.item_field.nullable)
    if any(is_list(source) for is_list in _LISTS):
        return ArrayType(_type(source.value_type, f"{path}.element"), source.value_field.nullable)
    return None


def _primitive(source: pa.DataType, path: str) -> Primitive:
    for is_kind, name in _PRIMITIVE_KINDS:
        if is_kind(source):
            return Primitive(name)
    raise InvalidSchema(
        f"column {path}: Delta has no type for Arrow's {source}",
        hint="cast the column to a type that Delta has",
        column=path,
    )


def _arrow_field(each: Field) -> pa.Field:
    comment = each.metadata.get(COMMENT)
    metadata = {COMMENT: comment} if isinstance(comment, str) else None
    return pa.field(each.name, _arrow_type(each.type), nullable=each.nullable, metadata=metadata)


def _arrow_type(kind: DataType) -> pa.DataType:
    match kind:
        case Primitive(name):
            return _TO_ARROW[name]
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case ArrayType(element, nulls):
            return pa.list_(pa.field("element", _arrow_type(element), nullable=nulls))
        case MapType(key, value, nulls):
            return pa.map_(_arrow_type(key), pa.field("value", _arrow_type(value), nullable=nulls))
        case StructType(fields):
            return pa.struct([_arrow_field(each) for each in fields])
        case _:
            assert_never(kind)
