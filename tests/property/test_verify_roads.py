"""What looks at many lines or rows at once finds what looks at one after the other finds."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.delta import lines
from deltamirror.delta.actions import Action, Add, DeletionVector, Metadata, Protocol
from deltamirror.delta.definition import TableDefinition, first_actions
from deltamirror.delta.keys import have_distinct_keys, repeated_key
from deltamirror.delta.schema import from_ddl
from deltamirror.deltalog.checkpoint.decoded import adds_table
from deltamirror.deltalog.checkpoint.layout import FILES
from deltamirror.deltalog.rules import commits
from deltamirror.deltalog.rules.commits import CommitRules
from deltamirror.deltalog.rules.findings import Finding, LogObject
from deltamirror.errors import DeltaMirrorError
from deltamirror.ops.diff import comparing
from deltamirror.ops.verify import verifying
from deltamirror.txnlog.content.rows import ADD_COLUMNS, add_of

pytestmark = pytest.mark.requirement("R70")

STATS = (
    None,
    "",
    "{}",
    '{"numRecords":3}',
    '{"numRecords": 3}',
    '{"numRecords":3,"numRecords":4}',
    '{"numRecords":3,"minValues":{"id":1,"price":1.50},"maxValues":{"id":2},"nullCount":{"id":0}}',
    '{"numRecords":3,"minValues":{"id":1,"price":1.5,"id":2}}',
    '{"numRecords":3,"minValues":{"id":"x"}}',
    '{"numRecords":3,"minValues":{"id":9223372036854775808}}',
    '{"numRecords":3,"nullCount":[0]}',
    '{"numRecords":"3"}',
    '{"a\\"b":1,"a\\u0022b":2}',
    '{"numRecords":3}\n{"numRecords":4}',
    "{" * 200,
    '{"a":' * 130 + "1" + "}" * 130,
)
ADDS = st.builds(
    Add,
    path=st.sampled_from(
        ["a", "b", "day=2024-05-01/c.parquet", "d%2fe", "d%2Fe", "../f", "s3://B/f", "é", "", "x\x1fy"]
    ),
    partition_values=st.sampled_from(
        [{"day": "2024-05-01"}, {"day": None}, {}, {"day": "x"}, {"day": ""}, {"no": "1"}]
    ),
    size=st.sampled_from([0, 1, -1, 2**63 - 1]),
    modification_time=st.sampled_from([0, 1, 150_000_000, 1_700_000_000_000]),
    data_change=st.booleans(),
    stats=st.sampled_from(STATS),
    tags=st.sampled_from([None, None, {}, {"k": "v"}]),
    deletion_vector=st.sampled_from(
        [None, None, None, DeletionVector(storage_type="u", path_or_inline_dv="x", size_in_bytes=1, cardinality=1)]
    ),
    base_row_id=st.sampled_from([None, None, 0]),
)
PLAIN_ADDS = st.builds(
    Add,
    path=st.text("abc", min_size=1, max_size=3),
    partition_values=st.sampled_from([{"day": "2024-05-01"}, {"day": None}]),
    size=st.integers(0, 9),
    modification_time=st.just(1),
    data_change=st.booleans(),
    stats=st.sampled_from([None, STATS[3], STATS[6]]),
)
DAMAGES: Sequence[Callable[[bytes], bytes]] = (
    lambda line: line,
    lambda line: line[:-1],
    lambda line: line.replace(b'"size"', b'"size" '),
    lambda line: line.replace(b'"size":', b'"size":1,"size":'),
    lambda line: line.replace(b'"size":', b'"unknown":1,"size":'),
    lambda line: line.replace(b'"size":', b'"size":"1","x":'),
    lambda line: line.replace(b'"modificationTime":', b'"modificationTime":-'),
    lambda line: line.replace(b'"path":"', b'"path":"\\ud800'),
    lambda line: line.replace(b'"path":"', b'"path":"\xff'),
    lambda line: line.replace(b'"path":"', b'"path":"\\u001f'),
    lambda line: line[:-1] + b',"add":{}}',
    lambda line: b" " + line,
    lambda line: line + b"\r",
    lambda line: b"",
    lambda line: b'{"remove":{"path":"a","deletionTimestamp":1,"dataChange":true}}',
    lambda line: b'{"commitInfo":{"timestamp":1}}',
    lambda line: b'{"other":{}}',
)


def encoded(add: Add) -> bytes:
    """Any add, also one that the encoder refuses."""
    with suppress(DeltaMirrorError):
        return lines.encode(add)
    return b"{}"


ODD_LINES = st.builds(lambda add, damage: damage(encoded(add)), ADDS | PLAIN_ADDS, st.sampled_from(DAMAGES))
LINES = st.lists(PLAIN_ADDS.map(encoded), max_size=8).flatmap(
    lambda plain: st.lists(ODD_LINES, max_size=3).flatmap(lambda odd: st.permutations([*plain, *odd]))
)


def rules() -> CommitRules:
    definition = TableDefinition(
        name="t",
        location="/t",
        schema=from_ddl("id long, price double, day date"),
        partition_by=("day",),
        properties={},
    )
    metadata, protocol, *_ = first_actions(definition, created_time=0, fresh=lambda: "x")
    assert isinstance(metadata, Metadata)
    assert isinstance(protocol, Protocol)
    made = CommitRules()
    made.begin(protocol, metadata)
    return made


def examined(blocks: Sequence[bytes]) -> list[Finding | Action]:
    return list(rules().examined(LogObject("/t", "_delta_log/1.json"), 1, lambda: blocks))


@given(st.lists(LINES, max_size=3), st.booleans())
def test_lines_break_the_same_rules_at_once_and_one_by_one(parts: list[list[bytes]], has_end: bool) -> None:
    blocks = [b"".join(line + b"\n" for line in part) for part in parts]
    blocks = [block for block in blocks if block]
    if blocks and not has_end:
        blocks[-1] = blocks[-1].removesuffix(b"\n")
    with patch.object(commits, "canonical_adds", return_value=None):
        singly = examined(blocks)
    assert examined(blocks) == singly


@given(st.lists(PLAIN_ADDS, min_size=1, max_size=8, unique_by=lambda add: add.path))
def test_plain_lines_are_not_looked_at_one_by_one(adds: list[Add]) -> None:
    with patch.object(commits, "_decoded_part", side_effect=AssertionError):
        found = examined([lines.encode_commit(adds)])
    assert [each for each in found if isinstance(each, Add)] == adds


@given(LINES)
def test_canonical_adds_are_what_the_lines_say(some: list[bytes]) -> None:
    data = b"\n".join(some)
    adds = lines.canonical_adds(data)
    if adds is not None:
        assert adds == lines.decode_commit(data)


ROWS = st.tuples(
    st.sampled_from(["a", "b", "é", None, 1]),
    st.sampled_from(['{"day":"x"}', '{"b":null,"a":"1"}', "{}", "[]", "{", '{"day":1}', None, 1]),
    st.sampled_from([1, 2**63 - 1, "1", "x", 1.5, None]),
    st.sampled_from([1, "x", None]),
    st.booleans(),
    st.sampled_from([None, "{}", 1]),
    st.sampled_from([None, "{}", '{"k":"v"}', "{"]),
    st.sampled_from([None, '{"storageType":"u","pathOrInlineDv":"x","sizeInBytes":1,"cardinality":1}', "{}"]),
    st.sampled_from([None, 1, "x"]),
    st.sampled_from([None, 1]),
    st.sampled_from([None, "p"]),
    st.just(7),
)
GOOD_ROWS = st.tuples(
    st.text(max_size=3),
    st.sampled_from(['{"day":"x"}', '{"b":null,"a":"1"}', "{}"]),
    st.integers(0, 9),
    st.integers(0, 9),
    st.booleans(),
    st.sampled_from([None, "{}"]),
    st.sampled_from([None, '{"k":"v"}']),
    st.sampled_from([None, '{"storageType":"u","pathOrInlineDv":"x","sizeInBytes":1,"cardinality":1}']),
    st.sampled_from([None, 1]),
    st.sampled_from([None, 1]),
    st.sampled_from([None, "p"]),
    st.just(7),
)


def outcome(work: Callable[[], pa.Table]) -> object:
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - whatever it is, both have to end with it
        return type(error), str(error)


def singly(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    return adds_table([(0, add_of(row)) for row in rows]).select(FILES.names)


@given(st.lists(GOOD_ROWS, min_size=1, max_size=6), st.lists(ROWS, max_size=1))
def test_rows_become_the_same_files_by_columns_and_one_by_one(
    good: list[tuple[Any, ...]], odd: list[tuple[Any, ...]]
) -> None:
    assert len(ADD_COLUMNS) == len(good[0]) - 1
    rows = [*good, *odd]
    assert outcome(lambda: verifying._rows_table(rows)) == outcome(lambda: singly(rows))


@given(st.lists(GOOD_ROWS, max_size=4), st.lists(GOOD_ROWS, max_size=1), st.booleans())
def test_files_that_are_the_same_at_once_do_not_differ(
    rows: list[tuple[Any, ...]], others: list[tuple[Any, ...]], in_order: bool
) -> None:
    ordered = sorted(rows, key=lambda row: (row[0].encode(), row[7] or "")) if in_order else rows
    one, other = singly(ordered), singly([*ordered, *others])
    with patch.object(comparing, "_is_same", return_value=False):
        slowly = list(comparing._among_files(one, other))
    assert list(comparing._among_files(one, other)) == slowly


def distinct(pairs: list[tuple[str, object]]) -> object:
    if len({key for key, _ in pairs}) < len(pairs):
        raise KeyError
    return dict(pairs)


def has_repeated_key(text: str) -> bool:
    try:
        json.loads(text, object_pairs_hook=distinct)
    except KeyError:
        return True
    except (ValueError, RecursionError):
        return False
    return False


def objects() -> Iterator[st.SearchStrategy[str]]:
    key = st.sampled_from(['"a"', '"b"', '"a\\"b"', '"\\u0061"', '"a\\u0022b"', '"é"'])
    leaf = st.sampled_from(["1", "1.50", "null", '"x"', '"\\u0022"', '"\\""', "[1,1]"])
    value = leaf
    for _ in range(2):
        pair = st.tuples(key, st.sampled_from([":", " : "]), value).map("".join)
        value = leaf | st.lists(pair, max_size=3).map(lambda pairs: "{" + ",".join(pairs) + "}")
        yield value


@given(st.lists(list(objects())[-1], max_size=5))
def test_keys_are_distinct_where_no_text_has_one_twice(texts: list[str]) -> None:
    assert [repeated_key(text) is not None for text in texts] == list(map(has_repeated_key, texts))
    assert have_distinct_keys(texts) == (not any(map(has_repeated_key, texts)))
