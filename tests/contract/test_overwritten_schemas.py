"""Rows that replace all others, and the columns with them: ``overwrite_schema``."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltamirror import Catalog, Table
from deltamirror.delta.schema import parse_schema
from deltamirror.errors import Conflict, DeltaMirrorError, InvalidAction, InvalidInput
from deltamirror.spark.options import SourceOptions
from tests.support.lakes.lake import add, info_of

pytestmark = pytest.mark.requirement("R31")

SCHEMA = "id long not null, day string, s struct<x: int, y: string>"
FIRST = pa.table({"id": [1, 2], "day": ["mon", "tue"], "s": pa.array([{"x": 1}, None], pa.struct([("x", pa.int32())]))})
OTHER = pa.table({"ID": ["a", "b"], "day": ["wed", "thu"], "w": [1.5, None]})


@pytest.fixture
def catalog(sqlite_lake: str) -> Iterator[Catalog]:
    with Catalog(sqlite_lake) as found:
        yield found


@pytest.fixture
def table(catalog: Catalog, tmp_path: Path) -> Table:
    made = catalog.create_table(
        "t", location=tmp_path / "t", schema=SCHEMA, partition_by=["day"], properties={"owner": "me"}
    )
    made.append(FIRST)
    return made


def columns(table: Table) -> list[str]:
    return [each.name for each in parse_schema(table.snapshot().metadata.schema_string).fields]


def data_files(table: Table) -> set[str]:
    return {path.name for path in Path(table.location.removeprefix("file://")).rglob("*.parquet")}


def test_the_table_has_the_columns_and_the_partitions_of_the_rows(table: Table) -> None:
    before = table.snapshot().metadata
    assert table.overwrite(OTHER, overwrite_schema=True, partition_by="DAY").versions == {"t": 2}
    after = table.snapshot().metadata
    assert (columns(table), after.partition_columns) == (["ID", "day", "w"], ["day"])
    assert (after.id, after.configuration) == (before.id, before.configuration)
    assert table.to_arrow().sort_by("ID").to_pylist() == OTHER.to_pylist()
    assert table.to_arrow(version=1).num_rows == 2
    info = info_of(table, 2)
    assert info["operationParameters"] == {"mode": "Overwrite", "partitionBy": '["DAY"]', "canOverwriteSchema": True}
    assert (info["isBlindAppend"], info["operationMetrics"]["numRemovedFiles"]) == (False, "2")


def test_without_partition_columns_it_has_none_afterwards_as_with_delta_spark(table: Table) -> None:
    table.overwrite(FIRST, overwrite_schema=True, merge_schema=True)
    assert table.snapshot().metadata.partition_columns == []
    assert info_of(table, 2)["operationParameters"]["canMergeSchema"] is True
    assert table.to_arrow(["id", "day"]).num_rows == 2


def test_later_rows_of_the_transaction_are_of_the_new_columns(catalog: Catalog, table: Table) -> None:
    with catalog.transaction() as tx:
        tx.overwrite("t", OTHER, overwrite_schema=True)
        tx.append("t", OTHER.slice(0, 1))
        with pytest.raises(InvalidInput, match="'ID' is string"):
            tx.append("t", FIRST.select(["id"]))
    assert table.to_arrow().num_rows == 3


def test_an_overwrite_without_rows_leaves_the_columns(table: Table) -> None:
    table.overwrite(OTHER.slice(0, 0), overwrite_schema=True)
    assert (columns(table), table.to_arrow().num_rows) == (["ID", "day", "w"], 0)


def test_columns_of_the_same_path_and_type_keep_their_mapping(table: Table) -> None:
    table.alter(enable_column_mapping=True)
    before = {path: field.metadata for path, field in parse_schema(table.snapshot().metadata.schema_string).walk()}
    kind = pa.struct([("x", pa.int32()), ("y", pa.int32())])
    rows = pa.table({"Day": ["wed"], "id": ["text"], "s": pa.array([{"x": 1, "y": 2}], kind)})
    table.overwrite(rows, overwrite_schema=True)
    after = {path: field.metadata for path, field in parse_schema(table.snapshot().metadata.schema_string).walk()}
    assert after["Day",] == before["day",]
    assert after["s", "x"] == before["s", "x"]
    highest = len(before)
    changed = [after[path] for path in (("id",), ("s",), ("s", "y"))]
    assert [each["delta.columnMapping.id"] for each in changed] == [highest + 1, highest + 2, highest + 3]
    assert all(str(each["delta.columnMapping.physicalName"]).startswith("col-") for each in changed)
    assert table.to_arrow().to_pylist() == rows.to_pylist()


def test_a_clustered_table_is_clustered_no_more(catalog: Catalog, tmp_path: Path) -> None:
    table = catalog.create_table("c", location=tmp_path / "c", schema="id long, v int", cluster_by=["id"])
    table.append(pa.table({"id": [1]}))
    table.overwrite(pa.table({"v": ["text"]}), overwrite_schema=True)
    domain = table.snapshot().domain_metadata()["delta.clustering"]
    assert json.loads(domain.configuration)["clusteringColumns"] == []


def test_types_that_need_a_feature_bring_it(table: Table) -> None:
    table.overwrite(pa.table({"at": pa.array([0], pa.timestamp("us"))}), overwrite_schema=True)
    assert "timestampNtz" in (table.snapshot().protocol.writer_features or [])


def test_a_change_of_the_table_meanwhile_is_a_conflict_and_leaves_no_file(catalog: Catalog, table: Table) -> None:
    before = data_files(table)
    tx = catalog.transaction()
    tx.overwrite("t", OTHER, overwrite_schema=True)
    table.append(FIRST)
    before = data_files(table)
    with pytest.raises(Conflict):
        tx.commit()
    assert data_files(table) == before


def test_sent_again_with_its_token_it_is_committed_once(table: Table) -> None:
    first = table.overwrite(OTHER, overwrite_schema=True, token="load")
    again = table.overwrite(OTHER, overwrite_schema=True, token="load")
    assert (again.versions, again.already_applied) == (first.versions, True)


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"replace_where": "day = 'mon'"}, InvalidInput, "excludes dynamic and replace_where"),
        ({"dynamic": True}, InvalidInput, "excludes dynamic and replace_where"),
        ({"partition_by": ["nope"]}, InvalidAction, "nope"),
        ({"partition_by": ["ID", "day", "w"]}, InvalidAction, "not partitioned by"),
        ({"overwrite_schema": False, "partition_by": ["day"]}, InvalidInput, "partition_by goes with overwrite_schema"),
        ({"data": pa.table({"void": pa.nulls(1)})}, InvalidInput, "has no type"),
        ({"data": pa.table({"a": [1], "A": [2]})}, DeltaMirrorError, "A"),
        ({"data": [add("a.parquet")]}, InvalidInput, "data has to be rows"),
    ],
)
def test_wrong_calls_are_refused_before_anything_is_written(
    table: Table, asked: dict[str, Any], error: type[DeltaMirrorError], message: str
) -> None:
    before = data_files(table)
    with pytest.raises(error, match=message):
        table.overwrite(**{"data": OTHER, "overwrite_schema": True, **asked})
    assert (table.info().head, data_files(table)) == (1, before)


def test_a_column_that_a_constraint_names_stays(catalog: Catalog, table: Table) -> None:
    table.alter(constraints={"small": "id < 100"}, rows_checked=True)
    with catalog.transaction(rows_checked=True) as tx:
        for rows in (OTHER, OTHER.select(["w"])):
            with pytest.raises(InvalidInput, match=r"'id' .*the constraint 'small'"):
                tx.overwrite("t", rows, overwrite_schema=True)
        tx.overwrite("t", FIRST.select(["id"]), overwrite_schema=True)
    assert columns(table) == ["id"]


def test_the_options_of_the_format() -> None:
    given = {"path": "t", "overwriteSchema": "true"}
    assert SourceOptions.of_write(given, overwrite=True).partition_by == ()
    assert SourceOptions.of_write({**given, "partitionBy": "a,b"}, overwrite=True).partition_by == ("a,b",)
    assert SourceOptions.of_write({**given, "partitionBy": '["a", "b"]'}, overwrite=True).partition_by == ("a", "b")
    with pytest.raises(InvalidInput, match="partitionBy is no list of names"):
        SourceOptions.of_write({**given, "partitionBy": '["a", 1]'}, overwrite=True)
    with pytest.raises(InvalidInput, match="partition_by goes with overwrite_schema"):
        SourceOptions.of_write({"path": "t", "partitionBy": "a"}, overwrite=True)
