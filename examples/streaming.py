"""A stream whose batches go to two tables at once, each exactly once, however often the query is restarted.

    python examples/streaming.py sqlite:///lake.db lake incoming

Spark repeats a batch whose end it did not write down. The transaction records the batch in both tables with its rows,
so a batch that is repeated is found to be applied, and nothing of it is written again.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from deltamirror import Catalog

TABLES = ("clicks", "purchases")
SCHEMA = "id long, kind string"
QUERY = "clicks-and-purchases"


def into_both(url: str) -> Callable[[DataFrame, int], None]:
    """What is done with each batch of the stream: with Spark Connect, in a process of the server."""

    def write(batch: DataFrame, number: int) -> None:
        with Catalog(url) as catalog, catalog.transaction() as tx:
            for table in TABLES:
                tx.set_transaction(table, QUERY, number)
            tx.append("clicks", batch.where("kind = 'click'"))
            tx.append("purchases", batch.where("kind = 'purchase'"))

    return write


def main(spark: SparkSession, url: str, lake: str, incoming: str) -> dict[str, int]:
    """Take in the files that are there; the number of rows that each table has then."""
    with Catalog(url) as catalog:
        catalog.init()
        known = {table.name for table in catalog.tables()}
        for name in TABLES:
            if name not in known:
                catalog.create_table(name, location=f"{lake}/{name}", schema=SCHEMA)
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(incoming)
        query = stream.writeStream.foreachBatch(into_both(url)).option(
            "checkpointLocation", str(Path(lake) / "_checkpoints" / QUERY)
        )
        query.trigger(availableNow=True).start().awaitTermination()
        return {name: catalog.table(name).to_arrow("id").num_rows for name in TABLES}


if __name__ == "__main__":
    print(main(SparkSession.builder.getOrCreate(), *sys.argv[1:]))
