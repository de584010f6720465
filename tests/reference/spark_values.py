"""What Delta Lake on Spark is asked to do: types, values, statistics and partitions."""

from tests.reference.history import Histories
from tests.reference.spark_session import Spark

VALUES: Histories[Spark] = Histories()
add = VALUES.add

EVERY_TYPE = """
    b TINYINT, s SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, bo BOOLEAN, bin BINARY, da DATE, ts TIMESTAMP,
    ntz TIMESTAMP_NTZ, dec5 DECIMAL(5,2), dec18 DECIMAL(18,0), dec38 DECIMAL(38,10), str STRING,
    ar ARRAY<INT>, ma MAP<STRING, DECIMAL(10,5)>, st STRUCT<x: INT, y: STRUCT<z: STRING, w: DATE>>,
    deep ARRAY<MAP<STRING, STRUCT<q: ARRAY<TIMESTAMP>>>>
"""
NULLS = "INSERT INTO $t (b) VALUES (NULL)"
ROWS = [
    """(-128Y, -32768S, -2147483648, -9223372036854775808L, CAST('-Infinity' AS FLOAT), -1.7976931348623157E308D, false,
    X'00FF', DATE'0001-01-01', TIMESTAMP'0001-01-01 00:00:00', TIMESTAMP_NTZ'0001-01-01 00:00:00.000001', -999.99,
    -999999999999999999, -1234567890123456789012345678.0000000001, '', array(1, NULL), map('k', 1.5), NULL, NULL)""",
    """(127Y, 32767S, 2147483647, 9223372036854775807L, CAST(3.4028235E38 AS FLOAT), 4.9E-324D, true, X'',
    DATE'9999-12-31', TIMESTAMP'9999-12-31 23:59:59.999999', TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', 999.99,
    999999999999999999, 0.0000000001, 'ü "quoted" \\\\ \\t\\n \\u0001 漢 😀 </script>', array(), map(),
    named_struct('x', 1, 'y', named_struct('z', 'in', 'w', DATE'2024-02-29')),
    array(map('a', named_struct('q', array(now())))))""",
    """(0Y, 0S, 0, 0L, CAST(-0.0 AS FLOAT), CAST('NaN' AS DOUBLE), NULL, NULL, DATE'1969-12-31',
    TIMESTAMP'1969-12-31 23:59:59.999', TIMESTAMP_NTZ'2024-07-01 12:34:56.7', 0.00, 7, 100.5, repeat('long ', 20),
    NULL, NULL, named_struct('x', NULL, 'y', NULL), NULL)""",
    """(1Y, 1S, 1, 1L, CAST(0.1 AS FLOAT), 1.0E7D, true, X'01', DATE'2024-02-29', TIMESTAMP'2024-03-31 02:30:00.123456',
    TIMESTAMP_NTZ'2024-03-31 02:30:00', 1.50, 1, 1.1, concat(repeat('z', 31), '😀 after the cut'), NULL,
    NULL, NULL, NULL)""",
]
INSERTS = [*(f"INSERT INTO $t VALUES {row}" for row in ROWS), NULLS]


@add("types")
def types(spark: Spark, table: str) -> None:
    """Every type with its extremes in statistics, as text in checkpoints."""
    properties = "'delta.checkpoint.writeStatsAsStruct' = 'false', 'delta.enableDeletionVectors' = 'false'"
    spark.sql(table, f"CREATE TABLE $t ({EVERY_TYPE}) USING delta TBLPROPERTIES ({properties})", *INSERTS)
    spark.checkpoint(table)


@add("typed-statistics")
def typed_statistics(spark: Spark, table: str) -> None:
    """The same with typed statistics in checkpoints beside the texts, and then instead of them."""
    properties = "'delta.checkpoint.writeStatsAsStruct' = 'true'"
    # Java spells the smallest number with a digit more than it needs, which no reader of the typed one can know.
    inserts = (statement.replace("4.9E-324D", "2.2250738585072014E-308D") for statement in INSERTS)
    spark.sql(table, f"CREATE TABLE $t ({EVERY_TYPE}) USING delta TBLPROPERTIES ({properties})", *inserts)
    spark.checkpoint(table)
    spark.sql(table, "ALTER TABLE $t SET TBLPROPERTIES ('delta.checkpoint.writeStatsAsJson' = 'false')")
    spark.checkpoint(table)
    spark.sql(table, "INSERT INTO $t (i) VALUES (5)")


