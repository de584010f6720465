"""What is said of a line that does not have the shape of an action."""

from pathlib import Path

import pytest

from deltamirror.delta.lines import decode
from deltamirror.delta.shapes import TIMES, Place, ShapeRule, explain, hides_something, oversized, unencodable, untyped
from deltamirror.errors import InvalidAction, InvalidLine, Unsupported

pytestmark = pytest.mark.requirement("R5")

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "actions.md"
PLACE = Place("in.ndjson", 7, 3)
ONE_ACTION = 'write one action a line, such as {"add":{…}}'


def refused(line: bytes, *, authored: bool = True) -> InvalidAction:
    error = explain(line, authored=authored, place=PLACE)
    assert isinstance(error, InvalidAction)
    return error


@pytest.mark.parametrize("rule", ShapeRule)
def test_a_rule_and_its_remedy_are_those_of_the_reference(rule: ShapeRule) -> None:
    assert f"| `{rule.value}` | {rule.remedy} |" in REFERENCE.read_text().splitlines()


def test_the_place_of_a_line_has_its_source_and_its_number() -> None:
    assert [str(each) for each in (Place(), Place(line=2), Place("a"), PLACE)] == [
        "line",
        "line 2",
        "a, line",
        "in.ndjson, line 7",
    ]
    assert (Place().source, Place().line, Place().index) == ("", None, None)


def test_an_error_has_all_that_is_known_of_the_field() -> None:
    error = refused(b'{"txn":{"appId":"a","version":"1"}}')
    assert str(error) == "in.ndjson, line 7: txn.version has a wrong type: Expected `int`, got `str`"
    assert (error.rule, error.action, error.index, error.field) == (ShapeRule.WRONG_TYPE, "txn", 3, "version")
    assert (error.found, error.hint) == ('"1"', ShapeRule.WRONG_TYPE.remedy)


@pytest.mark.parametrize(
    ("line", "rule", "message", "found"),
    [
        (b'{"txn":[]}', ShapeRule.BODY, "txn has to be an object, not a JSON array", "[]"),
        (b'{"txn":true}', ShapeRule.BODY, "txn has to be an object, not a JSON boolean", "true"),
        (b'{"txn":{"appId":"a"}}', ShapeRule.MISSING_FIELD, "txn.version is missing", "null"),
        (
            b'{"txn":{"app_id":"a","version":1}}',
            ShapeRule.SNAKE_CASE,
            "txn.app_id has to be spelled 'appId'",
            '"app_id"',
        ),
        (
            b'{"txn":{"appId":"a","version":1,"x":2}}',
            ShapeRule.UNKNOWN_FIELD,
            "txn.x is not a field of this action",
            "2",
        ),
        (
            b'{"txn":{"appId":"a","version":1,"version":2}}',
            ShapeRule.REPEATED_KEY,
            "txn.version comes twice in one object",
            '"version"',
        ),
        (
            b'{"domainMetadata":{"domain":"d","configuration":[],"removed":true}}',
            ShapeRule.JSON_TEXT,
            "domainMetadata.configuration has to be a string that holds JSON, not JSON itself",
            "[]",
        ),
        (
            b'{"commitInfo":{"timestamp":-1}}',
            ShapeRule.NEGATIVE_TIME,
            "commitInfo.timestamp has to be milliseconds since 1970, and not negative",
            "-1",
        ),
    ],
)
def test_each_shape_is_named_with_the_value_that_has_it(line: bytes, rule: ShapeRule, message: str, found: str) -> None:
    error = refused(line)
    assert (error.rule, str(error), error.found) == (rule, f"in.ndjson, line 7: {message}", found)


