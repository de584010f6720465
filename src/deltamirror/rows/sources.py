"""Row data as programs have it: Arrow data of any library, written by this process, and DataFrames of Spark."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from deltamirror.arguments import shown
from deltamirror.delta.actions import Add
from deltamirror.errors import InvalidInput
from deltamirror.rows.writing import RowFiles, RowOrder
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.store import Store

RowData: TypeAlias = pa.Table | pa.RecordBatch | pa.RecordBatchReader | Any
"""A table, batch, reader or dataset of pyarrow, an object with ``__arrow_c_stream__`` (frames of pandas, Polars…), or a
DataFrame of Spark."""


@dataclass(frozen=True, slots=True)
class LargeRows:
    """Rows of a DataFrame that Spark keeps: one process may have no room for them."""

    frame: Any
    """Its columns go by number; the last, ``id``, tells rows apart."""
    schema: pa.Schema
    """Their columns."""
    count: int


class RowSource(Protocol):
    """Rows that wait to be written."""

    @property
    def schema(self) -> pa.Schema:
        """Their columns."""

    def read(self, most: int) -> "pa.RecordBatchReader | LargeRows":
        """Bring them to this process; those of a DataFrame that has more bytes than that stay with Spark."""

    def write(self, order: RowOrder, address: StoreAddress, store: Store) -> Sequence[Add]:
        """Write them to data files; the store is that at the address, with the credentials of this process."""


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """Arrow data, written by this process batch by batch."""

    reader: pa.RecordBatchReader

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return self.reader.schema

    def read(self, most: int) -> pa.RecordBatchReader:
        """The reader, which is used up: the rows are of this process, however many there are."""
        return self.reader

    def write(self, order: RowOrder, address: StoreAddress, store: Store) -> Sequence[Add]:
        """Write the rows; the reader is used up."""
        return RowFiles(order, store).write(self.reader.schema, self.reader)


def is_row_data(data: object) -> bool:
    """Whether this is a DataFrame of Spark, or Arrow data of whichever library."""
    if isinstance(data, type):
        return False
    return is_spark_frame(data) or _is_dataset(data) or hasattr(data, "__arrow_c_stream__")


def is_spark_frame(data: object) -> bool:
    """Whether this is a DataFrame of Spark, by the names of its classes: pyspark need not be there."""
    return _is_a(data, "DataFrame", "pyspark.sql.")


def spark_session(spark: object, data: object = None) -> Any:
    """The session that a caller names, or that of a DataFrame; None: there is none."""
    if spark is None:
        return data.sparkSession if is_spark_frame(data) else None  # type: ignore[attr-defined]  # as all of them have
    if not _is_a(spark, "SparkSession", "pyspark.sql."):
        raise InvalidInput(
            f"spark has to be a session of Spark, not {shown(spark)}", hint="leave it out, or give spark=spark"
        )
    return spark


def required_session(spark: object) -> Any:
    """The session that a caller has to name."""
    if (session := spark_session(spark)) is None:
        raise InvalidInput("a session of Spark is needed", hint="give the session: spark")
    return session


def _is_dataset(data: object) -> bool:
    """Whether this is a dataset of pyarrow, whose module brings pandas along: a good part of the start of a command."""
    return _is_a(data, "Dataset", "pyarrow._dataset")


def _is_a(data: object, name: str, module: str) -> bool:
    return any(each.__name__ == name and str(each.__module__).startswith(module) for each in type(data).__mro__)


def rows_of(data: RowData, name: str) -> RowSource:
    """The rows that a caller gives under a name; InvalidInput for what is no rows, or cannot be read."""
    if not is_row_data(data):
        hint = "give a table, reader or dataset of Arrow, or a frame of Spark, pandas or Polars"
        raise InvalidInput(f"{name} has to be rows, not {shown(data)}", hint=hint)
    return row_source(data)


def row_source(data: RowData) -> RowSource:
    """The rows; InvalidInput for what cannot be read. Arrow's readers are used up, all else can be read again."""
    if is_spark_frame(data):
        found: RowSource = import_module("deltamirror.rows.spark").SparkRows.of(data)
        return found
    try:
        return ArrowRows(_as_reader(data))
    except (pa.ArrowException, OSError) as error:
        hint = "look at what its library says; a column has values of one type"
        raise InvalidInput(f"{shown(data)} cannot be read as Arrow data: {error}", hint=hint) from error


def _as_reader(data: RowData) -> pa.RecordBatchReader:
    if isinstance(data, pa.RecordBatchReader):
        return data
    if _is_dataset(data):
        return data.scanner().to_reader()
    if isinstance(data, pa.Table):
        return data.to_reader()
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    return pa.RecordBatchReader.from_stream(data)
