"""What a table may change about itself depends on the files that stay: every rule, and a model of the schema's part."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.delta.actions import Format, Metadata, Protocol
from deltamirror.delta.evolution import Breach, ForbiddenWhile, check_change, find_breaches
from deltamirror.delta.features import protocol_for
from deltamirror.delta.schema import (
    ArrayType,
    DataType,
    Field,
    MapType,
    Primitive,
    StructType,
    from_ddl,
    parse_schema,
    schema_string,
)
from deltamirror.delta.validation import RULES
from deltamirror.errors import InvalidAction

pytestmark = pytest.mark.requirement("R5")

PLAIN = protocol_for(["columnMapping", "rowTracking", "allowColumnDefaults", "checkConstraints"])
WIDENING = protocol_for(["typeWidening"])
MAPPED = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "9"}
BY_ID = {**MAPPED, "delta.columnMapping.mode": "id"}


@dataclass(frozen=True)
class Left:
    """Files that stay."""

    files: bool = True
    row_ids: bool = False
    earlier: Sequence[Metadata] = ()

    def any(self) -> bool:
        return self.files

    def any_without_row_ids(self) -> bool:
        return self.files and not self.row_ids

    def written_under(self) -> Sequence[Metadata]:
        return self.earlier


def column(name: str, kind: object = "long", **metadata: Any) -> dict[str, object]:
    nullable = metadata.pop("nullable", True)
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata}


def mapped(name: str, number: int, physical: str | None = None, **more: Any) -> dict[str, object]:
    mapping = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical or name}
    kind, nullable = more.pop("kind", "long"), more.pop("nullable", True)
    return {"name": name, "type": kind, "nullable": nullable, "metadata": {**mapping, **more}}


def struct(*fields: Mapping[str, object]) -> dict[str, object]:
    return {"type": "struct", "fields": list(fields)}


def table(
    *columns: str | Mapping[str, object],
    partition_by: Sequence[str] = (),
    configuration: Mapping[str, str] | None = None,
    **values: Any,
) -> Metadata:
    fields: list[Field] = []
    for each in columns:
        fields += (from_ddl(each) if isinstance(each, str) else parse_schema(struct(each))).fields
    return Metadata(
        id=values.pop("id", "1111"),
        format=Format(provider="parquet", options={}),
        schema_string=schema_string(StructType(tuple(fields))),
        partition_columns=list(partition_by),
        configuration=dict(configuration or {}),
        **values,
    )


def widened(name: str, old: str, new: str, **path: str) -> dict[str, object]:
    return column(name, new, **{"delta.typeChanges": [{"toType": new, "fromType": old, **path}]})


def tracking(**more: str) -> dict[str, str]:
    return {"delta.enableRowTracking": "true", **more}


@dataclass(frozen=True)
class Case:
    """A change that is unlawful in a table with files, and what it takes for it to be lawful."""

    rule: str
    before: Metadata
    after: Metadata
    protocol: Protocol = PLAIN
    scope: ForbiddenWhile = ForbiddenWhile.FILES
    field: str = field(default="", compare=False)


ID = table("id long, day date", partition_by=["day"])
TWO = (mapped("a", 1, "x"), mapped("b", 2, "y"))
CHECKED = {"delta.constraints.c": "a > 0"}
STRUCTS = [
    table(mapped("s", 1, kind=struct(*fields)), configuration={**MAPPED, "delta.columnMapping.maxColumnId": "3"})
    for fields in ([mapped("x", 2), mapped("y", 3)], [mapped("x", 2)], [mapped("y", 3)])
]
"""A struct with two fields, with the one, and with the other."""

CASES = [
    Case("id", ID, msgspec.structs.replace(ID, id="2222")),
    Case("partitioning", ID, table("id long, day date")),
    Case("partitioning", ID, table("id long, day date", partition_by=["id"])),
    Case("partitioning", table("id long, day date"), ID),
    Case(
        "partitioning",
        table("a int, b int, c int", partition_by=["a", "b"]),
        table("a int, b int, c int", partition_by=["b", "a"]),
    ),
    Case("missing-column", table("a long, b long"), table("a long")),
    Case("missing-column", table("a long, b long"), table("a long, c long")),
    Case("missing-column", table("a long, b long"), table("a long, B long")),
    Case("missing-column", table("s struct<a: int, b: int>"), table("s struct<a: int>")),
    Case("missing-column", table("s array<struct<a: int>>"), table("s array<struct<b: int>>")),
    Case("map-fields", table("s map<string, struct<a: int>>"), table("s map<string, struct<A: int>>")),
    Case("map-fields", table("m map<int, struct<a: int>>"), table("m map<int, struct<a: int, b: int>>")),
    Case("map-fields", table("m map<int, array<struct<a: int>>>"), table("m map<int, array<struct<a: int, b: int>>>")),
    Case("map-fields", table("m map<struct<a: int>, int>"), table("m map<struct<a: int, b: int>, int>")),
    Case("type", table("a int"), table("a string")),
    Case("type", table("a int"), table("a long")),
    Case("type", table("a long"), table("a int"), protocol=WIDENING),
    Case("type", table("a decimal(5,2)"), table("a decimal(6,2)")),
    Case("type", table("a int"), table("a array<int>")),
    Case("type", table("a struct<b: int>"), table("a int")),
    Case("type", table("a array<int>"), table("a array<long>")),
    Case("type", table("a map<int, int>"), table("a map<long, int>")),
    Case("type", table("a struct<b: array<struct<c: int>>>"), table("a struct<b: array<struct<c: date>>>")),
    Case("type", table("day date, a int", partition_by=["day"]), table("day string, a int", partition_by=["day"])),
    # Widening has to be recorded, be one that readers know, and be allowed at all.
    Case("type", table("a int"), table("a long"), protocol=WIDENING),
    Case("type", table("a int"), table(widened("a", "integer", "long"))),
    Case("type", table("a int"), table(widened("a", "integer", "string")), protocol=WIDENING),
    Case("type", table("a int"), table(widened("a", "integer", "decimal(10,1)")), protocol=WIDENING),
    Case("type", table("a decimal(5,2)"), table(widened("a", "decimal(5,2)", "decimal(5,3)")), protocol=WIDENING),
    Case("type", table("a int"), table(widened("a", "integer", "long", fieldPath="element")), protocol=WIDENING),
    Case(
        "type",
        table("a int", "d date", partition_by=["d"]),
        table("a int", widened("d", "date", "timestamp_ntz"), partition_by=["d"]),
        protocol=WIDENING,
    ),
    Case("nullability", table("a int"), table("a int not null")),
    Case("nullability", table("s struct<a: int>"), table(column("s", struct(column("a", "integer", nullable=False))))),
    Case(
        "nullability",
        table("a array<int>"),
        table(column("a", {"type": "array", "elementType": "integer", "containsNull": False})),
    ),
    Case(
        "nullability",
        table("m map<int, int>"),
        table(column("m", {"type": "map", "keyType": "integer", "valueType": "integer", "valueContainsNull": False})),
    ),
    Case("added-not-null", table("a int"), table("a int, b int not null")),
    Case("added-not-null", table("a int"), table("a int", column("s", struct(column("x", nullable=False))))),
    Case(
        "added-not-null",
        table("s struct<a: long>"),
        table(column("s", struct(column("a"), column("b", nullable=False)))),
    ),
    Case("default", table("a int"), table("a int", column("b", EXISTS_DEFAULT="7", CURRENT_DEFAULT="7"))),
    Case("default", table("a int, b long"), table("a int", column("b", EXISTS_DEFAULT="7"))),
    Case(
        "dependent-column",
        table(*TWO, configuration={**MAPPED, **CHECKED}),
        table(mapped("z", 1, "x"), TWO[1], configuration={**MAPPED, **CHECKED}),
    ),
    Case(
        "dependent-column",
        table(*TWO, configuration={**MAPPED, **CHECKED}),
        table(TWO[1], configuration={**MAPPED, **CHECKED}),
    ),
    Case(
        "dependent-column",
        table("a int", configuration=CHECKED),
        table(widened("a", "integer", "long"), configuration=CHECKED),
        protocol=WIDENING,
    ),
    Case(
        "dependent-column",
        table("a int", column("b", **{"delta.generationExpression": "A + 1"})),
        table(widened("a", "integer", "long"), column("b", **{"delta.generationExpression": "A + 1"})),
        protocol=WIDENING,
    ),
    Case("struct-fields", STRUCTS[0], STRUCTS[2], scope=ForbiddenWhile.FILES_WITHOUT_ITS_FIELDS),
    Case("mapping-mode", table("a long"), table(mapped("a", 1), configuration=BY_ID)),
    Case("mapping-mode", table(*TWO, configuration=MAPPED), table(*TWO, configuration=BY_ID)),
    Case("mapping-mode", table(*TWO, configuration=BY_ID), table(*TWO, configuration=MAPPED)),
    Case("mapping-mode", table(mapped("a", 1), configuration=MAPPED), table("a long")),
    Case("physical-name", table("a long"), table(mapped("a", 1, "col-1"), configuration=MAPPED)),
    Case(
        "physical-name",
        table("s struct<a: long>"),
        table(mapped("s", 1, kind=struct(mapped("a", 2, "col-2"))), configuration=MAPPED),
    ),
    Case("physical-name", table(*TWO, configuration=MAPPED), table(TWO[0], mapped("b", 2, "z"), configuration=MAPPED)),
    Case("column-id", table(*TWO, configuration=MAPPED), table(TWO[0], mapped("b", 10, "y"), configuration=MAPPED)),
    Case("column-id", table(*TWO, configuration=MAPPED), table(*TWO, mapped("c", 9, "z"), configuration=MAPPED)),
    Case(
        "column-id",
        table(*TWO, configuration=MAPPED),
        table(*TWO, mapped("c", 10, "z", kind=struct(mapped("d", 5))), configuration=MAPPED),
    ),
    Case(
        "max-column-id",
        table(*TWO, configuration=MAPPED),
        table(*TWO, configuration={**MAPPED, "delta.columnMapping.maxColumnId": "8"}),
    ),
    Case(
        "row-tracking",
        table("a int"),
        table("a int", configuration=tracking()),
        scope=ForbiddenWhile.FILES_WITHOUT_ROW_IDS,
    ),
    Case(
        "rows-unchecked",
        table("a int"),
        table("a int", configuration={"delta.constraints.c": "a > 0"}),
        scope=ForbiddenWhile.UNCHECKED_ROWS,
    ),
    Case(
        "rows-unchecked",
        table("a int", configuration={"delta.constraints.c": "a > 0"}),
        table("a int", configuration={"delta.constraints.c": "a > 1"}),
        scope=ForbiddenWhile.UNCHECKED_ROWS,
    ),
    *(
        Case("rows-unchecked", table("a long"), table(column("a", **{key: value})), scope=ForbiddenWhile.UNCHECKED_ROWS)
        for key, value in {
            "delta.generationExpression": "1",
            "delta.invariants": '{"expression":{"expression":"a > 0"}}',
            "delta.identity.start": 1,
            "__CHAR_VARCHAR_TYPE_STRING": "varchar(3)",
        }.items()
    ),
    Case(
        "rows-unchecked",
        table("a int"),
        table("a int", column("b", **{"delta.generationExpression": "a"})),
        scope=ForbiddenWhile.UNCHECKED_ROWS,
    ),
    Case(
        "rows-unchecked",
        table(column("a", "string", __CHAR_VARCHAR_TYPE_STRING="varchar(5)")),
        table(column("a", "string", __CHAR_VARCHAR_TYPE_STRING="varchar(4)")),
        scope=ForbiddenWhile.UNCHECKED_ROWS,
    ),
]

LAWFUL: dict[str, tuple[Metadata, Metadata, Protocol]] = {
    "nothing": (ID, ID, PLAIN),
    "a column added": (table("a int"), table("a int, b int"), PLAIN),
    "another order": (
        table("a int, b struct<c: int, d: int>"),
        table("b struct<d: int, c: int>, a int"),
        PLAIN,
    ),
    "a field added": (table("s struct<a: int>"), table("s struct<a: int, b: int>"), PLAIN),
    "a field added in an array": (table("s array<struct<a: int>>"), table("s array<struct<b: int, a: int>>"), PLAIN),
    "another order in a map": (
        table("m map<int, struct<a: int, b: int>>"),
        table("m map<int, struct<b: int, a: int>>"),
        PLAIN,
    ),
    "a field named like a step": (
        table("s struct<value: struct<a: int>>"),
        table("s struct<value: struct<a: int, b: int>>"),
        PLAIN,
    ),
    "an array of required fields added": (
        table("a int"),
        table(
            "a int",
            column(
                "b",
                {"type": "array", "elementType": struct(column("x", nullable=False)), "containsNull": False},
            ),
        ),
        PLAIN,
    ),
    "not null dropped": (table("a int not null"), table("a int"), PLAIN),
    "a void column typed": (table(column("a", "void")), table("a string"), PLAIN),
    "name and description": (ID, msgspec.structs.replace(ID, name="n", description="d", created_time=5), PLAIN),
    "a comment": (table("a long"), table(column("a", comment="x")), PLAIN),
    "a default for rows to come": (table("a long"), table(column("a", CURRENT_DEFAULT="7")), PLAIN),
    "a default dropped": (table(column("a", EXISTS_DEFAULT="7")), table("a long"), PLAIN),
    "a longer varchar": (
        table(column("a", "string", __CHAR_VARCHAR_TYPE_STRING="varchar(5)")),
        table(column("a", "string", __CHAR_VARCHAR_TYPE_STRING="varchar(6)")),
        PLAIN,
    ),
    "a constraint dropped": (table("a int", configuration={"delta.constraints.c": "a > 0"}), table("a int"), PLAIN),
    "properties": (
        table("a int"),
        table(
            "a int",
            configuration={
                "delta.appendOnly": "true",
                "delta.enableInCommitTimestamps": "true",
                "delta.checkpointPolicy": "v2",
                "delta.enableDeletionVectors": "true",
            },
        ),
        PLAIN,
    ),
    "an identity that goes on": (
        table(column("a", **{"delta.identity.start": 1, "delta.identity.highWaterMark": 4})),
        table(column("a", **{"delta.identity.start": 1, "delta.identity.highWaterMark": 9})),
        PLAIN,
    ),
    "mapping begins": (
        table("a long, s struct<b: int>"),
        table(
            mapped("a", 1),
            mapped("s", 2, kind=struct(mapped("b", 3, kind="integer"))),
            configuration=MAPPED,
        ),
        PLAIN,
    ),
    "mapping begins, partitioned": (
        ID,
        table(mapped("id", 1), mapped("day", 2, kind="date"), partition_by=["day"], configuration=MAPPED),
        PLAIN,
    ),
    "a mapped column renamed": (
        table(*TWO, configuration=MAPPED),
        table(TWO[0], mapped("B", 2, "y"), configuration=MAPPED),
        PLAIN,
    ),
    "a mapped partition column renamed": (
        table(*TWO, partition_by=["b"], configuration=MAPPED),
        table(TWO[0], mapped("c", 2, "y"), partition_by=["c"], configuration=MAPPED),
        PLAIN,
    ),
    "two mapped columns swap names": (
        table(*TWO, configuration=MAPPED),
        table(mapped("b", 1, "x"), mapped("a", 2, "y"), configuration=MAPPED),
        PLAIN,
    ),
    "a mapped column dropped": (table(*TWO, configuration=MAPPED), table(TWO[0], configuration=MAPPED), PLAIN),
    "a mapped column added": (
        table(*TWO, configuration=MAPPED),
        table(*TWO, mapped("c", 10, "z"), configuration={**MAPPED, "delta.columnMapping.maxColumnId": "10"}),
        PLAIN,
    ),
    "a mapped column dropped and added": (
        table(*TWO, configuration=MAPPED),
        table(TWO[0], mapped("b", 10, "z"), configuration={**MAPPED, "delta.columnMapping.maxColumnId": "10"}),
        PLAIN,
    ),
    "row tracking off": (table("a int", configuration=tracking()), table("a int"), PLAIN),
    "widened in two steps": (
        table("a short"),
        table(
            column(
                "a",
                "long",
                **{
                    "delta.typeChanges": [
                        {"toType": "integer", "fromType": "short"},
                        {"toType": "long", "fromType": "integer"},
                    ]
                },
            )
        ),
        WIDENING,
    ),
    "an element widened": (
        table("a array<int>"),
        table(
            column(
                "a",
                {"type": "array", "elementType": "long", "containsNull": True},
                **{"delta.typeChanges": [{"toType": "long", "fromType": "integer", "fieldPath": "element"}]},
            )
        ),
        WIDENING,
    ),
    "a partition column widened": (
        table("a int, p short", partition_by=["p"]),
        table("a int", widened("p", "short", "long"), partition_by=["p"]),
        WIDENING,
    ),
    **{
        f"{old} to {new}": (table(column("a", old)), table(widened("a", old, new)), WIDENING)
        for old, new in [
            ("byte", "double"),
            ("integer", "decimal(10,0)"),
            ("long", "decimal(21,1)"),
            ("float", "double"),
            ("decimal(5,2)", "decimal(7,3)"),
            ("date", "timestamp_ntz"),
        ]
    },
}


def breaches(before: Metadata, after: Metadata, protocol: Protocol = PLAIN) -> list[Breach]:
    return list(find_breaches(before, after, protocol=protocol))


def named(case: Case) -> str:
    return f"{case.rule}-{CASES.index(case)}"


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_change_that_files_cannot_follow_is_refused(case: Case) -> None:
    with pytest.raises(InvalidAction) as caught:
        check_change(case.before, case.after, protocol=case.protocol, left=Left(earlier=STRUCTS[:2]))
    rule = f"metaData.change.{case.rule}"
    assert (caught.value.rule, caught.value.hint) == (rule, RULES[rule].remedy)
    assert caught.value.field
    assert caught.value.found


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_change_is_refused_for_what_stays_and_for_nothing_else(case: Case) -> None:
    found = breaches(case.before, case.after, case.protocol)
    assert {each.scope for each in found} == {case.scope}
    lawful = {
        ForbiddenWhile.FILES: (Left(files=False), False),
        ForbiddenWhile.FILES_WITHOUT_ROW_IDS: (Left(row_ids=True), False),
        ForbiddenWhile.UNCHECKED_ROWS: (Left(), True),
        ForbiddenWhile.FILES_WITHOUT_ITS_FIELDS: (Left(earlier=(STRUCTS[0], ID, table("s int"))), False),
    }
    left, checked = lawful[case.scope]
    check_change(case.before, case.after, protocol=case.protocol, left=left, rows_checked=checked)


@pytest.mark.parametrize("name", LAWFUL)
def test_a_change_that_files_can_follow_is_lawful(name: str) -> None:
    before, after, protocol = LAWFUL[name]
    assert breaches(before, after, protocol) == []


def test_every_rule_of_changes_has_a_case() -> None:
    rules = {rule.removeprefix("metaData.change.") for rule in RULES if rule.startswith("metaData.change.")}
    assert {case.rule for case in CASES} == rules


# A schema as a reader of a file sees it: what is to be found at each path, and whether it may be missing.
STEPS = ("[]", "{key}", "{value}")
Seen = dict[tuple[str, ...], tuple[str, bool]]
NAMES = st.sampled_from(["a", "b", "c", "A"])
LEAVES = st.sampled_from([Primitive("long"), Primitive("string")])


def structs(kinds: st.SearchStrategy[DataType]) -> st.SearchStrategy[StructType]:
    fields = st.builds(Field, NAMES, kinds, st.sampled_from([True, True, True, False]))
    return st.lists(fields, min_size=1, max_size=3, unique_by=lambda each: each.name.lower()).map(
        lambda found: StructType(tuple(found))
    )


TYPES = st.recursive(
    LEAVES,
    lambda kinds: st.one_of(
        structs(kinds),
        st.builds(ArrayType, kinds, st.sampled_from([True, True, False])),
        st.builds(MapType, LEAVES, kinds, st.sampled_from([True, True, False])),
    ),
    max_leaves=4,
)
SCHEMAS = structs(TYPES)


def seen(kind: DataType, path: tuple[str, ...] = (), *, nullable: bool = True) -> Iterator[tuple[tuple[str, ...], Any]]:
    word = kind.name if isinstance(kind, Primitive) else type(kind).__name__
    yield path, (word, nullable)
    match kind:
        case StructType():
            for each in kind.fields:
                yield from seen(each.type, (*path, each.name), nullable=each.nullable)
        case ArrayType():
            yield from seen(kind.element, (*path, "[]"), nullable=kind.contains_null)
        case MapType():
            yield from seen(kind.key, (*path, "{key}"))
            yield from seen(kind.value, (*path, "{value}"), nullable=kind.value_contains_null)


def reads_the_same(old: Seen, new: Seen) -> bool:
    """Whether rows written under the one schema are rows of the other, and the same ones."""
    for path, (word, nullable) in old.items():
        if path not in new or new[path][0] != word or (nullable and not new[path][1]):
            return False
    # What is not in the file is null; inside of an array or a map that is null there is nothing.
    added = [path for path in new if path not in old]
    tops = [path for path in added if path[:-1] in old]
    if any({*STEPS[1:]} & {*top} for top in tops):
        return False
    return all(
        new[path][1] for path in added for top in tops if path[: len(top)] == top and not {*STEPS} & {*path[len(top) :]}
    )


@given(SCHEMAS, SCHEMAS)
def test_schemas_change_as_a_model_of_reading_files_says(old: StructType, new: StructType) -> None:
    before, after = (
        msgspec.structs.replace(ID, schema_string=schema_string(each), partition_columns=[]) for each in (old, new)
    )
    assert (breaches(before, after) == []) == reads_the_same(dict(seen(old)), dict(seen(new)))


@given(SCHEMAS, st.data())
def test_schemas_that_grow_by_nullable_columns_may_change(old: StructType, data: st.DataObject) -> None:
    taken = {each.name.lower() for each in old.fields}
    added = [Field(name, data.draw(LEAVES)) for name in ("d", "e") if name not in taken]
    fields = data.draw(st.permutations([*old.fields, *added]))
    before = msgspec.structs.replace(ID, schema_string=schema_string(old), partition_columns=[])
    after = msgspec.structs.replace(before, schema_string=schema_string(StructType(tuple(fields))))
    assert breaches(before, after) == []
    assert breaches(after, before) != []
