"""The process from which Spark forks Python workers, if ``spark.python.daemon.module`` names it: it has imported ours.

Workers of pyspark's own daemon import for a second each: those that publish, once Spark has ended idle ones after a
minute, and those of the format ``deltamirror``, of which planning a query takes several.
"""

from contextlib import suppress
from importlib import import_module
from typing import Final

from pyspark.daemon import manager

_NEEDED: Final = (
    "deltamirror.pipeline.run.spark.executor",
    "deltamirror.spark.source",
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