def test_a_line_of_another_writer_may_have_fields_and_keys_that_ours_may_not() -> None:
    for line in (b'{"txn":{"appId":"a","version":1,"x":2}}', b'{"txn":{"appId":"a","version":1,"version":2}}'):
        error = explain(line, authored=False, place=PLACE)
        assert isinstance(error, InvalidLine)
        assert str(error) == "in.ndjson, line 7: not a well-formed txn"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "not JSON: Input data was truncated"),
        (b"[]", "a JSON array instead of an object"),
        (b'"add"', "a JSON string instead of an object"),
        (b"null", "a JSON null instead of an object"),
        (b"1.5", "a JSON number instead of an object"),
        (b"{}", "has to hold exactly one action, found none"),
        (b'{"a":1,"b":2}', "has to hold exactly one action, found several (a, b)"),
        (b'"\xff"', "not UTF-8: invalid start byte at byte 1"),
        (b"\xef\xbb\xbf{}", "begins with a byte order mark; save the file as UTF-8 without one"),
        (rb'"\ud800"', "has a surrogate escape that is not part of a pair"),
        (b"[" * 100_000, "nested too deeply"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_line_that_is_no_action_is_told_apart_from_others(line: bytes, message: str) -> None:
    error = explain(line, authored=True, place=PLACE)
    assert isinstance(error, InvalidLine)
    assert str(error) == f"in.ndjson, line 7: {message}"


def test_the_moment_at_which_times_begin_is_not_blamed_for_another_field() -> None:
    error = refused(b'{"commitInfo":{"timestamp":0,"inCommitTimestamp":0,"operation":1}}')
    assert (error.rule, error.field) == (ShapeRule.WRONG_TYPE, "operation")


def test_the_remedies_of_lines_and_actions_that_are_unknown_name_the_known_ones() -> None:
    line = explain(b"[]", authored=True, place=PLACE)
    assert isinstance(line, InvalidLine)
    assert (line.hint, line.source, line.line) == (ONE_ACTION, "in.ndjson", 7)
    action = explain(b'{"move":{}}', authored=True, place=PLACE)
    assert isinstance(action, Unsupported)
    assert action.hint == (
        "actions are add, remove, cdc, metaData, protocol, txn, domainMetadata, commitInfo, checkpointMetadata, sidecar"
    )


@pytest.mark.parametrize(("length", "shown"), [(78, '"{}"'), (79, '"{}…')])
def test_a_long_value_is_cut(length: int, shown: str) -> None:
    text = "x" * length
    assert refused(f'{{"txn":{{"appId":"a","version":"{text}"}}}}'.encode()).found == shown.format(text)


def test_a_view_hides_a_second_action_and_in_a_line_of_ours_an_unknown_field() -> None:
    hidden_in_ours = [b'{"txn":{"appId":"a","x":1}}', b'{"txn":{"appId":"a","appId":"b"}}']
    twice = b'{"txn":{"appId":"a","version":1},"txn":{"appId":"b","version":1}}'
    open_ones = [b'{"txn":{"appId":"txn","version":1}}', b'{"txn":{"appId":"a","version":1,"lastUpdated":2}}']
    assert all(hides_something(line, authored=True) for line in (*hidden_in_ours, twice))
    assert hides_something(twice, authored=False)
    assert not any(hides_something(line, authored=True) for line in open_ones)
    assert not any(hides_something(line, authored=False) for line in (*hidden_in_ours, *open_ones))
    with pytest.raises(UnicodeDecodeError):
        hides_something(b'{"txn":{"appId":"a","x":"\xff"}}', authored=False)


@pytest.mark.parametrize(
    ("name", "field", "others"),
    [
        (
            "metaData",
            "createdTime",
            '"id":"i","format":{"provider":"p","options":{}},"partitionColumns":[],"configuration":{}',
        ),
        ("sidecar", "modificationTime", '"path":"p","sizeInBytes":1'),
        ("commitInfo", "inCommitTimestamp", '"operation":"WRITE"'),
    ],
)
def test_times_of_every_action_begin_in_1970(name: str, field: str, others: str) -> None:
    decode(f'{{"{name}":{{{others},"{field}":0}}}}')
    with pytest.raises(InvalidAction) as caught:
        decode(f'{{"{name}":{{{others},"{field}":-1}}}}')
    assert (caught.value.rule, caught.value.field) == (ShapeRule.NEGATIVE_TIME, field)


def test_every_action_says_which_of_its_fields_are_times() -> None:
    assert {kind.__name__: names for kind, names in TIMES.items() if not names} == {
        "Cdc": (),
        "Protocol": (),
        "DomainMetadata": (),
        "CheckpointMetadata": (),
    }


def test_text_and_values_that_cannot_be_written_are_named_by_action_and_rule() -> None:
    try:
        "a\udcffb".encode()
    except UnicodeEncodeError as error:
        text = unencodable("add", error)
    assert str(text) == r"add holds text without a UTF-8 form: '\udcff'"
    assert (text.rule, text.hint, text.action) == (ShapeRule.TEXT, ShapeRule.TEXT.remedy, "add")
    assert text.found == r"'\udcff'"
    value = untyped("txn", TypeError("no"))
    assert str(value) == "txn cannot be written: no"
    assert (value.rule, value.hint, value.action) == (ShapeRule.WRONG_TYPE, ShapeRule.WRONG_TYPE.remedy, "txn")


def test_a_line_that_is_too_long_is_said_to_be_none_of_a_writer() -> None:
    error = oversized("a line of more", PLACE)
    assert str(error) == "in.ndjson, line 7: a line of more"
    assert (error.source, error.line) == ("in.ndjson", 7)
    assert error.hint == "Delta writers make nothing like it, and Delta readers fail at it: look at the file"
