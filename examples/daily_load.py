"""A daily task as a scheduler runs it (Airflow, cron): idempotent, and without Spark.

    python examples/daily_load.py sqlite:///lake.db lake 2026-11-16

A scheduler repeats what failed, and what it believes to have failed. The token names the run, so a repeated run answers
with the version of the first; the day is overwritten, so a run that is corrected replaces what it wrote.
"""

import sys
from datetime import date

import pyarrow as pa

from deltamirror import Catalog

TABLE, SCHEMA = "weather", "day date, city string, celsius double"


def extract(day: date) -> pa.Table:
    """The rows of a day, from wherever they come."""
    rows = {"day": [day, day], "city": ["Kyiv", "Lima"], "celsius": [4.5, 19.0]}
    return pa.table(rows, pa.schema([("day", pa.date32()), ("city", pa.string()), ("celsius", pa.float64())]))


def load(catalog: Catalog, rows: pa.Table, day: date, *, attempt: str = "first") -> int:
    """Put the rows in the place of the day's; the version that has them."""
    table = catalog.table(TABLE)
    committed = table.overwrite(rows, replace_where=f"day = '{day}'", token=f"{TABLE}-{day}-{attempt}")
    return committed.versions[TABLE]


def main(url: str, lake: str, day: str) -> int:
    """One run of the task."""
    logical_date = date.fromisoformat(day)
    with Catalog(url) as catalog:
        catalog.init()
        if TABLE not in {table.name for table in catalog.tables()}:
            catalog.create_table(TABLE, location=f"{lake}/{TABLE}", schema=SCHEMA, partition_by=["day"])
        return load(catalog, extract(logical_date), logical_date)


if __name__ == "__main__":
    print(f"{TABLE} has the rows of {sys.argv[3]} since version {main(*sys.argv[1:])}")
