"""Executors of Spark, one of which is killed (kill -9) when it comes to a point."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import lru_cache
from typing import Any, Final

from deltamirror.pipeline.run.spark.executor import run_units
from tests.support.crashes.fuses import die
from tests.support.crashes.points import observing

_WATCHED: Final = ExitStack()


def struck_units(items: Iterator[bytes], *, point: str, fuse: str, **options: Any) -> Iterator[bytes]:
    """What executors do with units; the first that comes to the point dies, and leaves the file ``fuse``."""
    _watch(point, fuse)
    return run_units(items, **options)


@lru_cache(maxsize=1)  # Spark uses a worker process for many tasks
def _watch(point: str, fuse: str) -> None:
    def tell(passed: str) -> None:
        if passed == point:
            with suppress(FileExistsError):
                os.close(os.open(fuse, os.O_CREAT | os.O_EXCL))
                die()

    _WATCHED.enter_context(observing(tell))
