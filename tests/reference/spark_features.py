"""What Delta Lake on Spark is asked to do: table features, and the kinds of checkpoints."""

from tests.reference.history import Histories
from tests.reference.spark_session import Spark

FEATURES: Histories[Spark] = Histories()
add = FEATURES.add


@add("feat", since="4.0")
def many_features(spark: Spark, table: str) -> None:
    """Deletion vectors, row tracking, in-commit timestamps, change data, mapped columns, clusters, V2 checkpoints."""
    properties = ", ".join(
        f"'delta.{name}' = '{value}'"
        for name, value in {
            "enableDeletionVectors": "true",
            "enableRowTracking": "true",
            "enableInCommitTimestamps": "true",
            "enableChangeDataFeed": "true",
            "columnMapping.mode": "name",
            "checkpointPolicy": "v2",
            "checkpointInterval": "2",
        }.items()
    )
    spark.sql(
        table,
        f"CREATE TABLE $t (id BIGINT, s STRING) USING delta CLUSTER BY (id) TBLPROPERTIES ({properties})",
        "INSERT INTO $t SELECT id, 's' FROM range(10)",
        "DELETE FROM $t WHERE id = 3",
        "UPDATE $t SET s = 'u' WHERE id = 4",
        "ALTER TABLE $t ADD CONSTRAINT c1 CHECK (id >= 0)",
        "OPTIMIZE $t",
        "MERGE INTO $t USING (SELECT 5L AS k UNION ALL SELECT 50L) ON id = k WHEN MATCHED THEN UPDATE SET s = 'm'"
        " WHEN NOT MATCHED THEN INSERT (id, s) VALUES (k, 'n')",
        "ALTER TABLE $t CLUSTER BY (s)",
        "INSERT INTO $t VALUES (7, 'late')",
    )


@add("row-tracking")
def row_tracking(spark: Spark, table: str) -> None:
    """Row ids of files that are copied, backfilled ones where the release can."""
    spark.sql(
        table,
        "CREATE TABLE $t (id BIGINT) USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true',"
        " 'delta.enableDeletionVectors' = 'false')",
        "INSERT INTO $t SELECT id FROM range(10)",
        "INSERT INTO $t SELECT id FROM range(5)",
        "UPDATE $t SET id = 100 WHERE id = 3",
        "OPTIMIZE $t",
        "INSERT INTO $t VALUES (1)",
    )


@add("row-tracking-later", since="4.0")
def row_tracking_later(spark: Spark, table: str) -> None:
    """Row ids that files get after they were written."""
    spark.sql(
        table,
        "CREATE TABLE $t (id BIGINT) USING delta",
        "INSERT INTO $t SELECT id FROM range(10)",
        "INSERT INTO $t SELECT id FROM range(3)",
        "ALTER TABLE $t SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
        "INSERT INTO $t VALUES (1)",
    )


@add("deletion-vectors")
def deletion_vectors(spark: Spark, table: str) -> None:
    """Vectors that replace each other, in partitions, with checkpoints, purged in the end."""
    spark.sql(
        table,
        "CREATE TABLE $t (id BIGINT, p BIGINT) USING delta PARTITIONED BY (p)"
        " TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '5')",
        "INSERT INTO $t SELECT id, id % 3 FROM range(30)",
        *(f"DELETE FROM $t WHERE id = {number}" for number in range(4)),
        "DELETE FROM $t WHERE p = 0",
        "UPDATE $t SET id = 77 WHERE id = 7",
        "REORG TABLE $t APPLY (PURGE)",
        "DELETE FROM $t WHERE id = 8",
        "RESTORE TABLE $t TO VERSION AS OF 3",
        "INSERT INTO $t VALUES (0, 0)",
    )


@add("timestamps-from-start")
def in_commit_timestamps(spark: Spark, table: str) -> None:
    """In-commit timestamps from version 0 on, switched off and on again."""
    spark.sql(
        table,
        "CREATE TABLE $t (id INT) USING delta TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
        "INSERT INTO $t VALUES (1)",
        "ALTER TABLE $t SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'false')",
        "INSERT INTO $t VALUES (2)",
        "ALTER TABLE $t SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
        "INSERT INTO $t VALUES (3)",
    )


@add("mapping-name")
def mapped_by_name(spark: Spark, table: str) -> None:
    """Columns that are renamed and dropped; one of the partition."""
    spark.sql(
        table,
        "CREATE TABLE $t (id INT, `a b` STRING, s STRUCT<x: INT, y: MAP<STRING, INT>>, p STRING) USING delta"
        " PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "INSERT INTO $t VALUES (1, 'v', named_struct('x', 1, 'y', map()), 'p/1')",
        "ALTER TABLE $t RENAME COLUMN `a b` TO `c,d`",
        "ALTER TABLE $t RENAME COLUMN p TO q",
        "ALTER TABLE $t DROP COLUMN s.y",
        "ALTER TABLE $t ADD COLUMNS (later ARRAY<STRUCT<k: INT>>)",
        "INSERT INTO $t VALUES (2, 'w', named_struct('x', 2), NULL, array(named_struct('k', 1)))",
        "ALTER TABLE $t DROP COLUMNS (id, later)",
    )
    spark.checkpoint(table)


