"""The rules of actions, before a commit is put."""

from typing import Any

import pytest

from deltamirror.delta.actions import Add, CommitInfo, Format, Metadata, Protocol
from deltamirror.delta.lines import encode_commit
from deltamirror.errors import InvalidAction
from deltamirror.publish import rules
from deltamirror.publish.rules import UnitRules
from tests.support.logs.commit_units import unit_of, work_of

pytestmark = pytest.mark.requirement("R65")

INFO = CommitInfo(timestamp=1, operation="WRITE")
PROTOCOL = Protocol(min_reader_version=1, min_writer_version=2)
METADATA = Metadata(
    id="5b6c1a5e-0d5e-4b8e-9d3c-000000000001",
    format=Format(provider="parquet", options={}),
    schema_string='{"type":"struct","fields":[{"name":"p","type":"long","nullable":true,"metadata":{}},'
    '{"name":"v","type":"long","nullable":true,"metadata":{}}]}',
    partition_columns=["p"],
    configuration={},
)


def append(*, size: int = 1, day: str = "1") -> bytes:
    add = Add(path="f", partition_values={"p": day}, size=size, modification_time=1, data_change=True)
    return encode_commit([INFO, add])


def required(data: bytes, *, is_verbatim: bool = False, **fields: Any) -> None:
    work = work_of(7, data, is_verbatim=is_verbatim)
    UnitRules(unit_of([work], **fields)).require(work, memoryview(data))


def test_a_broken_rule_is_named_with_its_line_and_what_to_do() -> None:
    with pytest.raises(InvalidAction) as caught:
        required(append(size=-1), in_force=(PROTOCOL, METADATA))
    error = caught.value
    assert str(error) == (
        "version 7 of table 'sales.t' breaks the rule add.size.negative, in line 2: found -1, expected "
        "a size is a number of bytes, at least 0"
    )
    assert error.hint == (
        "nothing of it was published: this is a defect of the program that encoded it; give the length of the file; "
        "with mirror.verify at basic the table is published without this check"
    )
    assert (error.rule, error.field, error.found, error.table) == ("add.size.negative", "add.size", "-1", "sales.t")


def test_a_commit_in_order_and_a_broken_one_of_another_writer_pass() -> None:
    required(append(), in_force=(PROTOCOL, METADATA))
    required(append(size=-1), in_force=(PROTOCOL, METADATA), is_verbatim=True)


def test_the_first_of_several_broken_rules_is_told() -> None:
    with pytest.raises(InvalidAction, match=r"in line 2: .*-1"):
        required(append(size=-1) + append(size=-2), in_force=(PROTOCOL, METADATA))


def test_metadata_that_is_in_force_is_that_of_the_unit_or_of_a_commit_before() -> None:
    wrong = append(day="x")
    with pytest.raises(InvalidAction, match="partition"):
        required(wrong, in_force=(PROTOCOL, METADATA))
    first, second = work_of(0, encode_commit([INFO, PROTOCOL, METADATA])), work_of(1, wrong)
    unit_rules = UnitRules(unit_of([first, second]))
    unit_rules.require(first, encode_commit([INFO, PROTOCOL, METADATA]))
    with pytest.raises(InvalidAction, match="partition"):
        unit_rules.require(second, wrong)


@pytest.mark.parametrize(
    ("data", "blocks"),
    [
        (b"", []),
        (b"\n", [b"\n"]),
        (b"ab", [b"ab"]),
        (b"ab\ncd\n", [b"ab\n", b"cd\n"]),
        (b"ab\n\ncd", [b"ab\n\n", b"cd"]),
        (b"abcdefgh\ni\nj", [b"abcdefgh\ni\n", b"j"]),
        (b"a\nb\nc\nd\n", [b"a\nb\n", b"c\nd\n"]),
    ],
)
def test_blocks_have_whole_lines_in_order(data: bytes, blocks: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "_BLOCK_BYTES", 4)
    assert list(rules._blocks(data)) == blocks
