"""The process from which a Spark of our own forks Python workers: it has imported what they need.

Spark ends workers that had nothing to do for a minute. The next commit waits for others: those of pyspark's own daemon
import for a second each.
"""

from contextlib import suppress
from importlib import import_module
from typing import Final

from pyspark.daemon import manager

__all__ = ["main"]

_NEEDED: Final = (
    "deltamirror.pipeline.run.spark.executor",
    "deltamirror.txnlog.database.engines.postgresql",
    "pandas",  # which pyarrow looks for when it makes its first array
)


def main() -> None:
    """Import, and fork until Spark ends."""
    for name in _NEEDED:
        with suppress(ImportError):  # a worker that needs it says so better
            import_module(name)
    manager()


if __name__ == "__main__":
    main()
