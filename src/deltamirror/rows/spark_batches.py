"""In which batches Spark hands rows to the Python of an executor.

Spark ends a batch at a number of rows or of bytes, and adds the bytes up again after each row: about half of what a job
costs that writes rows of some numbers and short texts.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import pyarrow as pa
import pyarrow.types as kinds
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

__all__ = ["batches_by_rows"]

_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
_ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_NO_LIMIT: Final = str(2**31 - 1)
"""For which Spark adds nothing up."""
_FEW_ROWS: Final = 1024
"""With 64 KiB in each row these are the 64 MiB of Spark's own limit."""


@contextmanager
def batches_by_rows(session: SparkSession, schema: pa.Schema) -> Iterator[None]:
    """Let batches end at a number of rows alone while a job of a session runs.

    They have fewer rows if one may be of any size. A session that has a limit of its own keeps it.
    """
    if {_BYTES, _ROWS} & session.conf.getAll.keys():
        yield
        return
    has_bound = all(_has_fixed_size(kind) for kind in schema.types)
    wanted = {_BYTES: _NO_LIMIT} if has_bound else {_ROWS: str(_FEW_ROWS), _BYTES: _NO_LIMIT}
    try:
        with suppress(PySparkException):  # a server may keep its settings to itself: then it goes on adding up
            for name, value in wanted.items():
                session.conf.set(name, value)
        yield
    finally:
        with suppress(PySparkException):
            for name in wanted:
                session.conf.unset(name)


def _has_fixed_size(kind: pa.DataType) -> bool:
    if kinds.is_struct(kind):
        return all(_has_fixed_size(field.type) for field in kind)
    return bool(kinds.is_primitive(kind) or kinds.is_null(kind) or kinds.is_decimal(kind))
