"""Executors of Spark, one of which is killed (kill -9) when it comes to a point."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from deltamirror.pipeline.run.spark.executor import run_rows
from tests.support.crashes.fuses import die
from tests.support.crashes.points import observing

__all__ = ["struck_rows"]

_WATCHED: Final = ExitStack()


def struck_rows(
    batches: Iterator[pa.RecordBatch], *, point: str, fuse: str, **options: Any
) -> Iterator[pa.RecordBatch]:
    """What executors do with units; the first that comes to the point dies, and leaves the file ``fuse``."""
    _watch(point, fuse)
    return run_rows(batches, **options)


@lru_cache(maxsize=1)  # Spark uses a worker process for many tasks
def _watch(point: str, fuse: str) -> None:
    def tell(passed: str) -> None:
        if passed == point:
            with suppress(FileExistsError):
                os.close(os.open(fuse, os.O_CREAT | os.O_EXCL))
                die()

    _WATCHED.enter_context(observing(tell))
