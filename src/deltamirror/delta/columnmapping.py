"""Column mapping: every column of a table gets an id and a physical name that survive renaming."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from deltamirror.delta.hashorder import field_metadata
from deltamirror.delta.schema import ArrayType, DataType, Field, MapType, StructType
from deltamirror.delta.schema.keys import COLUMN_ID, NESTED_IDS, PHYSICAL_NAME

_Mapped: TypeAlias = Callable[[StructType, StructType], StructType]
"""Gives a schema the mapping that another one has."""

_KEPT = (COLUMN_ID, PHYSICAL_NAME, NESTED_IDS)


def keep_mapping(schema: StructType, before: StructType) -> StructType:
    """The schema with the ids and physical names that columns of the same names have in the one before.

    A column that states either of them is left as it is: that is how one is renamed.
    """
    namesakes = {each.name: each for each in before.fields}
    return StructType(tuple(_kept(column, namesakes.get(column.name)) for column in schema.fields))


def reuse_mapping(schema: StructType, before: StructType) -> StructType:
    """A schema that takes the place of another, with the ids and physical names of columns that are in both.

    As the reference writer has it: a column is the same if its path and its type are, whatever became of those above.
    """
    return StructType(tuple(_reused(column, before.get(column.name)) for column in schema.fields))


def _reused(column: Field, before: Field | None) -> Field:
    if before is None:
        return column
    is_same = is_same_type(column.type, before.type)
    mapping = {key: before.metadata[key] for key in _KEPT if is_same and key in before.metadata}
    return replace(
        column, metadata={**column.metadata, **mapping}, type=_inside(reuse_mapping, column.type, before.type)
    )


def is_same_type(kind: DataType, other: DataType) -> bool:
    """Whether two types have the same fields and primitive types, whatever else is said of these."""
    return _bare(kind) == _bare(other)


def _bare(kind: DataType) -> DataType:
    """A type by its names and primitive types alone."""
    match kind:
        case StructType(fields):
            return StructType(tuple(Field(each.name.lower(), _bare(each.type)) for each in fields))
        case ArrayType(element):
            return ArrayType(_bare(element))
        case MapType(key, value):
            return MapType(_bare(key), _bare(value))
        case _:
            return kind


def _kept(column: Field, before: Field | None) -> Field:
    if before is None or any(key in column.metadata for key in _KEPT):
        return column
    mapping = {key: before.metadata[key] for key in _KEPT if key in before.metadata}
    return replace(
        column, metadata={**column.metadata, **mapping}, type=_inside(keep_mapping, column.type, before.type)
    )


def _inside(mapped: _Mapped, kind: DataType, before: DataType) -> DataType:
    """A type whose structs, at any depth, are mapped as those that were in their places."""
    match kind, before:
        case StructType(), StructType():
            return mapped(kind, before)
        case ArrayType(), ArrayType():
            return replace(kind, element=_inside(mapped, kind.element, before.element))
        case MapType(), MapType():
            key, value = _inside(mapped, kind.key, before.key), _inside(mapped, kind.value, before.value)
            return replace(kind, key=key, value=value)
        case _:
            return kind


def assign_columns(schema: StructType, *, above: int, fresh_name: Callable[[Field], str]) -> tuple[StructType, int]:
    """The schema with an id and a physical name on every column that has none, and the highest id.

    ``above`` is the highest id that the table has handed out; ids are never used twice. Ids go down the columns,
    parents first. ``fresh_name`` names a column physically: by chance in a table that begins with column mapping,
    by its own name in one whose files were written without.
    """
    highest = above

    def mapped(column: Field) -> Field:
        nonlocal highest
        metadata = dict(column.metadata)
        if COLUMN_ID not in metadata:
            highest += 1
            metadata[COLUMN_ID] = highest
        if PHYSICAL_NAME not in metadata:
            metadata[PHYSICAL_NAME] = fresh_name(column)
        return replace(column, metadata=field_metadata(metadata), type=inside(column.type))

    def inside(kind: DataType) -> DataType:
        match kind:
            case StructType():
                return StructType(fields=tuple(mapped(column) for column in kind.fields))
            case ArrayType():
                return replace(kind, element=inside(kind.element))
            case MapType():
                return replace(kind, key=inside(kind.key), value=inside(kind.value))
            case _:
                return kind

    return StructType(fields=tuple(mapped(column) for column in schema.fields)), highest
