"""Rows of orders, by the day."""

from datetime import date

import pyarrow as pa

ORDERS = "id long not null, day date, amount double, note string"
DAY, NEXT = date(2024, 5, 1), date(2024, 5, 2)


def orders(*ids: int, day: date | None = DAY) -> pa.Table:
    """One row for each id."""
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "day": pa.array([day] * len(ids), pa.date32()),
            "amount": [each / 2 for each in ids],
            "note": [f"n{each}" for each in ids],
        }
    )


def ids(found: pa.Table) -> list[int]:
    """The ids of rows, in order."""
    return sorted(found.column("id").to_pylist())
