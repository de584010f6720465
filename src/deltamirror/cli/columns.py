"""Columns and their types as people write them: ``id long``, ``tags map<string,array<string>>``."""

from typing import assert_never

from deltamirror.delta.schema import ArrayType, DataType, Decimal, Field, MapType, Primitive, StructType

__all__ = ["column_text", "type_text"]


def column_text(field: Field) -> str:
    """A column as ``--schema`` would take it."""
    return f"{field.name} {type_text(field.type)}{'' if field.nullable else ' NOT NULL'}"


def type_text(kind: DataType) -> str:
    """A type as ``--schema`` would take it."""
    match kind:
        case Primitive(name):
            return name
        case Decimal(precision, scale):
            return f"decimal({precision},{scale})"
        case ArrayType(element):
            return f"array<{type_text(element)}>"
        case MapType(key, value):
            return f"map<{type_text(key)},{type_text(value)}>"
        case StructType(fields):
            return f"struct<{','.join(f'{field.name}:{type_text(field.type)}' for field in fields)}>"
        case _:
            assert_never(kind)
