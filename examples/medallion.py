"""Bronze, silver and gold from one batch of events, in one commit: a reader of SQL sees all three tables move, or none.

    python examples/medallion.py sqlite:///lake.db lake

Run again with the same batch it changes nothing: the batch is the token of its transaction.
"""

import sys
from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from deltamirror import Catalog

TABLES = {
    "bronze.events": ("id long, user string, day date, amount string, batch string", ["day"]),
    "silver.payments": ("id long, user string, day date, amount decimal(12,2)", ["day"]),
    "gold.daily": ("day date, users long, total decimal(22,2)", ["day"]),
}


def create_tables(catalog: Catalog, lake: str) -> None:
    """Create what is not there yet."""
    known = {table.name for table in catalog.tables()}
    for name, (schema, partitions) in TABLES.items():
        if name not in known:
            catalog.create_table(
                name, location=f"{lake}/{name.replace('.', '/')}", schema=schema, partition_by=partitions
            )


def load(catalog: Catalog, events: DataFrame, *, batch: str, day: date) -> dict[str, int]:
    """Take the events of a day in: raw, cleaned, and summed up. The versions that the tables have then."""
    raw = events.withColumn("batch", f.lit(batch)).cache()  # three jobs read it
    payments = raw.select("id", "user", "day", f.expr("try_cast(amount AS DECIMAL(12,2)) AS amount")).dropna()
    daily = payments.groupBy("day").agg(f.count_distinct("user").alias("users"), f.sum("amount").alias("total"))
    this_day = f"day = '{day}'"
    with catalog.transaction(token=f"events-{batch}") as tx:
        tx.append("bronze.events", raw)
        tx.overwrite("silver.payments", payments, replace_where=this_day)
        tx.overwrite("gold.daily", daily, replace_where=this_day)
    raw.unpersist()
    return dict(tx.result.versions)


def main(spark: SparkSession, url: str, lake: str) -> dict[str, int]:
    """Load one day, twice: the second time is answered with the versions of the first."""
    day = date(2026, 11, 16)
    rows = [(1, "ada", day, "9.50"), (2, "bob", day, "20.00"), (3, "ada", day, "twelve")]
    events = spark.createDataFrame(rows, "id long, user string, day date, amount string")
    with Catalog(url) as catalog:
        catalog.init()
        create_tables(catalog, lake)
        versions = load(catalog, events, batch="2026-11-16", day=day)
        if load(catalog, events, batch="2026-11-16", day=day) != versions:
            raise AssertionError("a batch was loaded twice")
    return versions


if __name__ == "__main__":
    print(main(SparkSession.builder.getOrCreate(), *sys.argv[1:]))
