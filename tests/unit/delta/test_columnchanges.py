"""Columns added, changed, renamed and dropped: the schema that comes of it, and the refusals."""

from collections.abc import Sequence

import pytest

from deltamirror.delta.actions import Format, Metadata, Protocol
from deltamirror.delta.columnchanges import ColumnChanges, evolve
from deltamirror.delta.schema import column_text, from_ddl, schema_string
from deltamirror.delta.schema.clauses import added_columns, changed_column
from deltamirror.delta.schema.columns import column_path
from deltamirror.errors import InvalidSchema

pytestmark = pytest.mark.requirement("R119")

SCHEMA = (
    "id int NOT NULL, a string, day date, s struct<x: int, y: string, one: struct<z: int>>, l array<struct<q: int>>,"
    " n array<int>, m map<int, struct<v: float>>, t varchar(5)"
)
PROTOCOL = Protocol(
    min_reader_version=3, min_writer_version=7, reader_features=["typeWidening"], writer_features=["typeWidening"]
)
CONSTRAINTS = {"delta.constraints.c": "upper(a) > 'id' AND s.x > 0", "delta.enableTypeWidening": "true"}


def metadata(**configuration: str) -> Metadata:
    return Metadata(
        id="1",
        format=Format(provider="parquet", options={}),
        schema_string=schema_string(from_ddl(SCHEMA)),
        partition_columns=["day"],
        configuration=configuration,
    )


def evolved(changes: ColumnChanges, **configuration: str) -> list[str]:
    found = evolve(changes, metadata(**configuration), PROTOCOL, clustering=[["m"]])
    return [column_text(each) for each in found.schema.fields]


def added(text: str) -> ColumnChanges:
    return ColumnChanges(added=added_columns(text))


def changed(column: str, clauses: str) -> ColumnChanges:
    return ColumnChanges(changed=[changed_column(column_path(column), clauses)])


def dropped(*columns: str) -> ColumnChanges:
    return ColumnChanges(dropped=[column_path(each) for each in columns])


def renamed(column: str, name: str) -> ColumnChanges:
    return ColumnChanges(renamed=[(column_path(column), name)])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (added("b int"), "b integer"),
        (added("s.b int AFTER X"), "s struct<x:integer,b:integer,y:string,one:struct<z:integer>>"),
        (added("L.element.r date FIRST"), "l array<struct<r:date,q:integer>>"),
        (added("m.value.w string"), "m map<integer,struct<v:float,w:string>>"),
        (added("s.one.`a.b` string"), "s struct<x:integer,y:string,one:struct<z:integer,a.b:string>>"),
        (changed("s.x", "AFTER y"), "s struct<y:string,x:integer,one:struct<z:integer>>"),
        (changed("id", "DROP NOT NULL"), "id integer"),
        (changed("n.element", "TYPE bigint"), "n array<long>"),
        (changed("m.key", "TYPE decimal(12,2)"), "m map<decimal(12,2),struct<v:float>>"),
        (changed("M.value.V", "TYPE double"), "m map<integer,struct<v:double>>"),
        (changed("day", "TYPE timestamp_ntz"), "day timestamp_ntz"),
        (dropped("s.x", "s.y"), "s struct<one:struct<z:integer>>"),
        (renamed("L.element.Q", "other"), "l array<struct<other:integer>>"),
    ],
)
def test_a_column_is_changed_where_its_path_leads(changes: ColumnChanges, expected: str) -> None:
    assert expected in evolved(changes, **{"delta.enableTypeWidening": "true"})


def test_columns_are_dropped_renamed_changed_and_added_in_this_order() -> None:
    changes = ColumnChanges(
        dropped=[("a",)],
        renamed=[(("id",), "a")],
        changed=[changed_column(("a",), "DROP NOT NULL AFTER t")],
        added=added_columns("id string FIRST"),
    )
    found = evolved(changes)
    assert (found[0], found[-1]) == ("id string", "a integer")


