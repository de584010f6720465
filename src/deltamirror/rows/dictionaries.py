"""Which columns of a Parquet file have dictionaries.

A writer builds one for each column, and gives it up when it becomes too large: for a column in which hardly any value
repeats, that is half of the work of encoding it, and makes it larger.
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as kinds

_SLICES: Final = 16
_SLICE_ROWS: Final = 1_024
_UNIQUE: Final = 0.95
"""Of the rows of a sample: where so many differ, a column has too many values for a dictionary."""


def columns_with_dictionaries(rows: pa.Table) -> bool | list[str]:
    """As ``ParquetWriter`` takes it, by a look at some of the rows that a file begins with: True for all columns."""
    if rows.num_rows < 2 * _SLICES * _SLICE_ROWS:
        return True
    step = rows.num_rows // _SLICES
    sample = pa.concat_tables([rows.slice(number * step, _SLICE_ROWS) for number in range(_SLICES)])
    unique = {field.name for field in rows.schema if _can_be_counted(field.type) and _is_unique(sample[field.name])}
    return [path for path in _paths(rows.schema) if path not in unique] if unique else True


def _can_be_counted(kind: pa.DataType) -> bool:
    is_text = kinds.is_string(kind) or kinds.is_binary(kind)
    return bool(is_text or kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_temporal(kind))


def _is_unique(column: pa.ChunkedArray) -> bool:
    distinct: int = pc.count_distinct(column, mode="only_valid").as_py()
    return distinct > _UNIQUE * len(column)


def _paths(schema: pa.Schema) -> list[str]:
    """Of all columns as Parquet has them: fields of structs and elements of lists are columns of their own."""
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink, store_schema=False)
    columns = pq.ParquetFile(sink.getvalue()).schema
    return [columns.column(number).path for number in range(len(columns))]
