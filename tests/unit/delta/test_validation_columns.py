"""Metadata of columns: what Delta Spark cannot read there makes the whole table unreadable."""

import pytest

from deltamirror.delta.validation.columns import unreadable_key

pytestmark = pytest.mark.requirement("R119")

IDENTITY: dict[str, object] = {
    "delta.identity.start": 1,
    "delta.identity.step": 2,
    "delta.identity.allowExplicitInsert": False,
    "delta.identity.highWaterMark": 9,
}
READABLE: list[dict[str, object]] = [
    {},
    {"comment": "", "anything": None, "else": {"deep": [1, 2], "empty": [], "none": None}},
    {"delta.invariants": '{"expression":{"expression":"id > 0"}}'},
    IDENTITY,
    {"delta.typeChanges": [{"fromType": "short", "toType": "integer"}]},
    {"__CHAR_VARCHAR_TYPE_STRING": "varchar(10)"},
    {"__CHAR_VARCHAR_TYPE_STRING": "array<struct<a:char(3),b:decimal(5,2)>>"},
    {"delta.generationExpression": "CAST(at AS DATE)", "CURRENT_DEFAULT": "1", "EXISTS_DEFAULT": "1"},
]
UNREADABLE: list[tuple[dict[str, object], str]] = [
    ({"comment": 5}, "comment"),
    ({"delta.invariants": "garbage"}, "delta.invariants"),
    ({"delta.invariants": {"expression": {"expression": "id > 0"}}}, "delta.invariants"),
    ({"delta.identity.start": 1}, "delta.identity.start"),
    ({**IDENTITY, "delta.identity.step": 0}, "delta.identity.step"),
    ({**IDENTITY, "delta.identity.start": 2**63}, "delta.identity.start"),
    ({"delta.typeChanges": "x"}, "delta.typeChanges"),
    ({"delta.typeChanges": ["x"]}, "delta.typeChanges"),
    ({"__CHAR_VARCHAR_TYPE_STRING": "varchar(x)"}, "__CHAR_VARCHAR_TYPE_STRING"),
    ({"a": {"b": [1, None]}}, "a"),
    ({"a": [1, "b"]}, "a"),
    ({"a": [[1]]}, "a"),
]


@pytest.mark.parametrize("metadata", READABLE)
def test_what_delta_spark_reads_is_in_order(metadata: dict[str, object]) -> None:
    assert unreadable_key(metadata) is None


@pytest.mark.parametrize(("metadata", "key"), UNREADABLE)
def test_what_delta_spark_fails_at_is_named(metadata: dict[str, object], key: str) -> None:
    assert unreadable_key(metadata) == key
