"""What a table may change about itself depends on the files that stay: every rule, and a model of the schema's part."""

from dataclasses import dataclass, field

import msgspec
import pytest

from deltamirror.delta.actions import Metadata, Protocol
from deltamirror.delta.evolution import ForbiddenWhile, check_change
from deltamirror.delta.validation import RULES
from deltamirror.errors import InvalidAction
from tests.support.lakes.schema_changes import (
    BY_ID,
    ID,
    MAPPED,
    PLAIN,
    WIDENING,
    Left,
    breaches,
    column,
    mapped,
    struct,
    table,
    tracking,
    widened,
)

pytestmark = pytest.mark.requirement("R5")


@dataclass(frozen=True)
class Case:
    """A change that is unlawful in a table with files, and what it takes for it to be lawful."""

    rule: str
    before: Metadata
    after: Metadata
    protocol: Protocol = PLAIN
    scope: ForbiddenWhile = ForbiddenWhile.FILES
    field: str = field(default="", compare=False)


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
