"""A key that comes twice in one object is found, wherever the object is."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.delta.keys import repeated_key
from deltamirror.delta.lines import decode, decode_admitted, encode, read_ndjson
from deltamirror.delta.validation import TableRules, plain_block
from deltamirror.errors import InvalidAction
from tests.support.lakes.validation import ADD, PLAIN, TABLE

pytestmark = pytest.mark.requirement("R5")

ADDED = encode(ADD).decode()
TWICE = {
    "size": ADDED.replace('"size":10', '"size":10,"size":11'),
    "day": ADDED.replace('"day":', '"day":null,"day":'),
    "unknown": ADDED.replace('"size":10', '"size":10,"more":{"unknown":1,"unknown":1}'),
    "path": ADDED.replace('"path"', '"p\\u0061th":"x", "path"'),
}


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{"a":1,"a":1}', "a"),
        ('{"a":[{"b":{"c":1,"c":2}}]}', "c"),
        ('{"a": 1, "\\u0061": 2}', "a"),
        ('{"a":1.50,"b":2,"b":{}}', "b"),
        ('{"":1,"":2}', ""),
        ('{"a":{"b":1},"b":{"a":1}}', None),
        ('{ "a" : 1.50 }\n', None),
        ("[1, 2]", None),
        ("{", None),
        ("[" * 100_000, None),
    ],
)
def test_a_repeated_key_is_named(text: str, key: str | None) -> None:
    assert repeated_key(text) == repeated_key(text.encode()) == key


@given(st.recursive(st.integers() | st.floats(allow_nan=False) | st.text(), lambda x: st.dictionaries(st.text(), x)))
def test_what_has_distinct_keys_passes(value: object) -> None:
    assert repeated_key(json.dumps(value)) is None


@pytest.mark.parametrize("key", TWICE)
def test_a_line_with_a_key_twice_is_not_committed(key: str) -> None:
    line = TWICE[key].encode()
    with pytest.raises(InvalidAction) as caught:
        decode_admitted(line, number=7)
    assert (caught.value.rule, caught.value.field) == ("shape.repeated-key", key)
    assert caught.value.message.startswith("line 7: ")
    with pytest.raises(InvalidAction):
        list(read_ndjson([line], source="here"))


def test_a_history_with_a_key_twice_can_be_read() -> None:
    """A table of another writer is imported as it is."""
    assert decode(TWICE["unknown"]) == ADD


@pytest.mark.parametrize("stats", ['{"numRecords":3,"numRecords":4}', '{"numRecords":3,"nullCount":{"id":0,"id":1}}'])
def test_statistics_with_a_key_twice_are_refused_in_large_commits_too(stats: str) -> None:
    rules = TableRules.of(PLAIN, TABLE)
    odd = msgspec.structs.replace(ADD, stats=stats)
    assert plain_block(rules, [ADD, odd]) is None
    with pytest.raises(InvalidAction) as caught:
        rules.check(odd)
    assert caught.value.rule == "add.stats.repeated-key"
