"""In which batches Spark hands rows to the Python of an executor.

Spark ends a batch at a number of rows or of bytes, and adds the bytes up again after each row: about half of what a job
costs that writes rows of some numbers and short texts.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

_WANTED: Final = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1024",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
}
"""The largest number is no limit, for which nothing is added up. So many rows of 64 KiB each are the 64 MiB of Spark's
own limit."""


@contextmanager
def batches_by_rows(session: SparkSession) -> Iterator[None]:
    """Let batches end at a number of rows alone while a job of a session runs.

    A session that has limits of its own keeps them; those of another job of ours are the same.
    """
    if _WANTED.keys() & session.conf.getAll.keys():
        yield
        return
    try:
        with suppress(PySparkException):  # a server may keep its settings to itself: then it goes on adding up
            for name, value in _WANTED.items():
                session.conf.set(name, value)
        yield
    finally:
        with suppress(PySparkException):
            for name, _ in _WANTED.items() & session.conf.getAll.items():  # not those that were set meanwhile
                session.conf.unset(name)
