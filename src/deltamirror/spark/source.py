"""The data source ``deltamirror``: Spark makes one for each read and write, in a Python process beside its driver.

That process and the executors open catalog and stores by their own environment, and need this package.
"""

from dataclasses import replace
from typing import Any, Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from deltamirror.arguments import shown
from deltamirror.errors import InvalidInput
from deltamirror.executors.failures import translated
from deltamirror.rows.layout import Layout
from deltamirror.rows.spark_scan import spark_schema
from deltamirror.spark.options import SourceOptions, with_hint
from deltamirror.spark.reading import TableReader
from deltamirror.spark.streaming import TableStreamReader
from deltamirror.spark.writing import TableStreamWriter, TableWriter

_NAME: Final = "deltamirror"
_PUSHES_FILTERS: Final = "spark.sql.python.filterPushdown.enabled"


def register(spark: Any) -> None:
    """Make ``format("deltamirror")`` known to a session, classic or of Spark Connect."""
    if isinstance(spark, type) or not hasattr(spark, "dataSource"):
        raise InvalidInput(f"spark has to be a session of Spark 4, not {shown(spark)}", hint="give a SparkSession")
    with translated(f"register the format {_NAME}"):
        spark.dataSource.register(DeltaMirrorSource)
        spark.conf.set(_PUSHES_FILTERS, "true")


class DeltaMirrorSource(DataSource):
    """One table of a catalog. All that is planned of one DataFrame is of the version that was its schema's."""

    _version: int | None = None

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return _NAME

    def schema(self) -> StructType:
        """The columns of the table; as with files, Spark takes all of them to be nullable."""
        with with_hint():
            options = SourceOptions.of_table(self.options)
            with options.open() as catalog:
                taken = options.snapshot(catalog)
        self._version = taken.version
        return spark_schema(Layout.of(taken.table, taken.metadata, taken.protocol).arrow_schema)

    def reader(self, schema: StructType) -> TableReader:
        """Reads the columns of a schema, which may be some of the table's."""
        with with_hint():
            options = SourceOptions.of_read(self.options)
        if self._version is not None:
            options = replace(options, version=self._version, as_of=None)
        return TableReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> TableWriter:
        """Writes rows of a schema, beside those that are there or in their place."""
        with with_hint():
            options = SourceOptions.of_write(self.options, overwrite=overwrite)
        return TableWriter(options, schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> TableStreamReader:  # noqa: N802 - Spark's name
        """Follows the table, version by version."""
        with with_hint():
            options = SourceOptions.of_stream(self.options)
        return TableStreamReader(options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> TableStreamWriter:  # noqa: N802 - Spark's name
        """Writes the batches of a stream, beside the rows that are there; in the mode ``complete`` in their place."""
        with with_hint():
            options = SourceOptions.of_sink(self.options)
        return TableStreamWriter(options, schema, overwrite=overwrite)
