"""DuckDB and Sail as writers of reference logs: both append to tables, Sail also makes them."""

import duckdb
import pyarrow as pa
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from tests.reference.history import Histories

DUCKDB: Histories[duckdb.DuckDBPyConnection] = Histories()
SAIL: Histories[SparkSession] = Histories()


@DUCKDB.add("appends")
def duckdb_appends(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    """Appends to a table that delta-rs made: DuckDB makes none."""
    write_deltalake(table, pa.table({"id": pa.array([1], pa.int64()), "s": ["ü"]}))
    connection.execute(f"ATTACH '{table}' AS t (TYPE delta)")
    connection.execute("INSERT INTO t VALUES (2, 'a'), (3, NULL)")
    connection.execute("BEGIN; INSERT INTO t VALUES (4, 'b'); INSERT INTO t VALUES (5, 'c'); COMMIT")
    connection.execute("DETACH t")


@SAIL.add("operations")
def sail_operations(session: SparkSession, table: str) -> None:
    """Write, append, overwrite, DELETE, MERGE."""
    frame = session.sql("SELECT id, CAST(id AS STRING) AS s, id % 2 AS p FROM range(4)")
    frame.write.format("delta").partitionBy("p").save(table)
    frame.write.format("delta").mode("append").save(table)
    frame.write.format("delta").mode("overwrite").save(table)
    session.sql(f"CREATE TABLE t USING delta LOCATION '{table}'")
    session.sql("DELETE FROM t WHERE id = 1").collect()
    session.sql(
        "MERGE INTO t USING (SELECT 2 AS k) AS s ON t.id = s.k WHEN MATCHED THEN UPDATE SET s = 'm'"
        " WHEN NOT MATCHED THEN INSERT (id, s, p) VALUES (k, 'n', 0)"
    ).collect()


@SAIL.add("types")
def sail_types(session: SparkSession, table: str) -> None:
    """Types with values."""
    session.sql(
        "SELECT 1Y AS b, 2S AS s, 3 AS i, 4L AS l, CAST(1.5 AS FLOAT) AS f, 2.5D AS d, true AS bo, 'ü \"q\"' AS st,"
        " X'00FF' AS bin, DATE'2024-02-29' AS da, TIMESTAMP'2024-02-29 12:00:00' AS ts,"
        " CAST(1.50 AS DECIMAL(10,2)) AS dc, array(1, 2) AS ar, named_struct('x', 1) AS st2, CAST(NULL AS INT) AS n"
    ).write.format("delta").save(table)
