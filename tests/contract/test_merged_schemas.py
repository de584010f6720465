"""Rows that bring columns along: ``merge_schema`` changes the table in the commit that adds the rows."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from deltamirror import Catalog, Table
from deltamirror.errors import Conflict, InvalidAction, InvalidInput
from deltamirror.spark.options import SourceOptions
from tests.support.lakes.lake import add, info_of

pytestmark = pytest.mark.requirement("R31")

SCHEMA = "id int, s struct<x: int>, m map<string, struct<v: int>>"
FIRST = pa.table({"id": pa.array([1], pa.int32()), "s": pa.array([{"x": 1}], pa.struct([("x", pa.int32())]))})
MORE = pa.table(
    {
        "ID": pa.array([2], pa.int32()),
        "s": pa.array([{"y": "b"}], pa.struct([("y", pa.string())])),
        "note": ["new"],
    }
)


@pytest.fixture
def catalog(sqlite_lake: str) -> Iterator[Catalog]:
    with Catalog(sqlite_lake) as found:
        yield found


@pytest.fixture
def table(catalog: Catalog, tmp_path: Path) -> Table:
    made = catalog.create_table("t", location=tmp_path / "t", schema=SCHEMA)
    made.append(FIRST)
    return made


def data_files(table: Table) -> set[str]:
    return {path.name for path in Path(table.location.removeprefix("file://")).rglob("*.parquet")}


def test_columns_are_added_in_the_commit_of_the_rows(table: Table) -> None:
    assert table.append(MORE, merge_schema=True).versions == {"t": 2}
    assert table.to_arrow(["id", "s", "note"]).sort_by("id").to_pylist() == [
        {"id": 1, "s": {"x": 1, "y": None}, "note": None},
        {"id": 2, "s": {"x": None, "y": "b"}, "note": "new"},
    ]
    info = info_of(table, 2)
    assert (info["operation"], info["isBlindAppend"]) == ("WRITE", True)
    assert info["operationParameters"] == {"mode": "Append", "partitionBy": "[]", "canMergeSchema": True}
    assert info["operationMetrics"]["numOutputRows"] == "1"


def test_rows_that_bring_nothing_new_change_no_metadata(table: Table) -> None:
    metadata = table.snapshot().metadata
    table.append(FIRST, merge_schema=True)
    assert table.snapshot().metadata == metadata
    assert b"metaData" not in table.commit_file(2)


def test_an_overwrite_merges_too(table: Table) -> None:
    table.overwrite(MORE, merge_schema=True)
    assert table.to_arrow(["id", "note"]).to_pylist() == [{"id": 2, "note": "new"}]
    assert info_of(table, 2)["operationParameters"]["canMergeSchema"] is True


def test_two_lots_of_rows_of_one_transaction_share_the_columns_that_they_bring(catalog: Catalog, table: Table) -> None:
    table.alter(enable_column_mapping=True)
    with catalog.transaction() as tx:
        tx.append("t", MORE, merge_schema=True)
        tx.append("t", MORE.append_column("late", [[7]]), merge_schema=True)
    found = table.to_arrow(["note", "late"]).to_pylist()
    assert sorted((str(row["note"]), str(row["late"])) for row in found) == [
        ("None", "None"),
        ("new", "7"),
        ("new", "None"),
    ]


def test_types_are_widened_where_the_table_does_that(table: Table) -> None:
    wide = pa.table({"id": pa.array([2**40])})
    with pytest.raises(InvalidInput) as refused:
        table.append(wide, merge_schema=True)
    assert "'id' is integer, the data has int64" in refused.value.message
    assert "delta.enableTypeWidening" in refused.value.hint
    table.alter(properties={"delta.enableTypeWidening": True})
    table.append(wide, merge_schema=True)
    table.append(FIRST, merge_schema=True)
    assert sorted(table.to_arrow("id").column(0).to_pylist()) == [1, 1, 2**40]


def test_sent_again_with_its_token_it_is_committed_once(table: Table) -> None:
    first = table.append(MORE, merge_schema=True, token="load")
    again = table.append(MORE, merge_schema=True, token="load")
    assert (again.versions, again.already_applied) == (first.versions, True)


def test_without_it_the_error_names_the_column_and_the_option(table: Table) -> None:
    with pytest.raises(InvalidInput) as refused:
        table.append(MORE)
    assert "'note'" in refused.value.message or "'s.y'" in refused.value.message
    assert "merge_schema=True" in refused.value.hint
    assert table.info().head == 1


def test_a_change_of_the_table_meanwhile_is_a_conflict_and_leaves_no_file(catalog: Catalog, table: Table) -> None:
    before = data_files(table)
    tx = catalog.transaction()
    tx.append("t", MORE, merge_schema=True)
    table.alter(columns="other string")
    with pytest.raises(Conflict):
        tx.commit()
    assert data_files(table) == before


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (pa.table({"nothing": pa.nulls(1)}), "has no type"),
        (pa.table({"new": [1], "NEW": [2]}), "twice"),
        (pa.table({"time": pa.array([1], pa.time64("us"))}), "time64"),
        ([add("a.parquet")], "merge_schema is for rows"),
    ],
)
def test_data_that_no_column_can_be_made_of_is_refused(table: Table, data: object, error: str) -> None:
    with pytest.raises(InvalidInput, match=error) as refused:
        table.append(data, merge_schema=True)
    assert refused.value.hint
    assert table.info().head == 1


def test_a_field_inside_of_a_map_is_refused_by_the_rule_that_it_breaks(table: Table) -> None:
    kind = pa.map_(pa.string(), pa.struct([("v", pa.int32()), ("w", pa.int32())]))
    with pytest.raises(InvalidAction) as refused:
        table.append(pa.table({"m": pa.array([[("k", {"v": 1, "w": 2})]], kind)}), merge_schema=True)
    assert refused.value.rule == "metaData.change.map-fields"


def test_the_option_of_the_format_is_true_or_false() -> None:
    options = SourceOptions.of_write({"path": "t", "mergeschema": "TRUE"}, overwrite=False)
    assert options.merges_schema
    with pytest.raises(InvalidInput, match="mergeSchema has to be true or false"):
        SourceOptions.of_write({"path": "t", "mergeSchema": "perhaps"}, overwrite=False)
