"""Delta Lake on Spark, as it comes: the peer of measurements."""

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import SparkSession

_PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"


def stock_session(more: Mapping[str, str] | None = None) -> SparkSession:
    """A session on two cores of this machine, with more settings."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]")
    settings = {
        "spark.jars.packages": _PACKAGE,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.driver.memory": "8g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(more or {}),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def opener(session: SparkSession) -> Callable[..., object]:
    """Opens a table of which Delta Spark remembers nothing, and lists the files that a condition leaves of it."""
    jvm: Any = session._jvm  # noqa: SLF001
    logs = jvm.org.apache.spark.sql.delta.DeltaLog

    def opened(location: str, condition: str = "true") -> object:
        logs.clearCache()
        frame = session.read.format("delta").load(location).where(condition)
        # The list stays in the JVM: py4j hands it to Python name by name, which takes longer than Delta Lake does.
        return len(frame._jdf.inputFiles())  # noqa: SLF001

    return opened
