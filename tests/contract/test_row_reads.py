"""Rows read by Arrow: the rows of a filter, by the files that can have them, of any version."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltamirror import Catalog, Table
from deltamirror.errors import InvalidInput, NotFound
from tests.support.rows.orders import DAY, NEXT, ORDERS, ids, orders
from tests.support.rows.two_days import opened_files

pytestmark = pytest.mark.requirement("R89")


@pytest.fixture
def table(lake: Catalog, tmp_path: Path) -> Table:
    return lake.create_table("orders", location=tmp_path / "orders", schema=ORDERS, partition_by=["day"])


@pytest.fixture
def filled(table: Table) -> Table:
    for day, first in ((DAY, 0), (NEXT, 10), (None, 20)):
        table.append(orders(*range(first, first + 10), day=day))
    return table


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("day = '2024-05-01' AND id >= 8", [8, 9]),
        ("day IS NULL AND NOT (id < 28)", [28, 29]),
        ("id IN (3, 13, 99) OR note = 'n25'", [3, 13, 25]),
        ("id BETWEEN 9 AND 11", [9, 10, 11]),
        ("day <> DATE '2024-05-01' AND amount <= 5.5", [10, 11]),
        ("`id` NOT IN (1, 2) AND day = '2024-05-01' AND note IS NOT NULL AND id < 4", [0, 3]),
        (pc.field("id") == 15, [15]),
        (pc.field("day").is_null() & (pc.field("amount") > 14), [29]),
    ],
)
def test_a_filter_finds_its_rows(filled: Table, condition: object, wanted: list[int]) -> None:
    assert ids(filled.to_arrow("id", filter=condition)) == wanted


@pytest.mark.parametrize(
    ("condition", "opened"),
    [
        ("id = 15", 1),
        ("day = '2024-05-02'", 1),
        ("id > 100", 0),
        ("amount < 5", 1),
        ("note >= 'n29'", 2),
        ("id > 5", 3),
    ],
)
def test_files_that_statistics_exclude_are_not_opened(
    filled: Table, monkeypatch: pytest.MonkeyPatch, condition: str, opened: int
) -> None:
    found = opened_files(monkeypatch)
    filled.to_arrow("id", filter=condition)
    assert len(found) == opened


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"columns": "nix"}, "has no column 'nix'"),
        ({"filter": "nix = 1"}, "there is no column 'nix'"),
        ({"filter": "id = 'x'"}, "'x' is no value of 'id', which is long"),
        ({"filter": "day = 5"}, "a value of date is expected"),
        ({"filter": "id = 1 AND"}, "a column is expected"),
        ({"filter": "(id = 1"}, r"'\)' is expected"),
        ({"filter": "id ~ 1"}, "is not expected"),
        ({"filter": pc.field("nix") == 1}, "cannot be filtered"),
        ({"filter": 5}, "filter has to be a condition"),
        ({"columns": 5}, "columns"),
    ],
)
def test_a_wrong_question_is_refused(filled: Table, asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        filled.to_arrow(**asked)


def test_old_versions_are_read_by_number_and_by_time(filled: Table) -> None:
    assert ids(filled.to_arrow(version=1)) == list(range(10))
    assert ids(filled.to_arrow(as_of=filled.snapshot(2).timestamp)) == list(range(20))


def test_a_snapshot_of_tables_holds_while_others_commit(lake: Catalog, table: Table, tmp_path: Path) -> None:
    daily = lake.create_table("daily", location=tmp_path / "daily", schema="id long")
    with lake.transaction() as tx:
        tx.append("orders", orders(1))
        tx.append("daily", pa.table({"id": [1]}))
    cut = lake.snapshot(["orders", "daily"])
    daily.overwrite(pa.table({"id": [2]}))
    table.append(orders(2))
    assert cut.versions == {"orders": 1, "daily": 1}
    assert (ids(cut.to_arrow("orders")), ids(cut.to_arrow("daily"))) == ([1], [1])
    with pytest.raises(NotFound, match="is not part of this snapshot"):
        cut.scan("other")
    with pytest.raises(NotFound, match="there is no table 'other'"):
        lake.snapshot(["orders", "other"])


def test_a_missing_data_file_is_reported_by_name(filled: Table, tmp_path: Path) -> None:
    next((tmp_path / "orders").rglob("*.parquet")).unlink()
    with pytest.raises(NotFound, match="a data file is missing"):
        filled.to_arrow()


def test_a_file_that_changed_its_place_in_the_table_is_reported_by_name(table: Table, tmp_path: Path) -> None:
    table.append(orders(1))
    [add] = table.snapshot().adds()
    (tmp_path / "orders" / add.path).write_bytes(b"no parquet")
    with pytest.raises(InvalidInput, match="a data file cannot be read"):
        table.to_arrow()