@add("mapping-id")
def mapped_by_id(spark: Spark, table: str) -> None:
    """Mapped by id; with vectors and a checkpoint."""
    spark.sql(
        table,
        "CREATE TABLE $t (id INT, s STRUCT<x: INT, y: ARRAY<INT>>, ntz TIMESTAMP_NTZ) USING delta"
        " TBLPROPERTIES ('delta.columnMapping.mode' = 'id', 'delta.enableDeletionVectors' = 'true')",
        "INSERT INTO $t SELECT id, named_struct('x', 1, 'y', array(1)), TIMESTAMP_NTZ'2024-01-01 00:00:00'"
        " FROM range(9)",
        "DELETE FROM $t WHERE id = 1",
    )
    spark.checkpoint(table)


@add("mapping-later")
def mapped_later(spark: Spark, table: str) -> None:
    """A table that gets mapped columns after it had files: the protocol by version numbers, then by features."""
    spark.sql(
        table,
        "CREATE TABLE $t (id INT, p INT) USING delta PARTITIONED BY (p)",
        "INSERT INTO $t VALUES (1, 1)",
        "ALTER TABLE $t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2',"
        " 'delta.minWriterVersion' = '5')",
        "ALTER TABLE $t RENAME COLUMN id TO key",
        "INSERT INTO $t VALUES (2, NULL)",
        "ALTER TABLE $t SET TBLPROPERTIES ('delta.feature.deletionVectors' = 'supported')",
    )


@add("v2-json")
def v2_json(spark: Spark, table: str) -> None:
    """V2 checkpoints in JSON: without sidecars' actions, and with several sidecars."""
    spark.sql(table, "CREATE TABLE $t (id INT, p INT) USING delta TBLPROPERTIES ('delta.checkpointPolicy' = 'v2')")
    spark.checkpoint(table)
    spark.sql(table, *(f"INSERT INTO $t VALUES ({number}, 1)" for number in range(5)), "DELETE FROM $t WHERE id = 1")
    with spark.conf({"checkpoint.partSize": "3"}):
        spark.checkpoint(table)
    writer = spark.session.sql("SELECT 9 AS id, 1 AS p").write.format("delta").mode("append")
    writer.option("txnAppId", "a").option("txnVersion", "1").save(table)


@add("v2-parquet")
def v2_parquet(spark: Spark, table: str) -> None:
    """V2 checkpoints in Parquet, with transactions and domains."""
    with spark.conf({"checkpointV2.topLevelFileFormat": "parquet"}):
        spark.sql(
            table,
            "CREATE TABLE $t (id BIGINT, s STRING) USING delta CLUSTER BY (s)"
            " TBLPROPERTIES ('delta.checkpointPolicy' = 'v2', 'delta.enableRowTracking' = 'true')",
        )
        for number in range(4):
            writer = spark.session.sql("SELECT 1L AS id, 'x' AS s").write.format("delta").mode("append")
            writer.option("txnAppId", f"a{number % 2}").option("txnVersion", str(number)).save(table)
        with spark.conf({"checkpoint.partSize": "3"}):
            spark.checkpoint(table)
        spark.sql(table, "DELETE FROM $t WHERE true", "INSERT INTO $t VALUES (1, 'y')")
        spark.checkpoint(table)


@add("type-widening", since="3.3")
def type_widening(spark: Spark, table: str) -> None:
    """Types that grow, of nested fields and partitions too."""
    spark.sql(
        table,
        "CREATE TABLE $t (i INT, s STRUCT<b: TINYINT>, a ARRAY<SMALLINT>, m MAP<INT, FLOAT>, d DECIMAL(5,2), day DATE)"
        " USING delta TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        "INSERT INTO $t VALUES (1, named_struct('b', 1Y), array(1S), map(1, CAST(1 AS FLOAT)), 1.5, DATE'2024-01-01')",
        "ALTER TABLE $t ALTER COLUMN i TYPE BIGINT",
        "ALTER TABLE $t ALTER COLUMN s.b TYPE SMALLINT",
        "ALTER TABLE $t ALTER COLUMN s.b TYPE INT",
        "ALTER TABLE $t ALTER COLUMN a.element TYPE INT",
        "ALTER TABLE $t ALTER COLUMN m.value TYPE DOUBLE",
        "ALTER TABLE $t ALTER COLUMN d TYPE DECIMAL(10,3)",
        "INSERT INTO $t VALUES (9999999999, named_struct('b', 1), array(1), map(1, 1D), 1.555, DATE'2024-01-01')",
    )
    spark.checkpoint(table)


