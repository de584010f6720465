"""Columns at any depth of a schema, by their paths.

A path goes through structs by name, and through arrays and maps by ``element``, ``key`` and ``value``, as in Spark:
``items.element.price``. A name that has a dot, a comma or a backtick in it stands in backticks.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, TypeAlias

from deltamirror.delta.schema.types import ArrayType, DataType, Field, MapType, StructType
from deltamirror.errors import InvalidSchema

ColumnPath: TypeAlias = tuple[str, ...]

_PART: Final = re.compile(r"\s*(?:`((?:[^`]|``)*)`|([^`.,]+?))\s*(\.|,|\Z)")
_WHOLE: Final = re.compile(r"(?:`(?:[^`]|``)+`|[^`.,]+)(?:\.(?:`(?:[^`]|``)+`|[^`.,]+))*")
_PLAIN: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def column_paths(text: str) -> Iterator[ColumnPath]:
    """The columns of a comma list, such as ``a, s.b, `c.d```, each as its parts."""
    parts: list[str] = []
    for quoted, plain, end in _PART.findall(text):
        parts.append(plain or quoted.replace("``", "`"))
        if end != ".":
            yield tuple(parts)
            parts = []


def column_path(text: str) -> ColumnPath:
    """The one column that a text names."""
    found = list(column_paths(text)) if _WHOLE.fullmatch(text) else []
    if len(found) != 1 or not all(part.strip() for part in found[0]):
        hint = "write address.zip, items.element.price, or `a.b` for a name that has a dot, a comma or a backtick"
        raise InvalidSchema(f"{text!r} does not name a column", hint=hint, column=text)
    return found[0]


def path_text(path: ColumnPath) -> str:
    """A path as Spark writes it into the history: only names with a dot are quoted."""
    return ".".join(f"`{part}`" if "." in part else part for part in path)


def quoted_path(path: ColumnPath) -> str:
    """A path as properties of tables hold it: every name that is no plain word is quoted."""
    return ".".join(part if _PLAIN.fullmatch(part) else f"`{part.replace('`', '``')}`" for part in path)


def field_at(schema: StructType, path: ColumnPath) -> Field:
    """The column at a path. The element of an array, and key and value of a map, are columns without metadata."""
    return _fields_along(schema, path)[-1]


def physical_path(schema: StructType, path: ColumnPath) -> ColumnPath:
    """The path of a column by the physical names of the fields along it."""
    return tuple(each.physical_name for each in _fields_along(schema, path))


def resolved_path(schema: StructType, path: ColumnPath) -> ColumnPath:
    """The path in the spelling of the schema."""
    return tuple(each.name for each in _fields_along(schema, path))


def with_type_at(schema: StructType, path: ColumnPath, edit: Callable[[DataType], DataType]) -> StructType:
    """A schema with another type at a path that it has; the schema itself, at an empty path, stays a struct."""
    edited = _with_type(schema, path, edit)
    assert isinstance(edited, StructType)  # noqa: S101 - narrows the type
    return edited


def _with_type(kind: DataType, path: ColumnPath, edit: Callable[[DataType], DataType]) -> DataType:
    if not path:
        return edit(kind)
    step, rest = path[0].lower(), path[1:]
    match kind:
        case StructType(fields):
            return StructType(
                tuple(_edited(each, rest, edit) if each.name.lower() == step else each for each in fields)
            )
        case ArrayType(element):
            return replace(kind, element=_with_type(element, rest, edit))
        case MapType(key, value):
            if step == "key":
                return replace(kind, key=_with_type(key, rest, edit))
            return replace(kind, value=_with_type(value, rest, edit))
        case _:
            return kind


def _edited(field: Field, rest: ColumnPath, edit: Callable[[DataType], DataType]) -> Field:
    return replace(field, type=_with_type(field.type, rest, edit))


def _fields_along(schema: StructType, path: ColumnPath) -> list[Field]:
    kind: DataType = schema
    found: list[Field] = []
    for number, step in enumerate(path, start=1):
        if (member := _member(kind, step)) is None:
            raise _missing(path[:number], kind)
        found.append(member)
        kind = member.type
    return found


def _member(kind: DataType, step: str) -> Field | None:
    match kind, step.lower():
        case StructType(), _:
            return kind.get(step)
        case ArrayType(element, nulls), "element":
            return Field("element", element, nulls)
        case MapType(key), "key":
            return Field("key", key, nullable=False)
        case MapType(_, value, nulls), "value":
            return Field("value", value, nulls)
        case _:
            return None


def _missing(path: ColumnPath, kind: DataType) -> InvalidSchema:
    parent = path_text(path[:-1])
    match kind:
        case StructType(fields):
            hint = f"there are: {', '.join(quoted_path((each.name,)) for each in fields)}"
        case ArrayType():
            hint = f"fields of an array are below {parent}.element"
        case MapType():
            hint = f"a map has {parent}.key and {parent}.value"
        case _:
            hint = f"{parent} is not a struct, and has no fields"
    return InvalidSchema(f"there is no column {path_text(path)}", hint=hint, column=path_text(path))