def test_properties_that_name_columns_follow_them() -> None:
    changes = ColumnChanges(dropped=[("a",)], renamed=[(("s",), "s 2")])
    found = evolve(changes, metadata(**{"delta.dataSkippingStatsColumns": "a, s.x,id"}), PROTOCOL)
    assert found.properties == {"delta.dataSkippingStatsColumns": "`s 2`.x,id"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (added("b int NOT NULL"), ["b", "NOT NULL"]),
        (added("a.b int"), ["a", "string, not a struct"]),
        (added("l.r int"), ["l", "l.element"]),
        (added("nope.r int"), ["nope", "there are: id, a,"]),
        (added("b int AFTER nope"), ["nope"]),
        (changed("id", "TYPE string"), ["id", "integer", "string"]),
        (changed("id", "TYPE short"), ["id", "integer", "short"]),
        (changed("s", "TYPE struct<x: int>"), ["column s", "struct<x:integer>", "s.x"]),
        (changed("n", "TYPE array<long>"), ["column n", "array<integer>", "l.element"]),
        (changed("n.element", "COMMENT 'x'"), ["n.element", "comment", "TYPE"]),
        (changed("n.element", "DROP NOT NULL"), ["n.element", "nullability"]),
        (changed("nope", "FIRST"), ["nope"]),
        (changed("s.x", "TYPE bigint"), ["s.x", "the constraint 'c'"]),
        (dropped("day"), ["day", "partition"]),
        (dropped("m"), ["column m", "clustering"]),
        (dropped("n.element"), ["n.element", "array<integer>"]),
        (dropped("s.one.z"), ["s.one.z", "only column"]),
        (dropped("A"), ["column a", "upper(a)"]),
        (dropped("s"), ["column s", "s.x > 0"]),
        (renamed("s.x", "z"), ["s.x", "the constraint 'c'"]),
        (renamed("m.value", "z"), ["m.value"]),
    ],
)
def test_a_refusal_names_the_column_the_reason_and_a_remedy(changes: ColumnChanges, words: Sequence[str]) -> None:
    with pytest.raises(InvalidSchema) as refused:
        evolved(changes, **CONSTRAINTS)
    said = f"{refused.value} {refused.value.hint}"
    assert all(word in said for word in words), said
    assert refused.value.hint


def test_a_constraint_does_not_hold_columns_that_it_only_seems_to_name() -> None:
    """Of ``upper(a) > 'id' AND s.x > 0``, ``'id'`` is a text, ``upper`` a function, and ``s.y`` is not mentioned."""
    assert "s struct<x:integer,one:struct<z:integer>>" in evolved(dropped("id", "s.y"), **CONSTRAINTS)


def test_types_are_widened_where_the_table_says_so_only() -> None:
    with pytest.raises(InvalidSchema) as refused:
        evolved(changed("id", "TYPE bigint"))
    assert "integer cannot become long" in refused.value.message
    assert "--set delta.enableTypeWidening=true" in refused.value.hint


@pytest.mark.parametrize("text", ["b int DEFAULT 5", "s.b varchar(3)", "b", "b int AFTER", "b int COMMENT x"])
def test_a_definition_that_cannot_be_added_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema, match=r"column (s\.)?b, position") as refused:
        added_columns(text)
    assert refused.value.hint


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "`a", "`a`b", "a,b", "a.``", " "])
def test_a_text_that_names_no_column_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema, match="does not name a column"):
        column_path(text)


@pytest.mark.parametrize(
    "clauses", ["", "TYPE", "nothing", "SET", "SET NULL", "SET DEFAULT", "COMMENT x", "TYPE int x", "AFTER"]
)
def test_clauses_that_say_nothing_are_refused_with_those_that_do(clauses: str) -> None:
    with pytest.raises(InvalidSchema, match="column a, position") as refused:
        changed_column(("a",), clauses)
    assert refused.value.hint
