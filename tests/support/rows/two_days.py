"""A table of orders of two days, and what is seen of its rows and files."""

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltamirror import Catalog, Table
from deltamirror.rows.scanning import TableFiles

SCHEMA = "id long not null, day date, amount decimal(10,2), note string, ok boolean"
FIRST, SECOND, THIRD = (date(2026, 11, day) for day in (16, 17, 18))


def two_days(catalog: Catalog, folder: Path) -> Table:
    """Two days of three rows, each day one file: the ids 1 to 3 and 4 to 6."""
    made = catalog.create_table("orders", location=folder, schema=SCHEMA, partition_by=["day"])
    for day, first in ((FIRST, 1), (SECOND, 4)):
        made.append(rows(*range(first, first + 3), day=day))
    return made


def rows(*ids: int, day: date | None = FIRST) -> pa.Table:
    """Every third row has no note, every second is ok."""
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "day": pa.array([day] * len(ids), pa.date32()),
            "amount": pa.array([Decimal(each) for each in ids], pa.decimal128(10, 2)),
            "note": pa.array([f"n{each}" if each % 3 else None for each in ids], pa.string()),
            "ok": [each % 2 == 0 for each in ids],
        }
    )


def ids(table: Table, **asked: Any) -> list[int]:
    """The ids of a table, in order."""
    return sorted(table.to_arrow("id", **asked).column("id").to_pylist())


def paths(table: Table) -> set[str]:
    """The files that are live."""
    return {add.path for add in table.snapshot().adds()}


def on_disk(folder: Path) -> set[str]:
    """The files that are there, live or not."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*.parquet")}


def opened_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The data files that are opened from here on."""
    found: list[str] = []
    source = TableFiles.source

    def counted(self: TableFiles, path: str, size: int) -> Any:
        found.append(path)
        return source(self, path, size)

    monkeypatch.setattr(TableFiles, "source", counted)
    return found
