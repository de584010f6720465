"""Delta Lake on Spark, the reference, as a worker: one session that reads tables and runs SQL for many tests."""

import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import reduce
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from deltamirror.spark.logstore import settings_of_jobs
from tests.support.readers.rows import fingerprint, rows_or_error
from tests.support.readers.s3_access import S3Access, bucket_and_key
from tests.support.spark.commands import run_command
from tests.support.suite.worker import serve, take_stdout

DELTA_PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"
# hadoop-aws asks for a bundle of all clients of AWS, which is 700 MB; the one for S3 is 14 MB.
S3_PACKAGES = ("org.apache.hadoop:hadoop-aws:3.5.0", "software.amazon.awssdk:s3-transfer-manager:2.35.4")
PARTITIONS = {"spark.sql.shuffle.partitions": "2", "spark.databricks.delta.snapshotPartitions": "2"}
SETTINGS: dict[str, bool | float | int | str | None] = {
    "spark.jars.packages": ",".join([DELTA_PACKAGE, *S3_PACKAGES]),
    "spark.jars.excludes": "software.amazon.awssdk:bundle",
    "spark.hadoop.fs.s3a.path.style.access": "true",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    # Below these locations, which are none, tables would be asked for at a server: tests say where theirs are.
    **settings_of_jobs(server="http://127.0.0.1:9", schemes=("file", "s3a"), locations="none:/", transactions=True),
    "spark.sql.session.timeZone": "UTC",
    **PARTITIONS,
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.python.daemon.module": "deltamirror.spark.daemon",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # VACUUM lists files in that many tasks, 10,000 if nobody says otherwise.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    # What is small and runs once is not worth a compiler.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}


class DeltaSpark:
    """Answers requests: ``{"sql": …}`` gives the rows, ``{"location": …}`` the snapshot that the JVM sees.

    With ``versions`` beside the location, it gives the lines of all actions that make up each of these versions.
    ``{"command": …}`` is of ``spark_commands``.
    """

    def __init__(self) -> None:
        builder = SparkSession.builder.master("local[2]").appName("deltamirror-tests")
        self.spark = builder.config(map=SETTINGS).getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")
        # Typed as Any: the JVM's classes are found by name at run time.
        self.jvm: Any = self.spark._jvm
        self.endpoints: dict[str, str] = {}

    def name(self) -> str:
        """What this is, with all versions that matter."""
        java = self.jvm.java.lang.System.getProperty("java.version")
        return f"Delta Lake {DELTA_PACKAGE.rpartition(':')[2]} on Spark {self.spark.version}, Java {java}"

    def answer(self, request: dict[str, Any]) -> object:
        """Do what one request asks."""
        if "sql" in request:
            return self.spark.sql(request["sql"]).toArrow().to_pylist()
        if "command" in request:
            return run_command(self.spark, request)
        if "rows_of" in request:
            return self.rows_of(request["rows_of"])
        if "versions" in request:
            return self.states(request["location"], request["versions"])
        return self.snapshot(request)

    def states(self, location: str, versions: list[int]) -> dict[int, list[str]]:
        """The actions of some versions, in one job: it is most of the cost to plan and compile it."""
        found: dict[int, list[str]] = {version: [] for version in versions}
        with self._in_one_piece():
            log = self._log(location)
            parts = [self._actions(self._snapshot_at(log, version)) for version in versions]
            for row in reduce(DataFrame.union, parts).collect():
                found[row.version].append(row.line)
        return found

    def rows_of(self, asked: list[tuple[str, str | None]]) -> object:
        """The rows of many small tables: most of the time of one is spent waiting for others."""
        self.jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        with self._in_one_piece(), ThreadPoolExecutor(4) as pool:
            return list(pool.map(lambda each: rows_or_error(self._read, *each), asked))

    def _read(self, location: str, column: str | None) -> pa.Table:
        data = self.spark.read.format("delta").load(location)
        return (data if column is None else data.where("`{}` IS NOT NULL".format(column.replace("`", "``")))).toArrow()

    def snapshot(self, request: dict[str, Any]) -> dict[str, object]:
        """The table as its files say: nothing that this process remembers of it counts."""
        with self._in_one_piece():
            return self._seen(self._reachable(request["location"], S3Access.asked(request)), request)

    def _seen(self, location: str, request: dict[str, Any]) -> dict[str, object]:
        found = self._snapshot_at(self._log(location), request["version"])
        if found.version() < 0:
            raise FileNotFoundError(f"no Delta table at {location}")
        return {
            "version": found.version(),
            "protocol": json.loads(found.protocol().json())["protocol"],
            "metadata": _metadata(json.loads(found.metadata().json())["metaData"]),
            "files": self._files(found),
            "rows": self._rows(location, found.version()) if request["rows"] else None,
        }

    def _log(self, location: str) -> Any:
        delta_log = self.jvm.org.apache.spark.sql.delta.DeltaLog
        delta_log.clearCache()
        return delta_log.forTable(self._session(), location)

    def _actions(self, found: Any) -> DataFrame:
        if found.version() < 0:
            raise FileNotFoundError("no Delta table")
        actions = DataFrame(found.stateDF(), self.spark).where("remove IS NULL")
        return actions.selectExpr(f"{found.version()} AS version", "to_json(struct(*)) AS line")

    @contextmanager
    def _in_one_piece(self) -> Iterator[None]:
        """Many small tables at once need no parts each."""
        for name in PARTITIONS:
            self.spark.conf.set(name, "1")
        try:
            yield
        finally:
            for name, value in PARTITIONS.items():
                self.spark.conf.set(name, value)

    def _reachable(self, location: str, s3: S3Access | None) -> str:
        """The location in Hadoop's words, once the bucket is known to be at this server."""
        if s3 is None:
            return location
        bucket, key = bucket_and_key(location)
        if self.endpoints.get(bucket) != s3.endpoint:
            self._point(bucket, s3)
        return f"s3a://{bucket}/{key}"

    def _point(self, bucket: str, s3: S3Access) -> None:
        configuration = self._session().sparkContext().hadoopConfiguration()
        if bucket in self.endpoints:
            # It keeps its clients by bucket; a closed one is forgotten.
            path = self.jvm.org.apache.hadoop.fs.Path(f"s3a://{bucket}/")
            path.getFileSystem(configuration).close()
        for name, value in s3.hadoop(bucket).items():
            configuration.set(name, value)
        self.endpoints[bucket] = s3.endpoint

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


def _vector_id(row: dict[str, Any]) -> str:
    """The deletion vector's unique id, as the protocol defines it; empty where there is none."""
    if row["storageType"] is None:
        return ""
    offset = "" if row["offset"] is None else f"@{row['offset']}"
    return f"{row['storageType']}{row['pathOrInlineDv']}{offset}"


if __name__ == "__main__":
    # Before the JVM starts and inherits standard output.
    answers = take_stdout()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # for executors that write rows
    reader = DeltaSpark()
    serve(answers, reader.name(), reader.answer)
    reader.spark.stop()
