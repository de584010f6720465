"""Table schemas: Delta's types as values, their JSON text, and column definitions; ``arrow`` has those of Arrow."""

from deltamirror.delta.schema.ddl import column_text, from_ddl, type_text
from deltamirror.delta.schema.rules import validate_schema
from deltamirror.delta.schema.text import parse_schema, schema_string
from deltamirror.delta.schema.types import (
    ArrayType,
    DataType,
    Decimal,
    Field,
    MapType,
    Primitive,
    StructType,
    primitive_names,
)

__all__ = [
    "ArrayType",
    "DataType",
    "Decimal",
    "Field",
    "MapType",
    "Primitive",
    "StructType",
    "column_text",
    "from_ddl",
    "parse_schema",
    "primitive_names",
    "read_schema",
    "schema_string",
    "type_text",
    "validate_schema",
]


def read_schema(source: str) -> StructType:
    """A valid schema from what a person handed in: column definitions, or the JSON text of Spark and Delta.

    Which names it may have depends on its table, and is checked there: one that maps columns allows any.
    """
    schema = parse_schema(source) if source.lstrip().startswith("{") else from_ddl(source)
    validate_schema(schema, column_mapping=True)
    return schema
