"""Drivers that edit the same rows at once, on PostgreSQL: outcomes are those that Delta's conflict matrix allows."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from deltamirror import Catalog
from tests.support.rows.racers import race

pytestmark = [pytest.mark.postgres, pytest.mark.requirement("R89"), pytest.mark.requirement("R36")]

DRIVERS, ROUNDS = 2, 3
REREAD = {"concurrent-append", "concurrent-delete-read", "concurrent-delete-delete"}
"""What Delta Lake says to a writer whose rows were rewritten by another one."""


def test_two_drivers_lose_no_edit_and_conflict_where_delta_does(postgres_url: str, tmp_path: Path) -> None:
    parts = ["shared", "merged", *(f"own-{driver}" for driver in range(DRIVERS))]
    with Catalog(postgres_url) as catalog:
        catalog.init()
        for name in ("a", "b"):
            table = catalog.create_table(name, location=tmp_path / name, schema="n long, p string", partition_by=["p"])
            table.append(pa.table({"n": [0] * len(parts), "p": parts}))
        told = race(postgres_url, DRIVERS, ROUNDS)
        done = sum(map(Counter, told), Counter())
        for name in ("a", "b"):
            rows = catalog.table(name).to_arrow().to_pylist()
            counts = {row["p"]: row["n"] for row in rows if row["p"] != "appended"}
            # Blind appends, and edits of different partitions, never conflict; of two edits of the same rows one wins.
            assert sum(row["p"] == "appended" for row in rows) == done["append"] == DRIVERS * ROUNDS
            assert all(counts[f"own-{driver}"] == ROUNDS for driver in range(DRIVERS))
            assert (counts["shared"], counts["merged"]) == (done["update"], done["merge"])
        assert done["update"] == done["merge"] == ROUNDS
        assert {kind.partition(": ")[2] for kind in done if ":" in kind} <= REREAD
        assert catalog.table("a").info().head == catalog.table("b").info().head == 1 + 2 * (DRIVERS + 1) * ROUNDS
