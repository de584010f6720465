"""Row data as programs have it, as one stream of Arrow batches: of pyarrow, and of all that speak its C interface."""

from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.dataset as ds

from deltamirror.arguments import shown
from deltamirror.errors import InvalidInput

__all__ = ["RowData", "as_reader", "is_row_data"]

RowData: TypeAlias = pa.Table | pa.RecordBatch | pa.RecordBatchReader | ds.Dataset | Any
"""A table, batch, reader or dataset of pyarrow, or an object with ``__arrow_c_stream__``: frames of pandas, Polars…"""


def is_row_data(data: object) -> bool:
    """Whether this is Arrow data, of whichever library."""
    return not isinstance(data, type) and (isinstance(data, ds.Dataset) or hasattr(data, "__arrow_c_stream__"))


def as_reader(data: RowData) -> pa.RecordBatchReader:
    """The data batch by batch; a reader is used up, all else can be read again."""
    try:
        return _as_reader(data)
    except (pa.ArrowException, OSError) as error:
        hint = "look at what its library says; a column has values of one type"
        raise InvalidInput(f"{shown(data)} cannot be read as Arrow data: {error}", hint=hint) from error


def _as_reader(data: RowData) -> pa.RecordBatchReader:
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, ds.Dataset):
        return data.scanner().to_reader()
    if isinstance(data, pa.Table):
        return data.to_reader()
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    return pa.RecordBatchReader.from_stream(data)
