"""Delta Lake on Spark, the reference, as a worker: one session that reads tables and runs SQL for many tests."""

import json
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from tests.support.rows import fingerprint
from tests.support.worker import serve, take_stdout

DELTA_PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"
SETTINGS: dict[str, bool | float | int | str | None] = {
    "spark.jars.packages": DELTA_PACKAGE,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class DeltaSpark:
    """Answers requests: ``{"sql": …}`` gives the rows, ``{"location": …}`` the snapshot that the JVM sees."""

    def __init__(self) -> None:
        builder = SparkSession.builder.master("local[2]").appName("deltamirror-tests")
        self.spark = builder.config(map=SETTINGS).getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")
        # Typed as Any: the JVM's classes are found by name at run time.
        self.jvm: Any = self.spark._jvm

    def name(self) -> str:
        """What this is, with all versions that matter."""
        java = self.jvm.java.lang.System.getProperty("java.version")
        return f"Delta Lake {DELTA_PACKAGE.rpartition(':')[2]} on Spark {self.spark.version}, Java {java}"

    def answer(self, request: dict[str, Any]) -> object:
        """Do what one request asks."""
        if "sql" in request:
            return self.spark.sql(request["sql"]).toArrow().to_pylist()
        return self.snapshot(request)

    def snapshot(self, request: dict[str, Any]) -> dict[str, object]:
        """The table as its files say: nothing that this process remembers of it counts."""
        delta_log = self.jvm.org.apache.spark.sql.delta.DeltaLog
        delta_log.clearCache()
        log = delta_log.forTable(self._session(), request["location"])
        found = self._snapshot_at(log, request["version"])
        if found.version() < 0:
            raise FileNotFoundError(f"no Delta table at {request['location']}")
        return {
            "version": found.version(),
            "protocol": json.loads(found.protocol().json())["protocol"],
            "metadata": _metadata(json.loads(found.metadata().json())["metaData"]),
            "files": self._files(found),
            "rows": self._rows(request["location"], found.version()) if request["rows"] else None,
        }

    def _session(self) -> Any:
        return self.spark._jsparkSession

    def _snapshot_at(self, log: Any, version: int | None) -> Any:
        none = self.jvm.scala.Option.empty()
        if version is None:
            return log.update(False, none, none)
        return log.getSnapshotAt(version, none, none, False)

    def _files(self, found: Any) -> list[dict[str, object]]:
        vector = [f"deletionVector.{name} AS {name}" for name in ("storageType", "pathOrInlineDv", "offset")]
        files = DataFrame(found.allFiles().toDF(), self.spark).selectExpr("path", "size", "partitionValues", *vector)
        return [_file(row) for row in files.toArrow().to_pylist()]

    def _rows(self, location: str, version: int) -> dict[str, object]:
        data = self.spark.read.format("delta").option("versionAsOf", version).load(location)
        return fingerprint(data.toArrow())


def _metadata(metadata: dict[str, Any]) -> dict[str, object]:
    return {**metadata, "schema": json.loads(metadata["schemaString"])}


def _file(row: dict[str, Any]) -> dict[str, object]:
    return {
        "path": unquote(row["path"]),
        "size": row["size"],
        "deletion_vector": _vector_id(row),
        "partition_values": dict(row["partitionValues"]),
    }


def _vector_id(row: dict[str, Any]) -> str | None:
    """The deletion vector's unique id, as the protocol defines it."""
    if row["storageType"] is None:
        return None
    offset = "" if row["offset"] is None else f"@{row['offset']}"
    return f"{row['storageType']}{row['pathOrInlineDv']}{offset}"


if __name__ == "__main__":
    # Before the JVM starts and inherits standard output.
    answers = take_stdout()
    reader = DeltaSpark()
    serve(answers, reader.name(), reader.answer)
    reader.spark.stop()
