"""Lines at their edges: canonical forms, values that JSON does not have, ends, repeated keys, the longest line."""

from collections.abc import Callable

import msgspec
import pytest

from deltamirror.delta.actions import Action, Add, CommitInfo, Remove, Txn
from deltamirror.delta.bounds import LONGEST_LINE, MOST_BLANKS
from deltamirror.delta.lines import (
    bounded,
    canonical_json,
    canonical_line,
    decode,
    decode_admitted,
    decode_commit,
    encode,
    encode_commit,
    json_bytes,
    json_text,
    read_ndjson,
    with_end,
)
from deltamirror.delta.shapes import ShapeRule
from deltamirror.errors import InvalidAction, InvalidInput, InvalidLine

pytestmark = pytest.mark.requirement("R5")

TXN = Txn(app_id="a", version=1)
LINE = b'{"txn":{"appId":"a","version":1}}'


def add(path: str = "a", **fields: object) -> Add:
    common = {"path": path, "partition_values": {}, "size": 0, "modification_time": 0, "data_change": True}
    return Add(**{**common, **fields})  # type: ignore[arg-type]


def of_length(length: int) -> Txn:
    """A transaction whose line has so many bytes."""
    return Txn(app_id="a" * (length - len(LINE) + 1), version=1)


def test_equal_actions_have_one_canonical_line() -> None:
    first, second = add(partition_values={"x": "1", "b": None}), add(partition_values={"b": None, "x": "1"})
    assert (
        canonical_line(first)
        == canonical_line(second)
        == (
            b'{"add":{"dataChange":true,"modificationTime":0,"partitionValues":{"b":null,"x":"1"},"path":"a","size":0}}'
        )
    )
    assert encode(first) != encode(second)


def test_canonical_json_is_sorted_and_other_json_keeps_its_order() -> None:
    value = {"b": [1, True, None], "a": "\x1f é"}
    assert canonical_json(value) == '{"a":"\\u001f é","b":[1,true,null]}'.encode()
    assert json_bytes(value) == '{"b":[1,true,null],"a":"\\u001f é"}'.encode()
    assert json_text(value) == '{"b":[1,true,null],"a":"\\u001F é"}'


@pytest.mark.parametrize("write", [canonical_json, json_bytes, json_text])
def test_a_value_without_a_form_in_json_is_refused(write: Callable[[object], object]) -> None:
    with pytest.raises(InvalidInput, match="cannot be written as JSON") as caught:
        write({"a": object()})
    assert caught.value.hint == "give texts, numbers, lists and mappings"
    with pytest.raises(InvalidInput, match=r"\\udcff' cannot be written: surrogates") as caught:
        write(["\udcff"])
    assert caught.value.hint == "text is UTF-8"


@pytest.mark.parametrize("write", [encode, canonical_line, lambda action: encode_commit([TXN, action])])
@pytest.mark.parametrize(("path", "rule"), [("\udcff", ShapeRule.TEXT), (object(), ShapeRule.WRONG_TYPE)])
def test_an_action_that_cannot_be_written_is_refused_by_name(
    write: Callable[[Action], bytes], path: str, rule: ShapeRule
) -> None:
    with pytest.raises(InvalidAction) as caught:
        write(add(path))
    assert (caught.value.rule, caught.value.action) == (rule, "add")


def test_a_remove_without_partition_values_or_nulls_among_them_is_written_as_it_is() -> None:
    without_null: list[dict[str, str | None] | None] = [None, {}, {"p": "x"}]
    for values in without_null:
        remove = Remove(path="a", data_change=True, partition_values=values)
        assert decode(encode(remove)) == decode(encode_commit([remove])) == remove
    with_null = Remove(path="a", data_change=True, partition_values={"p": None, "q": "x"})
    assert encode_commit([with_null]) == encode(with_null) + b"\n"
    assert b'"partitionValues":{"q":"x"}' in encode(with_null)


@pytest.mark.parametrize(("line", "ended"), [(b"a", b"a\n"), (b"a\n", b"a\n"), (b"a\r", b"a\r\n"), (b"", b"\n")])
def test_a_line_has_one_end(line: bytes, ended: bytes) -> None:
    assert with_end(line) == ended


