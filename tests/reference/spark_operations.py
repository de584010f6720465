"""What Delta Lake on Spark is asked to do: operations."""

from tests.reference.history import Histories
from tests.reference.spark_session import Spark

OPERATIONS: Histories[Spark] = Histories()
add = OPERATIONS.add

PLAIN = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')"


@add("basic")
def basic(spark: Spark, table: str) -> None:
    """Appends, DELETE, UPDATE and MERGE that copy files, and a checkpoint after ten commits; odd partition values."""
    odd = ["'a/b'", "'a%b'", "'ü ß 漢 😀'", "'x y'", "'a:b=c'", "'#?&+,;'", "'\\\\''\"'", "'{}[]^|<>~`'", "NULL", "''"]
    rows = ", ".join(f"({number}, {value})" for number, value in enumerate(odd))
    spark.sql(
        table,
        f"CREATE TABLE $t (id BIGINT, p STRING) USING delta PARTITIONED BY (p) {PLAIN}",
        f"INSERT INTO $t VALUES {rows}",
        *(f"INSERT INTO $t VALUES ({100 + number}, 'x'), ({200 + number}, 'x')" for number in range(5)),
        "DELETE FROM $t WHERE id = 101",
        "UPDATE $t SET id = id + 1000 WHERE id = 102",
        "MERGE INTO $t USING (SELECT 103L AS k) ON id = k WHEN MATCHED THEN DELETE"
        " WHEN NOT MATCHED THEN INSERT (id, p) VALUES (k, 'm')",
        "DELETE FROM $t WHERE p = 'a/b'",
        "DELETE FROM $t WHERE p IS NULL",
        "INSERT INTO $t VALUES (500, 'after')",
    )


@add("df")
def data_frames(spark: Spark, table: str) -> None:
    """Ways to write a data frame, table services, and in-commit timestamps from some version on."""
    frame = spark.session.range(10).selectExpr("id", "cast(id AS string) AS s", "id % 2 AS p")

    def write(mode: str, **options: str) -> None:
        writer = frame.where(options.pop("rows", "true")).write.format("delta").mode(mode)
        writer.options(**options).save(table)

    with spark.conf({"commitInfo.userMetadata": "hello"}):
        frame.write.format("delta").partitionBy("p").save(table)
    write("append", txnAppId="app", txnVersion="1")
    write("append", txnAppId="app", txnVersion="1")
    write("overwrite", txnAppId="app", txnVersion="2")
    write("overwrite", replaceWhere="p = 1", rows="p = 1")
    write("overwrite", partitionOverwriteMode="dynamic", rows="p = 0")
    interval = "'delta.checkpointInterval' = '3'"
    spark.sql(table, f"ALTER TABLE $t SET TBLPROPERTIES ({interval}, 'delta.checkpoint.writeStatsAsStruct' = 'true')")
    spark.sql(table, "ALTER TABLE $t SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')")
    write("append", userMetadata="with options")
    spark.sql(
        table,
        "OPTIMIZE $t WHERE p = 0",
        "OPTIMIZE $t ZORDER BY (id)",
        "VACUUM $t",
        "RESTORE TABLE $t TO VERSION AS OF 2",
        "ALTER TABLE $t ADD COLUMNS (newc INT COMMENT 'x')",
        "INSERT INTO $t VALUES (1, 'a', 1, 7)",
    )


@add("changes")
def changes(spark: Spark, table: str) -> None:
    """Change data beside files that are copied: cdc actions."""
    spark.sql(
        table,
        "CREATE TABLE $t (id INT, s STRING, p INT) USING delta PARTITIONED BY (p)"
        " TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'false')",
        "INSERT INTO $t SELECT id, 's', id % 2 FROM range(10)",
        "UPDATE $t SET s = 'u' WHERE id = 3",
        "DELETE FROM $t WHERE id = 4",
        "MERGE INTO $t USING (SELECT 5 AS k UNION ALL SELECT 50) ON id = k WHEN MATCHED THEN UPDATE SET s = 'm'"
        " WHEN NOT MATCHED THEN INSERT (id, s, p) VALUES (k, 'n', 0)",
        "INSERT OVERWRITE $t VALUES (1, 'z', 1)",
    )


@add("alter")
def alter(spark: Spark, table: str) -> None:
    """What ALTER TABLE and comments change."""
    spark.sql(
        table,
        "CREATE TABLE $t (id INT NOT NULL COMMENT 'the key', s STRUCT<a: INT, b: STRING>, `odd-name.x` STRING)"
        " USING delta COMMENT 'say \"hi\" \\\\ ü'"
        " TBLPROPERTIES ('user.key' = 'v', 'z' = '1', 'a.b' = 'ü', 'delta.appendOnly' = 'true', 'q' = '\"')",
        "INSERT INTO $t VALUES (1, named_struct('a', 1, 'b', 'x'), 'o')",
        "ALTER TABLE $t UNSET TBLPROPERTIES ('z')",
        "ALTER TABLE $t SET TBLPROPERTIES ('delta.appendOnly' = 'false', 'delta.dataSkippingNumIndexedCols' = '1')",
        "ALTER TABLE $t ALTER COLUMN id DROP NOT NULL",
        "ALTER TABLE $t ALTER COLUMN id COMMENT 'another'",
        "ALTER TABLE $t ADD COLUMNS (s.c DOUBLE, first DATE FIRST)",
        "ALTER TABLE $t ALTER COLUMN first AFTER id",
        "ALTER TABLE $t ADD CONSTRAINT positive CHECK (id > 0)",
        "INSERT INTO $t VALUES (2, DATE'2024-01-01', named_struct('a', 1, 'b', 'x', 'c', 1.5), 'o')",
        "ALTER TABLE $t DROP CONSTRAINT positive",
        "ALTER TABLE $t REPLACE COLUMNS (id INT, first DATE, s STRUCT<a: INT, b: STRING, c: DOUBLE>, "
        "`odd-name.x` STRING, more ARRAY<INT>)",
        "COMMENT ON TABLE $t IS 'another comment'",
    )


