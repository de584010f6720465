"""Spark's JSON text of a checkpoint's schema: ``checkpointSchema`` of the pointer, and a key of the Parquet footer."""

import pyarrow as pa

from deltamirror.delta.actions import Metadata
from deltamirror.delta.schema import from_arrow, schema_string

__all__ = ["checkpoint_schema"]


def checkpoint_schema(table: pa.Table, metadata: Metadata) -> str:
    """Spark's JSON text of the schema of ``table``, which ``rows`` or ``file_rows`` made of a table with ``metadata``.

    Its fields carry no metadata of their own, not even the ids of mapped columns: Spark 4 loses these as it parses
    statistics. So ``metadata`` adds nothing to what the table's columns say.
    """
    return schema_string(from_arrow(table.schema))
