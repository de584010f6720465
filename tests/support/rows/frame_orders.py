"""A table of orders, statements that select rows for it, and what is there afterwards."""

from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from deltamirror import Table
from tests.support.spark.commands import Command, FrameLoad, FrameWrite

ORDERS = "id long not null, day date, amount double, `a.b` string"
"""The last column has a name that Spark takes for a field of a struct, unless it is told otherwise."""


def some(first: int, count: int, tasks: int) -> str:
    columns = "id, date_add(DATE'2024-05-01', int(id % 2)) day, id / 2 amount, concat('n', id) AS `a.b`"
    return f"SELECT {columns} FROM range({first}, {first + count}, 1, {tasks})"


def frame_rows(first: int, count: int) -> pa.Table:
    """The same rows as Arrow data."""
    numbers = range(first, first + count)
    days = [date(2024, 5, 1) + timedelta(days=number % 2) for number in numbers]
    names = [f"n{number}" for number in numbers]
    return pa.table({"id": list(numbers), "day": days, "amount": [number / 2 for number in numbers], "a.b": names})


def ids(table: Table) -> list[int]:
    found: list[int] = table.to_arrow("id").column(0).to_pylist()
    return sorted(found)


def data_files(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*.parquet") if "_delta_log" not in path.parts}


def committed(table: Table) -> set[str]:
    return {add.path.rpartition("/")[2] for add in table.snapshot().adds()}


def assert_format_works(run: Callable[[Command], Any], orders: Table, url: str) -> None:
    """Rows are saved, and loaded at a version and by a filter; a bad row is told."""
    saved = FrameWrite(catalog=url, frames={"orders": some(0, 20, tasks=2)}, is_saved=True)
    assert run(saved) == {"orders": 1}
    assert ids(orders) == list(range(20))
    where = "day = DATE'2024-05-01' AND amount > 4 AND `a.b` <> 'n12'"
    found = run(FrameLoad(catalog=url, table="orders", options={"versionAsOf": "1"}, where=where))
    assert found.sort_by("id") == orders.to_arrow(filter=where).sort_by("id")
    bad = some(0, 4, tasks=2).replace("SELECT id,", "SELECT nullif(id, 3) AS id,")
    told = run(FrameWrite(catalog=url, frames={"orders": bad}, is_saved=True))
    assert "'id' is NOT NULL" in told
    assert orders.info().head == 1
