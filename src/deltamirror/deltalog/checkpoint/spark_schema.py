"""Spark's JSON text of a checkpoint's schema: ``checkpointSchema`` of the pointer, and a key of the Parquet footer."""

import pyarrow as pa

from deltamirror.delta.schema import from_arrow, schema_string

__all__ = ["checkpoint_schema"]


def checkpoint_schema(columns: pa.Schema) -> str:
    """Spark's JSON text of the columns of a checkpoint or a sidecar.

    Its fields carry no metadata of their own, not even the ids of mapped columns: Spark 4 loses these as it parses
    statistics.
    """
    return schema_string(from_arrow(columns))
