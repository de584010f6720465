"""Column mapping: every column of a table gets an id and a physical name that survive renaming."""

from collections.abc import Callable
from dataclasses import replace

from deltamirror.delta.schema import ArrayType, DataType, Field, MapType, StructType
from deltamirror.delta.schema.types import PHYSICAL_NAME

__all__ = ["assign_columns"]

_COLUMN_ID = "delta.columnMapping.id"


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
        if _COLUMN_ID not in metadata:
            highest += 1
            metadata[_COLUMN_ID] = highest
        if PHYSICAL_NAME not in metadata:
            metadata[PHYSICAL_NAME] = fresh_name(column)
        return replace(column, metadata=metadata, type=inside(column.type))

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
