"""The JSON text of a schema, ``metaData.schemaString``: parsed, and written with the same bytes.

The order of the members is fixed by the protocol's reference writer. Field metadata is free-form:
its keys keep their order, integers stay integers, and a number with a point keeps its spelling.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import assert_never

from deltamirror.delta.lines import json_text
from deltamirror.delta.schema.types import (
    PRIMITIVES,
    ArrayType,
    DataType,
    Decimal,
    Field,
    MapType,
    Primitive,
    StructType,
)
from deltamirror.errors import InvalidSchema

_DECIMAL = re.compile(r"decimal\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)")
_EXAMPLE = """write {"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}"""
_Path = tuple[str, ...]


class _Number(float):
    """A number with a point or an exponent that remembers how it was written."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> "_Number":
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __reduce__(self) -> tuple[type["_Number"], tuple[str]]:
        return _Number, (self.text,)


def parse_schema(source: str | Mapping[str, object] | None) -> StructType:
    """The schema that a ``schemaString``, or the object in it, describes; without columns for None.

    Raises InvalidSchema.
    """
    if source is None:
        return StructType()
    try:
        value = json.loads(source, parse_float=_Number) if isinstance(source, str) else source
        kind = _type(value, ())
    except json.JSONDecodeError as error:
        raise InvalidSchema(f"the schema is not JSON: {error}", hint=_EXAMPLE) from error
    except RecursionError as error:
        raise InvalidSchema("the schema is nested too deeply") from error
    if not isinstance(kind, StructType):
        raise InvalidSchema("the schema of a table has to be a struct", hint=_EXAMPLE)
    return kind


def schema_string(schema: StructType) -> str:
    """The compact JSON text of a schema, as the reference writer spells it."""
    return _text(schema)


def _type(value: object, path: _Path) -> DataType:
    if isinstance(value, str):
        return _named(value, path)
    if not isinstance(value, Mapping):
        raise _wrong(path, f"a type is a name or an object, not {value!r}")
    match value.get("type"):
        case "struct":
            return _struct(_members(value, ("type", "fields"), path), path)
        case "array":
            _members(value, ("type", "elementType", "containsNull"), path)
            return ArrayType(_type(value["elementType"], (*path, "element")), _flag(value, "containsNull", path))
        case "map":
            _members(value, ("type", "keyType", "valueType", "valueContainsNull"), path)
            key = _type(value["keyType"], (*path, "key"))
            return MapType(key, _type(value["valueType"], (*path, "value")), _flag(value, "valueContainsNull", path))
        case other:
            raise _wrong(path, f"unknown type {other!r}")


def _named(name: str, path: _Path) -> DataType:
    if name in PRIMITIVES:
        return Primitive(name)
    if name == "decimal":
        return Decimal(10, 0)
    if match := _DECIMAL.fullmatch(name):
        return Decimal(int(match[1]), int(match[2]))
    raise _wrong(path, f"unknown type {name!r}")


def _struct(value: Mapping[str, object], path: _Path) -> StructType:
    fields = value["fields"]
    if not isinstance(fields, Sequence) or isinstance(fields, str):
        raise _wrong(path, "the fields of a struct have to be a list")
    return StructType(tuple(_field(each, path) for each in fields))


def _field(value: object, path: _Path) -> Field:
    if not isinstance(value, Mapping):
        raise _wrong(path, f"a field has to be an object, not {value!r}")
    name = value.get("name")
    if not isinstance(name, str):
        raise _wrong(path, "a field has no name")
    path = (*path, name)
    _members({"metadata": {}, **value}, ("name", "type", "nullable", "metadata"), path)
    metadata = value.get("metadata", {})
    if not isinstance(metadata, Mapping):
        raise _wrong(path, "the metadata of a field has to be an object")
    return Field(name, _type(value["type"], path), _flag(value, "nullable", path), metadata)


def _members(value: Mapping[str, object], names: tuple[str, ...], path: _Path) -> Mapping[str, object]:
    if missing := [name for name in names if name not in value]:
        raise _wrong(path, f"{missing[0]!r} is missing")
    if unknown := [name for name in value if name not in names]:
        raise _wrong(path, f"unknown member {unknown[0]!r}")
    return value


def _flag(value: Mapping[str, object], name: str, path: _Path) -> bool:
    flag = value[name]
    if not isinstance(flag, bool):
        raise _wrong(path, f"{name!r} has to be true or false, not {flag!r}")
    return flag


def _wrong(path: _Path, problem: str) -> InvalidSchema:
    column = ".".join(path)
    return InvalidSchema(f"column {column}: {problem}" if column else problem, hint=_EXAMPLE, column=column)


def _text(kind: DataType) -> str:
    match kind:
        case Primitive(name):
            return f'"{name}"'
        case Decimal(precision, scale):
            return f'"decimal({precision},{scale})"'
        case ArrayType(element, nulls):
            return f'{{"type":"array","elementType":{_text(element)},"containsNull":{json_text(nulls)}}}'
        case MapType(key, value, nulls):
            types = f'"keyType":{_text(key)},"valueType":{_text(value)}'
            return f'{{"type":"map",{types},"valueContainsNull":{json_text(nulls)}}}'
        case StructType(fields):
            return f'{{"type":"struct","fields":[{",".join(map(_field_text, fields))}]}}'
        case _:
            assert_never(kind)


def _field_text(each: Field) -> str:
    name, nullable, metadata = json_text(each.name), json_text(each.nullable), _metadata_text(each.metadata)
    return f'{{"name":{name},"type":{_text(each.type)},"nullable":{nullable},"metadata":{metadata}}}'


def _metadata_text(value: object) -> str:
    match value:
        case _Number():
            return value.text
        case Mapping():
            members = (f"{json_text(key)}:{_metadata_text(item)}" for key, item in value.items())
            return f"{{{','.join(members)}}}"
        case list() | tuple():
            return f"[{','.join(map(_metadata_text, value))}]"
        case _:
            return json_text(value)
