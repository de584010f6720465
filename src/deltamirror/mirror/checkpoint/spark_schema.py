"""Spark's JSON text of a checkpoint's schema: ``checkpointSchema`` of the pointer, and a key of the Parquet footer."""

from dataclasses import replace

import pyarrow as pa

from deltamirror.delta.actions import Metadata
from deltamirror.delta.schema import DataType, Field, StructType, from_arrow, parse_schema, schema_string
from deltamirror.mirror.checkpoint.layout import STATS_PARSED
from deltamirror.mirror.checkpoint.statistics import COLUMN_ID

__all__ = ["checkpoint_schema"]


def checkpoint_schema(table: pa.Table, metadata: Metadata) -> str:
    """Spark's JSON text of the schema of ``table``, which ``rows`` or ``file_rows`` made.

    Of mapped columns, the statistics carry the ids.
    """
    columns = parse_schema(metadata.schema_string)
    schema = from_arrow(table.schema)
    return schema_string(StructType(tuple(_action(each, columns) for each in schema.fields)))


def _action(each: Field, columns: StructType) -> Field:
    """``add`` with ids in its statistics; other actions as they are."""
    if each.name != "add" or not isinstance(each.type, StructType):
        return each
    parts = (_statistics(part, columns) if part.name == STATS_PARSED else part for part in each.type.fields)
    return replace(each, type=StructType(tuple(parts)))


def _statistics(each: Field, columns: StructType) -> Field:
    """Each kind of statistics has the columns of the table, under their physical names."""
    if not isinstance(each.type, StructType):
        return each
    kinds = (replace(kind, type=_identified(kind.type, columns)) for kind in each.type.fields)
    return replace(each, type=StructType(tuple(kinds)))


def _identified(kind: DataType, columns: DataType) -> DataType:
    if not isinstance(kind, StructType) or not isinstance(columns, StructType):
        return kind
    known = {each.physical_name: each for each in columns.fields}
    return StructType(tuple(_with_id(each, known[each.name]) for each in kind.fields))


def _with_id(each: Field, column: Field) -> Field:
    metadata = {COLUMN_ID: column.metadata[COLUMN_ID]} if COLUMN_ID in column.metadata else {}
    return replace(each, type=_identified(each.type, column.type), metadata=metadata)
