"""Edits of a table with a change data feed: files of change data hold the rows as they were and as they are."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamirror import Catalog, Delete, Insert, Table, Update
from deltamirror.delta.validation import metadata
from deltamirror.errors import InvalidAction, InvalidInput, Refused
from tests.support.lakes.lake import add, info_of

pytestmark = pytest.mark.requirement("R89")

FEED = {"delta.enableChangeDataFeed": "true"}
ROWS = pa.table({"id": [1, 2, 3, 4], "p": ["a", "a", "b", "b"], "v": ["x", "y", "z", None]})


@pytest.fixture
def catalog(sqlite_lake: str) -> Iterator[Catalog]:
    with Catalog(sqlite_lake) as found:
        yield found


def made(catalog: Catalog, folder: Path, **properties: str) -> Table:
    table = catalog.create_table(
        "t",
        location=folder / "t",
        schema="id long, p string, v string",
        partition_by=["p"],
        properties={**FEED, **properties},
    )
    table.append(ROWS)
    return table


@pytest.fixture
def table(catalog: Catalog, tmp_path: Path) -> Table:
    return made(catalog, tmp_path)


def actions(table: Table, version: int, kind: str) -> list[dict[str, Any]]:
    return [found[kind] for found in map(json.loads, table.commit_file(version).splitlines()) if kind in found]


def changes(table: Table, version: int) -> list[tuple[Any, ...]]:
    """The change data of a version, as (type of change, id, p, v)."""
    root, found = Path(table.location.removeprefix("file://")), []
    for cdc in actions(table, version, "cdc"):
        rows = pq.ParquetFile(root / unquote(cdc["path"])).read().to_pylist()
        found += [(row["_change_type"], row["id"], cdc["partitionValues"]["p"], row["v"]) for row in rows]
    return sorted(found, key=str)


def files(table: Table) -> set[str]:
    return {path.name for path in Path(table.location.removeprefix("file://")).rglob("*.parquet")}


def test_a_delete_records_the_rows_that_go_also_of_files_that_go_whole(table: Table) -> None:
    table.delete("id >= 2 AND id <= 4")
    assert changes(table, 2) == [("delete", 2, "a", "y"), ("delete", 3, "b", "z"), ("delete", 4, "b", None)]
    assert len(actions(table, 2, "add")) == 1
    assert info_of(table, 2)["operationMetrics"]["numAddedChangeFiles"] == "2"
    for cdc in actions(table, 2, "cdc"):
        assert cdc["path"].startswith(f"_change_data/p={cdc['partitionValues']['p']}/cdc-00000-")
        assert cdc["dataChange"] is False
    assert table.to_arrow(["id"]).column("id").to_pylist() == [1]


def test_an_update_records_both_states_in_the_partitions_that_they_are_of(table: Table) -> None:
    table.update({"p": "'c'", "v": "'w'"}, "id = 2")
    assert changes(table, 2) == [("update_postimage", 2, "c", "w"), ("update_preimage", 2, "a", "y")]


def test_a_merge_records_all_that_its_clauses_do(table: Table) -> None:
    source = pa.table({"id": [1, 2, 9], "p": ["a", "a", "n"], "v": ["m", "gone", "new"]})
    table.merge(
        source,
        ["id"],
        matched=[Delete("source.v = 'gone'"), Update()],
        not_matched=Insert(),
        not_matched_by_source=[Delete("target.id = 3"), Update({"v": "'orphan'"})],
    )
    assert changes(table, 2) == [
        ("delete", 2, "a", "y"),
        ("delete", 3, "b", "z"),
        ("insert", 9, "n", "new"),
        ("update_postimage", 1, "a", "m"),
        ("update_postimage", 4, "b", "orphan"),
        ("update_preimage", 1, "a", "x"),
        ("update_preimage", 4, "b", None),
    ]


def test_a_row_that_two_rows_of_the_source_delete_is_recorded_once(table: Table) -> None:
    table.merge(pa.table({"id": [2, 2]}), ["id"], matched=Delete())
    assert changes(table, 2) == [("delete", 2, "a", "y")]


def test_what_files_tell_by_themselves_has_no_change_data(table: Table) -> None:
    table.merge(pa.table({"id": [1, 9], "p": ["a", "n"], "v": ["m", "new"]}), ["id"], not_matched=Insert())
    table.delete("p = 'n'")
    table.overwrite(ROWS.slice(2), replace_where="p = 'b'")
    table.delete()
    assert [actions(table, version, "cdc") for version in (2, 3, 4, 5)] == [[]] * 4
    assert table.to_arrow().num_rows == 0


def test_mapped_columns_and_row_ids(catalog: Catalog, tmp_path: Path) -> None:
    properties = {"delta.columnMapping.mode": "name", "delta.enableRowTracking": "true"}
    table = made(catalog, tmp_path, **properties)
    table.update({"v": "'w'"}, "id = 1")
    [cdc] = actions(table, 2, "cdc")
    names = {each.name: each.physical_name for each in table.snapshot().schema.fields}
    stored = pq.ParquetFile(tmp_path / "t" / cdc["path"]).read()
    assert stored.column_names == [names["id"], names["v"], "_change_type"]
    assert cdc["partitionValues"] == {names["p"]: "a"}
    assert cdc["path"].split("/")[-1].startswith("cdc-")


def test_an_edit_that_finds_nothing_leaves_no_file(table: Table) -> None:
    before = files(table)
    assert table.delete("id = 77").versions == {}
    assert files(table) == before


def test_rows_that_the_feed_would_not_show_are_refused_and_nothing_is_left(catalog: Catalog, table: Table) -> None:
    before = files(table)
    for more in (ROWS, [add("elsewhere.parquet", partition_values={"p": "a"})]):
        tx = catalog.transaction()
        tx.delete("t", "id = 1")
        tx.append("t", more)
        with pytest.raises(InvalidInput, match="enableChangeDataFeed") as refused:
            tx.commit()
        assert "transaction of their own" in refused.value.hint
    assert (table.info().head, files(table)) == (1, before)
    with catalog.transaction() as tx:
        tx.delete("t", "p = 'a'")
        tx.append("t", ROWS)
    assert actions(table, 2, "cdc") == []


def test_files_of_change_data_go_again_if_the_values_cannot_be_computed(table: Table) -> None:
    before = files(table)
    with pytest.raises(InvalidInput, match="cannot be computed"):
        table.update({"id": "id + 9223372036854775805"}, "id >= 1")
    assert files(table) == before


def test_a_table_that_came_with_a_column_of_the_feeds_own_is_not_edited(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "_CHANGE_DATA_COLUMNS", ())  # as another writer made it
    table = catalog.create_table("t", location=tmp_path / "t", schema="id long, _change_type string", properties=FEED)
    table.append(pa.table({"id": [1, 2]}))
    with pytest.raises(Refused, match="_change_type") as refused:
        table.delete("id = 1")
    assert "rename the column" in refused.value.hint


OWN = pa.table({"id": [5], "p": ["a"], "v": ["x"], "_Change_Type": ["mine"]})


def created(catalog: Catalog, _: Table, folder: Path) -> None:
    catalog.create_table("other", location=folder / "other", schema="id long, _commit_version long", properties=FEED)


def enabled(catalog: Catalog, _: Table, folder: Path) -> None:
    table = catalog.create_table("other", location=folder / "other", schema="id long, _commit_timestamp timestamp")
    table.alter(properties=FEED)


@pytest.mark.parametrize(
    "road",
    [
        created,
        enabled,
        lambda _, table, __: table.append(OWN, merge_schema=True),
        lambda _, table, __: table.overwrite(OWN, overwrite_schema=True),
    ],
    ids=["create", "alter", "merge_schema", "overwrite_schema"],
)
def test_no_road_gives_a_table_with_a_feed_a_column_of_the_feeds_own(
    catalog: Catalog, table: Table, tmp_path: Path, road: Callable[[Catalog, Table, Path], object]
) -> None:
    before = files(table)
    with pytest.raises(InvalidAction) as caught:
        road(catalog, table, tmp_path)
    assert caught.value.rule == "metaData.change-data-columns"
    assert files(table) == before
    assert table.info().head == 1


@pytest.mark.usefixtures("table")
def test_an_edit_after_an_append_is_told_what_is_in_its_way(catalog: Catalog) -> None:
    tx = catalog.transaction()
    tx.append("t", ROWS)
    with pytest.raises(InvalidInput, match="the transaction appends to 't' already"):
        tx.delete("t", "id = 1")
    tx = catalog.transaction()
    tx.delete("t", "id = 1")
    with pytest.raises(InvalidInput, match="changes or replaces rows of 't' already"):
        tx.overwrite("t", ROWS)
