"""A session of Delta Lake on Spark that writes one file where a small commit needs one."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession

DELTA = "spark.databricks.delta."
SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # What is small and runs once is not worth a compiler; a busy machine may be slow to answer.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.executor.heartbeatInterval": "100s",
    "spark.network.timeout": "600s",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@dataclass(frozen=True)
class Spark:
    """A session, and the words in which histories are told."""

    session: SparkSession

    @staticmethod
    def started(package: str, warehouse: str) -> "Spark":
        """A session with this release of Delta Lake; one task at a time, so that files come in one order."""
        builder = SparkSession.builder.master("local[1]").appName("reference-logs").config(map={**SETTINGS})
        builder = builder.config("spark.jars.packages", package).config("spark.sql.warehouse.dir", warehouse)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        return Spark(session)

    def sql(self, table: str, *statements: str) -> None:
        """Run statements one after the other; ``$t`` is the table, ``$p`` its folder."""
        for statement in statements:
            self.session.sql(statement.replace("$t", f"delta.`{table}`").replace("$p", table)).collect()

    @contextmanager
    def conf(self, settings: Mapping[str, str]) -> Iterator[None]:
        """Settings of the session for a while; those of Delta without their prefix."""
        names = {name if name.startswith("spark.") else DELTA + name: value for name, value in settings.items()}
        before: dict[str, str | None] = {name: self.session.conf.get(name, None) for name in names}
        for name, value in names.items():
            self.session.conf.set(name, value)
        try:
            yield
        finally:
            for name, old in before.items():
                if old is None:
                    self.session.conf.unset(name)
                else:
                    self.session.conf.set(name, old)

    def checkpoint(self, table: str) -> None:
        """Write a checkpoint of the last version."""
        jvm = self.session._jvm
        assert jvm is not None
        log = jvm.org.apache.spark.sql.delta.DeltaLog
        log.clearCache()
        log.forTable(self.session._jsparkSession, table).checkpoint()
