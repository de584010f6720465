"""Rows of a driver as Arrow data: apart from the databases, so that a look at one does not wait for Arrow's library."""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa


def arrow_table(batches: Iterable[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """Batches of rows as one table."""
    return pa.Table.from_batches([_batch(rows, schema) for rows in batches], schema)


def _batch(rows: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.record_batch([_array(values, field.type) for values, field in zip(columns, schema, strict=True)], schema)


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    # SQLite has no booleans: its drivers give 0 and 1.
    return pa.array(map(bool, values), kind) if pa.types.is_boolean(kind) else pa.array(values, kind)
