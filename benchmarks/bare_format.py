"""The bare cost of a format in Python: batches of a Parquet file handed to Spark, with nothing else to do."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType


class BareFormat(DataSource):
    """Reads one file, whose path is an option, by its row groups."""

    @classmethod
    def name(cls) -> str:
        """As sessions know it."""
        return "bare"

    def reader(self, schema: StructType) -> DataSourceReader:
        """Of the columns that the session gave."""
        return _Reader(str(self.options["path"]))


class _Reader(DataSourceReader):
    def __init__(self, path: str) -> None:
        self._path = path

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(pq.ParquetFile(self._path).num_row_groups)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from pq.ParquetFile(self._path).iter_batches(row_groups=[partition.value])
