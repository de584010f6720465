"""Merges that Spark joins, since their source is large, come to the same as merges in one process."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamirror import Catalog, Delete, Insert, Table, Update
from deltamirror.errors import InvalidInput, Transient
from tests.support.readers.reader import Reader
from tests.support.readers.rows import row_texts
from tests.support.spark.commands import LargeMerges

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.requirement("R89")]

SCHEMA = "id long, p string, f double, at timestamp, n struct<`a.b`: long>"
ARROW = pa.schema(
    [
        ("id", pa.int64()),
        ("p", pa.string()),
        ("f", pa.float64()),
        ("at", pa.timestamp("us", "UTC")),
        ("n", pa.struct([("a.b", pa.int64())])),
    ]
)
FLOATS = (float("nan"), 0.0, -0.0, None, 1.5)
FEED = {"delta.enableChangeDataFeed": "true"}
TRACKED = {"delta.enableRowTracking": "true", "delta.columnMapping.mode": "name"}


@dataclass(frozen=True)
class Case:
    """A merge of some rows into rows 0 to 39, four of them a file."""

    given: dict[str, Any]
    ids: list[int]
    properties: dict[str, str] = field(default_factory=dict)


CASES = {
    "all clauses": Case(
        {
            "on": "target.id = source.id AND (source.f > 0 OR target.p = 'p0')",
            "matched": [Delete("source.id = 6"), Update({"f": "source.f + 1", "p": "target.p"})],
            "not_matched": [Insert(where="source.id > 40")],
            "not_matched_by_source": [Delete("target.id < 2"), Update({"p": "'gone'"}, "target.id > 30")],
        },
        [0, 3, 6, 9, 14, 19, 39, 40, 41, 44],
        TRACKED,
    ),
    "odd keys": Case(
        {"on": ["f", "at"], "not_matched": Insert(), "matched": Delete("source.id >= 100")},
        [1, 3, 4, 100, 122, 123],
        FEED,
    ),
    "fields": Case(
        {
            "on": "target.n.`a.b` + 1 = source.n.`a.b` AND source.at > target.at",
            "matched": Update({"p": "source.p"}),
            "not_matched": Insert(),
        },
        [1, 5, 38, 39, 40, 55],
    ),
    "only inserts": Case({"on": ["id"], "not_matched": Insert()}, [38, 39, 40, 41]),
    "twice": Case({"on": ["id"], "matched": Delete()}, [7, 7, 8, 60]),
    "nothing": Case({"on": ["id"], "matched": Update()}, [70, 80]),
}


def rows(ids: list[int]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "id": number,
                "p": None if number % 11 == 5 else f"p{number % 3}",
                "f": FLOATS[number % 5],
                "at": datetime(2026, 11, 1 + number % 4, tzinfo=UTC),
                "n": {"a.b": number},
            }
            for number in ids
        ],
        ARROW,
    )


def made(catalog: Catalog, name: str, folder: Path, properties: dict[str, str]) -> Table:
    table = catalog.create_table(name, location=folder / name, schema=SCHEMA, partition_by=["p"], properties=properties)
    for start in range(0, 40, 8):
        table.append(rows(list(range(start, start + 8))))
    return table


def outcome(table: Table) -> tuple[list[Any], dict[str, str]]:
    """The rows, and the counts of the merge that do not depend on where files end."""
    metrics = table.history()[0].metrics
    counts = {name: value for name, value in metrics.items() if "Rows" in name and "Bytes" not in name}
    return sorted(row_texts(table.to_arrow().to_pylist())), counts


def changes(folder: Path) -> list[Any]:
    """The rows of the change data feed, without their partition column."""
    files = sorted((folder / "_change_data").rglob("*.parquet"))
    return sorted(row_texts([row for file in files for row in pq.ParquetFile(file).read().to_pylist()]))


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("all clauses", "odd keys"), id="first"),
        pytest.param(("fields", "only inserts", "twice", "nothing"), id="others", marks=pytest.mark.elsewhere),
    ],
)
def test_spark_joins_a_large_source_with_the_same_outcome(
    sqlite_lake: str, tmp_path: Path, delta_spark: Reader, names: Sequence[str]
) -> None:
    with Catalog(sqlite_lake) as catalog:
        pairs, merges = {}, {}
        for number, (name, case) in enumerate((name, CASES[name]) for name in names):
            pq.write_table(rows(case.ids), tmp_path / f"{number}.parquet")
            here, there = (made(catalog, f"{side}{number}", tmp_path, case.properties) for side in ("here", "there"))
            here.merge(rows(case.ids), **case.given)
            pairs[name] = here, there
            merges[there.name] = {**case.given, "source": f"SELECT * FROM parquet.`{tmp_path}/{number}.parquet`"}
        delta_spark.run(LargeMerges(catalog=sqlite_lake, merges=merges))
        for name, (here, there) in pairs.items():
            assert there.info().head == here.info().head, name
            assert outcome(there) == outcome(here), name
            one, other = (changes(tmp_path / each.name) for each in (here, there))
            assert one == other, name
            assert bool(one) == (CASES[name].properties == FEED), name


def test_two_rows_of_a_large_source_for_one_row_are_refused_and_leave_no_file(
    sqlite_lake: str, tmp_path: Path, delta_spark: Reader
) -> None:
    pq.write_table(rows([3, 20, 20, 50]), tmp_path / "source.parquet")
    with Catalog(sqlite_lake) as catalog:
        table = made(catalog, "t", tmp_path, {})
        files = {path.name for path in (tmp_path / "t").rglob("*.parquet")}
        given = {
            "source": f"SELECT * FROM parquet.`{tmp_path}/source.parquet`",
            "on": ["id"],
            "matched": Update(),
            "not_matched": Insert(),
        }
        error = delta_spark.run(LargeMerges(catalog=sqlite_lake, merges={"t": given}))
        assert isinstance(error, InvalidInput)
        assert "2 rows of the source match the row with id = 20" in str(error)
        assert {path.name for path in (tmp_path / "t").rglob("*.parquet")} == files
        assert table.info().head == 5


def test_rows_of_a_large_source_that_spark_computes_again_are_neither_lost_nor_doubled(
    sqlite_lake: str, tmp_path: Path, delta_spark: Reader
) -> None:
    given = {
        "source": "SELECT id * 10 + id % 2 AS id, 'p0' AS p, 1.0D AS f FROM range(0, 400, 1, 4)",
        "on": ["id"],
        "matched": Update({"p": "source.p"}),
        "not_matched": Insert({"id": "source.id", "p": "source.p"}),
    }
    with Catalog(sqlite_lake) as catalog:
        tables = [catalog.create_table(name, location=tmp_path / name, schema="id long, p string") for name in "ab"]
        for table in tables:
            table.append(pa.table({"id": [number * 10 for number in range(400)]}))
        assert delta_spark.run(LargeMerges(catalog=sqlite_lake, merges={"a": given}, loses="cache")) == {"a": 2}
        assert sorted(tables[0].to_arrow(filter="p = 'p0'")["id"].to_pylist()) == [
            number * 10 + number % 2 for number in range(400)
        ]
        assert len(tables[0].to_arrow()) == 600
        files = {path.name for path in (tmp_path / "b").rglob("*.parquet")}
        error = delta_spark.run(LargeMerges(catalog=sqlite_lake, merges={"b": given}, loses="blocks"))
        assert isinstance(error, Transient)
        assert tables[1].info().head == 1
        assert {path.name for path in (tmp_path / "b").rglob("*.parquet")} == files