@add("identity", since="3.3")
def identity(spark: Spark, table: str) -> None:
    """Identity columns: a metaData with every append."""
    from delta.tables import DeltaTable, IdentityGenerator  # noqa: PLC0415  (comes with the jars)

    builder = DeltaTable.create(spark.session).location(table)
    builder.addColumn("k", "BIGINT", generatedAlwaysAs=IdentityGenerator(start=10, step=-2))
    builder.addColumn("by", "BIGINT", generatedByDefaultAs=IdentityGenerator()).addColumn("v", "STRING").execute()
    spark.sql(table, "INSERT INTO $t (v) VALUES ('a'), ('b')", "INSERT INTO $t (by, v) VALUES (100, 'c')")


@add("columns")
def generated_and_defaults(spark: Spark, table: str) -> None:
    """Generated columns, defaults, invariants, constraints."""
    from delta.tables import DeltaTable  # noqa: PLC0415  (comes with the jars)

    builder = DeltaTable.create(spark.session).location(table)
    builder.addColumn("ts", "TIMESTAMP", nullable=False, comment="when")
    builder.addColumn("day", "DATE", generatedAlwaysAs="CAST(ts AS DATE)").addColumn("v", "INT").partitionedBy("day")
    builder.execute()
    spark.sql(
        table,
        "INSERT INTO $t (ts, v) VALUES (TIMESTAMP'2024-01-01 12:00:00', 1)",
        "ALTER TABLE $t SET TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
        "ALTER TABLE $t ALTER COLUMN v SET DEFAULT 42",
        "ALTER TABLE $t ADD CONSTRAINT `odd name` CHECK (v > 0 AND \"x\" <> 'it''s')",
        "INSERT INTO $t (ts, v) VALUES (TIMESTAMP'2024-01-02 12:00:00', DEFAULT)",
        "ALTER TABLE $t ALTER COLUMN v DROP DEFAULT",
    )


@add("variant", since="4.0")
def variant(spark: Spark, table: str) -> None:
    """Variants, with a checkpoint."""
    spark.sql(
        table,
        "CREATE TABLE $t (id INT, v VARIANT, a ARRAY<VARIANT>) USING delta",
        """INSERT INTO $t SELECT 1, parse_json('{"a": 1}'), array(parse_json('1'))""",
        "INSERT INTO $t VALUES (2, NULL, NULL)",
    )
    spark.checkpoint(table)


@add("vacuum-protocol-check")
def vacuum_protocol_check(spark: Spark, table: str) -> None:
    """A feature that a VACUUM has to know."""
    spark.sql(
        table,
        "CREATE TABLE $t (id INT) USING delta TBLPROPERTIES ('delta.feature.vacuumProtocolCheck' = 'supported')",
        "INSERT INTO $t VALUES (1)",
        "VACUUM $t",
    )


@add("drop-feature", since="4.0")
def drop_feature(spark: Spark, table: str) -> None:
    """Features that are dropped: tombstones of vectors, empty commits, protection of checkpoints."""
    spark.sql(
        table,
        "CREATE TABLE $t (id INT) USING delta CLUSTER BY (id) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true',"
        " 'delta.columnMapping.mode' = 'name')",
        "INSERT INTO $t SELECT id FROM range(5)",
        "DELETE FROM $t WHERE id = 1",
        "ALTER TABLE $t CLUSTER BY NONE",
        "ALTER TABLE $t DROP FEATURE deletionVectors",
        "ALTER TABLE $t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none')",
    )


@add("iceberg-compat", since="3.3")
def iceberg_compat(spark: Spark, table: str) -> None:
    """A table that Iceberg could read: ids of nested fields in its schema."""
    spark.sql(
        table,
        "CREATE TABLE $t (id INT, a ARRAY<STRUCT<k: MAP<STRING, INT>>>) USING delta"
        " TBLPROPERTIES ('delta.enableIcebergCompatV2' = 'true', 'delta.columnMapping.mode' = 'name')",
        "INSERT INTO $t VALUES (1, array(named_struct('k', map('x', 1))))",
    )


@add("clustered", since="4.0")
def clustered(spark: Spark, table: str) -> None:
    """Clusters without other features: files with tags and a provider."""
    spark.sql(
        table,
        "CREATE TABLE $t (a INT, b STRING) USING delta CLUSTER BY (a, b)",
        *(f"INSERT INTO $t VALUES ({number}, 'x')" for number in range(3)),
        "OPTIMIZE $t",
        "ALTER TABLE $t CLUSTER BY (b)",
        "OPTIMIZE $t FULL",
    )
    spark.checkpoint(table)