PARTITIONS = {
    "by": "TINYINT",
    "sh": "SMALLINT",
    "i": "INT",
    "l": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "bo": "BOOLEAN",
    "bin": "BINARY",
    "da": "DATE",
    "ts": "TIMESTAMP",
    "ntz": "TIMESTAMP_NTZ",
    "dc": "DECIMAL(10,3)",
    "st": "STRING",
}


@add("partition-types")
def partition_types(spark: Spark, table: str) -> None:
    """Every type as a partition column, null too; typed in checkpoints."""
    columns = ", ".join(f"{name} {kind}" for name, kind in PARTITIONS.items())
    spark.sql(
        table,
        f"CREATE TABLE $t (id INT, {columns}) USING delta PARTITIONED BY ({', '.join(PARTITIONS)})"
        " TBLPROPERTIES ('delta.checkpoint.writeStatsAsStruct' = 'true')",
        "INSERT INTO $t VALUES (1, -1Y, 2S, 3, 4L, CAST(1.5 AS FLOAT), 1.0E10D, true, X'4142', DATE'2024-02-29',"
        " TIMESTAMP'2024-07-01 12:34:56.789', TIMESTAMP_NTZ'2024-07-01 00:00:00', 1.500, 'a/b %ü')",
        "INSERT INTO $t (id) VALUES (2)",
        "INSERT INTO $t VALUES (3, 1Y, 2S, 3, 4L, CAST(-0.0 AS FLOAT), CAST('NaN' AS DOUBLE), false, X'',"
        " DATE'0001-01-01', TIMESTAMP'1969-12-31 23:59:59.999999', TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', -7, '')",
    )
    spark.checkpoint(table)
    spark.sql(table, "DELETE FROM $t WHERE id = 1")


@add("zone-los-angeles")
def zone(spark: Spark, table: str) -> None:
    """Times in statistics and partitions of a session far from UTC."""
    with spark.conf({"spark.sql.session.timeZone": "America/Los_Angeles"}):
        spark.sql(
            table,
            "CREATE TABLE $t (id INT, ts TIMESTAMP, n TIMESTAMP_NTZ, p TIMESTAMP) USING delta PARTITIONED BY (p)",
            "INSERT INTO $t VALUES (1, TIMESTAMP'2024-07-01 00:00:00.123', TIMESTAMP_NTZ'2024-01-01 00:00:00',"
            " TIMESTAMP'2024-11-03 01:30:00')",
            "INSERT INTO $t VALUES (2, TIMESTAMP'1800-01-01 00:00:00', NULL, NULL)",
        )
        with spark.conf({"write.utcTimestampPartitionValues": "false"}):
            time = "TIMESTAMP'2024-12-24 20:00:00'"
            spark.sql(table, f"INSERT INTO $t VALUES (3, {time}, NULL, {time})")
    # A partition value without a zone is read in that of the session.
    spark.checkpoint(table)


@add("indexed-columns")
def indexed_columns(spark: Spark, table: str) -> None:
    """Statistics of some columns only, and files without any."""
    spark.sql(
        table,
        "CREATE TABLE $t (a INT, b STRING, c STRUCT<d: INT, e: INT>) USING delta"
        " TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'b,c.e', 'delta.checkpointInterval' = '4')",
        "INSERT INTO $t VALUES (1, 'x', named_struct('d', 1, 'e', 2))",
        "ALTER TABLE $t UNSET TBLPROPERTIES ('delta.dataSkippingStatsColumns')",
        "INSERT INTO $t VALUES (1, 'x', named_struct('d', 1, 'e', 2))",
        "ALTER TABLE $t SET TBLPROPERTIES ('delta.dataSkippingNumIndexedCols' = '0')",
        "INSERT INTO $t VALUES (2, 'y', NULL)",
    )
    with spark.conf({"stats.collect": "false"}):
        spark.sql(table, "INSERT INTO $t VALUES (3, 'z', NULL)")
    spark.checkpoint(table)


@add("nested")
def nested(spark: Spark, table: str) -> None:
    """Names that want escapes, deep structures, fields that must not be null, and comments."""
    spark.sql(
        table,
        "CREATE TABLE $t (`a.b` INT, `ü \"q\"` STRING, `order` STRUCT<`x y`: INT NOT NULL COMMENT 'in \\'it\\'',"
        " m: MAP<INT, ARRAY<STRUCT<k: BINARY>>>> NOT NULL) USING delta"
        " TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "INSERT INTO $t VALUES (1, 'x', named_struct('x y', 1, 'm', map(1, array(named_struct('k', X'01')))))",
    )
    spark.checkpoint(table)
