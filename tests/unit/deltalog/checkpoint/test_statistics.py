"""Which columns have statistics in a checkpoint."""

import pytest
from msgspec.structs import replace

from deltamirror.delta.actions import Metadata, Protocol
from deltamirror.delta.columnmapping import assign_columns
from deltamirror.delta.schema import Field, StructType, from_ddl, schema_string
from deltamirror.deltalog.checkpoint.statistics import partition_schema, statistics_schema
from deltamirror.errors import InvalidInput
from tests.support.lakes.histories import PROTOCOL, table_metadata

pytestmark = pytest.mark.requirement("R10")

WITH_VECTORS = Protocol(
    min_reader_version=3, min_writer_version=7, reader_features=["deletionVectors"], writer_features=["deletionVectors"]
)


def table(columns: str, *, partitioned_by: str = "", **properties: str) -> Metadata:
    metadata = replace(table_metadata(**properties), schema_string=schema_string(from_ddl(columns)))
    return replace(metadata, partition_columns=partitioned_by.split())


def names(metadata: Metadata, kind: str, protocol: Protocol = PROTOCOL) -> list[str]:
    found = statistics_schema(metadata, protocol).get(kind)
    if found is None:
        return []
    assert isinstance(found.type, StructType)
    return [".".join(path) for path, _ in found.type.leaves()]


def test_bounds_are_of_columns_with_an_order_and_null_counts_of_all() -> None:
    metadata = table(
        "a long, b boolean, c binary, d array<int>, e map<int, int>, f struct<g: date, h: boolean>, i decimal(3,1)"
    )
    assert names(metadata, "minValues") == names(metadata, "maxValues") == ["a", "f.g", "i"]
    assert names(metadata, "nullCount") == ["a", "b", "c", "d", "e", "f.g", "f.h", "i"]


def test_partition_columns_have_values_instead_of_statistics() -> None:
    metadata = table("a long, p date, q int", partitioned_by="q p")
    assert names(metadata, "nullCount") == ["a"]
    assert [each.name for each in partition_schema(metadata).fields] == ["q", "p"]


def test_the_first_leaves_have_statistics_as_many_as_the_property_says() -> None:
    columns = "s struct<a: int, b: struct<c: int, d: int>>, e array<int>, f int"
    assert names(table(columns, dataSkippingNumIndexedCols="2"), "nullCount") == ["s.a", "s.b.c"]
    assert names(table(columns, dataSkippingNumIndexedCols="4"), "nullCount") == ["s.a", "s.b.c", "s.b.d", "e"]
    assert names(table(columns, dataSkippingNumIndexedCols="0"), "nullCount") == []
    wide = ", ".join(f"c{number} int" for number in range(40))
    assert len(names(table(wide), "nullCount")) == 32
    assert len(names(table(wide, dataSkippingNumIndexedCols="-1"), "nullCount")) == 40


def test_a_number_of_columns_that_is_none_is_refused() -> None:
    for value in ("many", "", "1.5", "- 1"):
        with pytest.raises(InvalidInput, match="dataSkippingNumIndexedCols has to be an integer"):
            statistics_schema(table("a int", dataSkippingNumIndexedCols=value), PROTOCOL)


def test_any_number_of_columns_of_another_writer_is_read_and_one_below_zero_stands_for_all() -> None:
    columns = "a int, b int, c int"
    assert names(table(columns, dataSkippingNumIndexedCols="-2"), "nullCount") == ["a", "b", "c"]
    assert names(table(columns, dataSkippingNumIndexedCols="+2"), "nullCount") == ["a", "b"]
    assert names(table(columns, dataSkippingNumIndexedCols="99999999999"), "nullCount") == ["a", "b", "c"]


def test_named_columns_have_statistics_and_a_struct_stands_for_what_is_in_it() -> None:
    columns = "a int, `b.c` int, S struct<x: int, y: struct<z: int>, w: boolean>, t struct<u: int, v: int>"
    metadata = table(columns, dataSkippingStatsColumns="`b.c`, s, T.v", dataSkippingNumIndexedCols="1")
    assert names(metadata, "minValues") == ["b.c", "S.x", "S.y.z", "t.v"]
    assert names(metadata, "nullCount") == ["b.c", "S.x", "S.y.z", "S.w", "t.v"]


def test_without_any_column_only_rows_are_counted() -> None:
    schema = statistics_schema(table("a int", dataSkippingNumIndexedCols="0"), PROTOCOL)
    assert [each.name for each in schema.fields] == ["numRecords"]


def test_bounds_are_tight_or_not_only_where_deletion_vectors_are_supported() -> None:
    metadata = table("a binary")
    assert [each.name for each in statistics_schema(metadata, PROTOCOL).fields] == ["numRecords", "nullCount"]
    assert [each.name for each in statistics_schema(metadata, WITH_VECTORS).fields][-1] == "tightBounds"


def test_mapped_columns_have_their_physical_names_at_every_depth() -> None:
    def physical(column: Field) -> str:
        return f"col-{column.name}"

    mapped, _ = assign_columns(from_ddl("a int, s struct<b: int>, p int"), above=0, fresh_name=physical)
    metadata = replace(table_metadata(), schema_string=schema_string(mapped), partition_columns=["p"])
    assert names(metadata, "minValues") == ["col-a", "col-s.col-b"]
    assert [each.name for each in partition_schema(metadata).fields] == ["col-p"]