def test_a_line_that_is_to_be_committed_has_no_key_twice() -> None:
    assert decode_admitted(LINE, number=3) == TXN
    with pytest.raises(InvalidAction) as caught:
        decode_admitted(b'{"txn":{"appId":"a","version":1,"x":{"k":1,"k":2}}}', number=3)
    assert (caught.value.rule, caught.value.action, caught.value.field) == (ShapeRule.REPEATED_KEY, "txn", "k")
    assert "line 3" in caught.value.message


def test_an_error_names_the_line_and_its_source() -> None:
    with pytest.raises(InvalidLine, match=r"^line 7: "):
        decode(b"{", number=7)
    with pytest.raises(InvalidLine, match=r"^line: "):
        decode("{")
    with pytest.raises(InvalidLine, match=r"^a\.json, line 3: ") as caught:
        decode_commit(LINE + b"\n\n{", source="a.json")
    assert (caught.value.source, caught.value.line) == ("a.json", 3)
    with pytest.raises(InvalidAction) as wrong:
        list(read_ndjson([b"\n", LINE, b'{"txn":{"appId":"a"}}'], source="pipe"))
    assert (wrong.value.action, wrong.value.index) == ("txn", 1)


def test_a_time_before_1970_is_refused_and_that_moment_is_not() -> None:
    assert decode(b'{"txn":{"appId":"a","version":1,"lastUpdated":0}}') == msgspec.structs.replace(TXN, last_updated=0)
    with pytest.raises(InvalidAction) as caught:
        decode(b'{"txn":{"appId":"a","version":1,"lastUpdated":-1}}')
    assert caught.value.rule == ShapeRule.NEGATIVE_TIME


def test_metrics_and_tags_of_other_writers_become_texts_and_nothing_else_does() -> None:
    assert decode(b'{"commitInfo":{"tags":{"t":1}}}') == CommitInfo(tags={"t": "1"})
    with pytest.raises(InvalidAction):
        decode(b'{"commitInfo":{"operation":1}}')


def test_a_line_is_as_long_as_readers_take_it_and_no_longer() -> None:
    longest, longer = of_length(LONGEST_LINE), of_length(LONGEST_LINE + 1)
    assert len(encode(longest)) == LONGEST_LINE
    assert encode_commit([longest]) == encode(longest) + b"\n"
    message = f"^line: txn would be a line of more than {LONGEST_LINE:,} bytes"
    for write in (encode, lambda action: encode_commit([TXN, action])):
        with pytest.raises(InvalidLine, match=message):
            write(longer)


def test_a_stream_has_lines_and_blanks_within_bounds() -> None:
    within = [b"x" * LONGEST_LINE + b"\n", b" " * (MOST_BLANKS - 1) + b"\n", LINE]
    assert list(bounded(within)) == within
    with pytest.raises(InvalidLine, match=f"^pipe, line 2: a line of more than {LONGEST_LINE:,} bytes"):
        list(bounded([LINE, b"x" * LONGEST_LINE + b"x\n"], source="pipe"))
    with pytest.raises(InvalidLine, match=f"^pipe, line 3: more than {MOST_BLANKS:,} bytes of blank lines"):
        list(bounded([b"\n", LINE, b" " * MOST_BLANKS], source="pipe"))


def test_an_admitted_line_that_is_none_is_named_by_its_number() -> None:
    with pytest.raises(InvalidLine) as caught:
        decode_admitted(b"x", number=7)
    assert (caught.value.source, caught.value.line) == ("", 7)


def test_a_commit_without_a_source_is_named_by_its_lines_alone() -> None:
    with pytest.raises(InvalidLine) as caught:
        decode_commit(LINE + b"\nx\n")
    assert (caught.value.source, caught.value.line) == ("", 2)


def test_fields_that_we_do_not_know_stay_out_of_the_view_of_a_commit() -> None:
    assert decode_commit(b'{"txn":{"appId":"a","version":1,"future":1}}') == [TXN]


def test_metrics_that_are_no_texts_may_stand_beside_fields_that_we_do_not_know() -> None:
    action = decode(b'{"commitInfo":{"timestamp":1,"operationMetrics":{"numFiles":1},"future":"x"}}')
    assert action == CommitInfo(timestamp=1, operation_metrics={"numFiles": "1"})


def test_a_line_that_is_too_long_is_named_by_its_source() -> None:
    long = [b"x" * (LONGEST_LINE + 1)]
    with pytest.raises(InvalidLine) as named:
        list(read_ndjson(long, source="input"))
    with pytest.raises(InvalidLine) as unnamed:
        list(bounded(long))
    assert (named.value.source, unnamed.value.source) == ("input", "")
