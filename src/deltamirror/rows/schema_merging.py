"""The schema that data brings along: the columns that a table has and those that data has besides, or the latter alone.

With ``merge_schema``, a column that the table lacks is added last, at any depth, and nullable. A type that the data has
wider is widened, where the table does that. All else stays: whether the data fits is for ``casting`` to say.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.types as kinds

from deltamirror.delta.schema import ArrayType, DataType, Field, MapType, Primitive, StructType
from deltamirror.delta.schema.arrow import from_arrow
from deltamirror.delta.widening import record_widenings
from deltamirror.errors import InvalidInput
from deltamirror.rows.casting import decoded_type, is_list, plain_schema, widened_type

_VOID = Primitive("void")


def merged_schema(schema: StructType, source: pa.Schema, *, widens: bool) -> StructType:
    """The schema of a table that takes data of these columns; InvalidInput for a column without a type."""
    return record_widenings(schema, _merged_struct(schema, list(source), "", widens))


def data_schema(source: pa.Schema) -> StructType:
    """The schema of a table of these columns alone, all nullable; InvalidInput for a column without a type."""
    return StructType(tuple(_added(each, "") for each in plain_schema(source)))


def _merged_struct(struct: StructType, source: Sequence[pa.Field], parent: str, widens: bool) -> StructType:
    given = {each.name.lower(): each for each in reversed(source)}
    fields = [_merged_field(each, given.pop(each.name.lower(), None), parent, widens) for each in struct.fields]
    added = [_added(each, parent) for each in source if each is given.get(each.name.lower())]
    return StructType((*fields, *added))


def _merged_field(field: Field, source: pa.Field | None, parent: str, widens: bool) -> Field:
    if source is None:
        return field
    return replace(field, type=_merged_type(field.type, source.type, parent + field.name, widens))


def _merged_type(kind: DataType, source: pa.DataType, path: str, widens: bool) -> DataType:
    source = decoded_type(source)
    match kind:
        case StructType() if kinds.is_struct(source):
            return _merged_struct(kind, [source.field(i) for i in range(source.num_fields)], f"{path}.", widens)
        case ArrayType(element) if is_list(source):
            return replace(kind, element=_merged_type(element, source.value_type, f"{path}.element", widens))
        case MapType(key, value) if kinds.is_map(source):
            key = _merged_type(key, source.key_type, f"{path}.key", widens)
            return replace(kind, key=key, value=_merged_type(value, source.item_type, f"{path}.value", widens))
        case _:
            return widened_type(kind, source) or kind if widens else kind


def _added(source: pa.Field, parent: str) -> Field:
    field = _nullable(from_arrow(pa.schema([source])).fields[0])
    if any(kind == _VOID for kind in _types(field.type)):
        path = parent + source.name
        hint = "cast it to the type that it is to have, or leave it out"
        raise InvalidInput(f"the column {path!r} of the data is null in all rows, and has no type", hint=hint)
    return field


def _nullable(field: Field) -> Field:
    """A field that may be null, with all inside of it: rows that are there have no values for it."""
    return replace(field, type=_nullable_type(field.type), nullable=True)


def _nullable_type(kind: DataType) -> DataType:
    match kind:
        case StructType(fields):
            return StructType(tuple(_nullable(each) for each in fields))
        case ArrayType(element):
            return ArrayType(_nullable_type(element))
        case MapType(key, value):
            return MapType(_nullable_type(key), _nullable_type(value))
        case _:
            return kind


def _types(kind: DataType) -> Iterator[DataType]:
    yield kind
    match kind:
        case StructType(fields):
            for each in fields:
                yield from _types(each.type)
        case ArrayType(element):
            yield from _types(element)
        case MapType(key, value):
            yield from _types(key)
            yield from _types(value)
