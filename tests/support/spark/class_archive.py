"""Write the classes of Spark, as a JVM has them in memory, to a file that the JVMs of the tests begin with.

Half of what a short Spark session computes is loading and verifying some fifteen thousand classes.
"""

import os
import shutil
import sys
import tempfile
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.functions import col

from tests.support.suite.environment import ARCHIVE, FOR_SHORT_LIVES


def main() -> None:
    """Let a session load what most tests need; its JVM writes the file when it ends."""
    ARCHIVE.parent.mkdir(exist_ok=True)
    ARCHIVE.unlink(missing_ok=True)
    os.environ["SPARK_SUBMIT_OPTS"] = f"{FOR_SHORT_LIVES} -XX:ArchiveClassesAtExit={ARCHIVE}"
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    folder = tempfile.mkdtemp()
    local = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}
    spark = SparkSession.builder.master("local[2]").config(map={**local}).getOrCreate()
    try:
        _use(spark, folder)
    finally:
        spark.stop()
        gateway: Any = spark.sparkContext._gateway  # nothing public ends the JVM
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=120)
        shutil.rmtree(folder)
    if not ARCHIVE.exists():
        sys.exit(f"the JVM wrote no {ARCHIVE}")


def _use(spark: SparkSession, folder: str) -> None:
    rows = spark.range(20).select("id", (col("id") % 3).alias("part"), col("id").cast("string").alias("text"))
    rows.write.partitionBy("part").parquet(f"{folder}/parquet")
    rows.write.json(f"{folder}/json")
    stored = spark.read.parquet(f"{folder}/parquet").join(spark.read.json(f"{folder}/json").select("id"), "id")
    stored.groupBy("text").count().orderBy("text").toArrow()
    stored.mapInArrow(lambda batches: batches, stored.schema).toArrow()
    spark.sql("SELECT to_json(struct(*)) FROM VALUES (1, DATE'2024-01-01', array('x')) AS t(a, b, c)").collect()


if __name__ == "__main__":
    main()