@add("repartitioned")
def repartitioned(spark: Spark, table: str) -> None:
    """Schemas and partitions that change as a whole; a table that is replaced, and emptied."""
    frame = spark.session.range(4).selectExpr("id", "id % 2 AS p", "'x' AS q")
    frame.write.format("delta").partitionBy("p").save(table)
    options = {"overwriteSchema": "true"}
    frame.write.format("delta").mode("overwrite").options(**options).partitionBy("q", "p").save(table)
    frame.withColumnRenamed("q", "r").write.format("delta").mode("overwrite").options(**options).save(table)
    frame.selectExpr("id", "p", "q AS r", "1 AS extra").write.format("delta").mode("append").option(
        "mergeSchema", "true"
    ).save(table)
    spark.sql(
        table,
        "CREATE TABLE named USING delta LOCATION '$p'",
        "CREATE OR REPLACE TABLE named (k INT) USING delta LOCATION '$p'",
        "INSERT INTO $t VALUES (1)",
        "DELETE FROM $t",
        "REPLACE TABLE named USING delta PARTITIONED BY (p) LOCATION '$p' AS SELECT id, id % 2 AS p FROM range(4)",
        "DROP TABLE named",
    )


@add("clone")
def clone(spark: Spark, table: str) -> None:
    """A shallow clone: absolute paths, and deletion vectors at absolute paths."""
    spark.sql(
        table + "-source",
        "CREATE TABLE $t (id BIGINT, `odd-p` STRING) USING delta PARTITIONED BY (`odd-p`)"
        " TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "INSERT INTO $t SELECT id, 'a %/ü' FROM range(10)",
        "DELETE FROM $t WHERE id = 3",
        f"CREATE TABLE delta.`{table}` SHALLOW CLONE $t",
    )
    spark.sql(table, "INSERT INTO $t VALUES (100, 'b')", "DELETE FROM $t WHERE id = 4", "OPTIMIZE $t")


@add("converted")
def converted(spark: Spark, table: str) -> None:
    """Parquet files that became a table, whose names have no form of Delta's."""
    spark.session.range(4).selectExpr("id", "id % 2 AS p").write.partitionBy("p").parquet(table)
    spark.sql(table, "CONVERT TO DELTA parquet.`$p` PARTITIONED BY (p BIGINT)", "INSERT INTO $t VALUES (9, 9)")


@add("stream")
def stream(spark: Spark, table: str) -> None:
    """A streaming sink: a txn of its own id with every batch."""
    source = table + "-source"
    for number in range(3):
        spark.session.range(number, number + 2).write.format("delta").mode("append").save(source)
        frame = spark.session.readStream.format("delta").load(source)
        writer = frame.writeStream.format("delta").option("checkpointLocation", table + "-state")
        writer.outputMode("append").trigger(availableNow=True).start(table).awaitTermination()


@add("many-files")
def many_files(spark: Spark, table: str) -> None:
    """More and fewer files than a checksum lists; transactions of several writers; names with random prefixes."""
    with spark.conf({"properties.defaults.randomizeFilePrefixes": "true"}):
        spark.session.range(45).repartition(45).write.format("delta").save(table)
    for number in range(8):
        writer = spark.session.range(1).write.format("delta").mode("append")
        writer.option("txnAppId", f'w{number % 3} ü"').option("txnVersion", str(number)).save(table)
    spark.sql(table, "DELETE FROM $t WHERE id = 7", "OPTIMIZE $t", "INSERT INTO $t VALUES (1)")


@add("multi-part")
def multi_part(spark: Spark, table: str) -> None:
    """A checkpoint in three parts."""
    spark.session.range(7).repartition(7).write.format("delta").save(table)
    spark.sql(table, "DELETE FROM $t WHERE id < 2")
    with spark.conf({"checkpoint.partSize": "4"}):
        spark.checkpoint(table)
    spark.sql(table, "INSERT INTO $t VALUES (100)")


@add("manual-compaction")
def rewritten(spark: Spark, table: str) -> None:
    """Files that are written again without a change of data; an empty commit; a time without metrics."""
    spark.session.range(4).repartition(2).write.format("delta").save(table)
    frame = spark.session.read.format("delta").load(table).coalesce(1)
    frame.write.format("delta").mode("overwrite").option("dataChange", "false").save(table)
    with spark.conf({"history.metricsEnabled": "false"}):
        spark.sql(table, "INSERT INTO $t VALUES (7)", "INSERT INTO $t SELECT * FROM $t WHERE id > 1000")
    with spark.conf({"retentionDurationCheck.enabled": "false", "vacuum.parallelDelete.enabled": "false"}):
        spark.sql(table, "VACUUM $t RETAIN 0 HOURS")
    spark.sql(table, "INSERT INTO $t VALUES (8)")
