"""The pointer to the newest checkpoint."""

import pickle
from hashlib import md5

import msgspec
import pytest
from msgspec.structs import replace

from deltamirror.delta import lastcheckpoint
from deltamirror.delta.actions import Sidecar
from deltamirror.delta.lastcheckpoint import (
    LastCheckpoint,
    PointerReading,
    Trust,
    V2Checkpoint,
    content_checksum,
    decode,
    encode,
)

pytestmark = pytest.mark.requirement("R15")

POINTER = LastCheckpoint(
    version=10,
    size=13,
    size_in_bytes=14800,
    num_of_add_files=1,
    checkpoint_schema=msgspec.Raw(b'{"type":"struct","fields":[]}'),
)


def v2(entries: int) -> LastCheckpoint:
    sidecar = Sidecar(path="s.parquet", size_in_bytes=1, modification_time=2)
    checkpoint = V2Checkpoint(
        path="00000000000000000010.checkpoint.u.json",
        size_in_bytes=1,
        modification_time=2,
        non_file_actions=(msgspec.Raw(b'{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}'),) * entries,
        sidecar_files=(sidecar,) * entries,
    )
    return LastCheckpoint(version=10, size=13, v2_checkpoint=checkpoint)


@pytest.mark.requirement("R66")
def test_the_checksum_is_that_of_the_test_vector_of_the_protocol() -> None:
    text = """{"k0":"'v 0'","checksum":"x","k1":{"k2":2,"k3":["v3",[1,2],{"k4":"v4","k5":["v5","v6","v7"]}]}}"""
    assert content_checksum(text) == "6a92d155a59bf2eecbd4b4ec7fd1f875"


def test_the_checksum_does_not_depend_on_the_order_of_members() -> None:
    assert content_checksum('{"a":1,"b":[true,null]}') == content_checksum(' {"b": [true, null], "a": 1} ')


def test_whole_texts_are_sorted_not_paths() -> None:
    # "1=" sorts after "10=" but the path "1" before "10"
    numbers = ",".join(str(number) for number in range(11))
    assert content_checksum(f'{{"a":[{numbers}]}}') == "26c8f42e4e36454566d2e18188b66b1e"


def test_every_kind_of_value_is_in_the_checksum_as_it_is_written() -> None:
    texts = '"a"=null,"b"=true,"c"=false,"d"=1.50,"e"=1E2,"f%2Fg"="x%20y%2Fz"'
    content = '{"a":null,"b":true,"c":false,"d":1.50,"e":1E2,"f/g":"x y/z","h":{},"i":[]}'
    assert content_checksum(content) == md5(texts.encode(), usedforsecurity=False).hexdigest()


@pytest.mark.requirement("R66")
def test_the_bytes_are_one_line_that_ends_with_the_checksum() -> None:
    data = encode(POINTER).decode()
    head, checksum = data.removesuffix('"}\n').split(',"checksum":"')
    assert head == (
        '{"version":10,"size":13,"sizeInBytes":14800,"numOfAddFiles":1,"checkpointSchema":{"type":"struct","fields":[]}'
    )
    assert checksum == content_checksum(data)


@pytest.mark.parametrize("pointer", [POINTER, v2(1), v2(30), LastCheckpoint(version=0, size=1, parts=2)])
def test_a_pointer_survives_its_bytes_and_a_process_boundary(pointer: LastCheckpoint) -> None:
    assert decode(encode(pointer)) == PointerReading(pointer, Trust.VERIFIED)
    copy = pickle.loads(pickle.dumps(pointer))  # noqa: S301 - its own bytes
    assert encode(copy) == encode(pointer)


def test_what_is_too_long_for_a_pointer_is_left_out() -> None:
    padding = "x" * (20_000 - len('{"type":""}'))
    longest = msgspec.Raw(f'{{"type":"{padding}"}}'.encode())
    longer = msgspec.Raw(f'{{"type":"x{padding}"}}'.encode())
    assert b"checkpointSchema" in encode(LastCheckpoint(version=1, size=1, checkpoint_schema=longest))
    assert b"checkpointSchema" not in encode(LastCheckpoint(version=1, size=1, checkpoint_schema=longer))
    assert b"nonFileActions" not in encode(v2(31))
    assert b"sidecarFiles" not in encode(v2(31))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"version":3}', LastCheckpoint(version=3)),
        (b'{"version":9223372036854775807}', LastCheckpoint(version=2**63 - 1)),
        (b'{"version":3,"size":1}\n', LastCheckpoint(version=3, size=1)),
        (
            b'{"size":1,"parts":null,"version":3,"checkpointSchema":null,"tags":{"a":"b"}}',
            LastCheckpoint(version=3, size=1),
        ),
    ],
)
def test_pointers_of_other_writers_are_understood(data: bytes, expected: LastCheckpoint) -> None:
    assert decode(data) == PointerReading(expected, Trust.UNVERIFIED)


def test_a_schema_that_is_longer_than_ours_is_not_kept_in_memory() -> None:
    """Other writers may have any, and many of them."""
    found = lastcheckpoint._schema_leaves.cache_info().currsize
    for number in range(2):
        text = f'{{"version":1,"size":1,"checkpointSchema":{{"a{number}":["{"x" * 20_000}"]}}}}'
        stated = f'{text[:-1]},"checksum":"{content_checksum(text)}"}}'
        assert decode(stated.encode()).trust is Trust.VERIFIED
        assert decode(stated.replace("xx", "xy", 1).encode()).trust is Trust.DAMAGED
    assert lastcheckpoint._schema_leaves.cache_info().currsize == found


def test_a_torn_pointer_is_readable_but_not_usable() -> None:
    torn = encode(POINTER).replace(b'"version":10', b'"version":20')
    reading = decode(torn)
    assert reading.pointer is not None
    assert (reading.pointer.version, reading.trust, reading.version) == (20, Trust.DAMAGED, None)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"{}",
        b"[]",
        b"3",
        b"\xff",
        b'{"version":"3"}',
        b'{"version":-1,"size":1}',
        b'{"version":9223372036854775808,"size":1}',
        b'{"version":1180591620717411303424,"size":1}',
        b'{"version":3,"version":4,"checksum":"x"}',
        b'{"version":3,"tags":NaN}',
        b'{"version":3,"checkpointSchema":NaN}',
        b'{"version":3,"tags":"\\ud800","checksum":"x"}',
        b'{"version":3,"tags":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_what_is_no_pointer_is_damaged_and_raises_nothing(data: bytes) -> None:
    assert decode(data) == PointerReading(None, Trust.DAMAGED)


SCHEMAS = (
    '{"type":"struct","fields":[]}',
    '{"type":"struct","fields":[{"name":"a b","type":"long","nullable":true,"metadata":{}}]}',
    '{ "fields" : [ {"name": 1.50, "checksum": "x"}, null ] }',
    '{"checkpointSchema":{"a":1}}',
    '{"a":1,"a":1}',
    '{"a":{"b":1,"b":2}}',
    "{}",
    '["a",{"b":1}]',
    '"{}"',
    "null",
)


def plain_checksum(text: str) -> str:
    """As it is defined, of the whole text."""
    return content_checksum(text)


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize(
    "form",
    [
        '{{"version":3,"checkpointSchema":{0}}}',
        '{{ "checkpointSchema" : {0} , "version" : 3 }}',
        '{{"version":3,"tags":{0},"checkpointSchema":{0}}}',
        '{{"version":3,"tags":{{"a":[{0}]}},"checkpointSchema":{{"a":[{0}]}}}}',
        '{{"checkpointSchema":{{"other":1}},"version":3,"checkpointSchema":{0}}}',
        '{{"version":3,"size":{0},"version":4}}',
    ],
)
def test_a_schema_that_was_seen_before_changes_no_judgement(form: str, schema: str) -> None:
    text = form.format(schema)
    try:
        stated = plain_checksum(text)
    except ValueError:  # a key comes twice
        assert decode(f'{text[:-1]},"checksum":"x"}}'.encode()) == PointerReading(None, Trust.DAMAGED)
        return
    right, wrong = (decode(f'{text[:-1]},"checksum":"{each}"}}'.encode()) for each in (stated, "x" * 32))
    if right.pointer is not None:
        assert (right.trust, wrong.trust) == (Trust.VERIFIED, Trust.DAMAGED)
        assert content_checksum(text, right.pointer.checkpoint_schema) == stated


def test_one_letter_of_a_schema_is_noticed() -> None:
    data = encode(replace(POINTER, checkpoint_schema=msgspec.Raw(b'{"type":"struct","fields":[{"name":"id"}]}')))
    for place in range(data.index(b'{"type"'), data.index(b',"checksum"') - 2):
        changed = bytearray(data)
        changed[place] ^= 1
        assert decode(bytes(changed)).trust is Trust.DAMAGED


def test_a_pointer_never_goes_back() -> None:
    current = decode(encode(POINTER))
    assert not LastCheckpoint(version=9, size=1).may_follow(current)
    assert LastCheckpoint(version=10, size=1).may_follow(current)
    assert LastCheckpoint(version=11, size=1).may_follow(current)


def test_a_damaged_pointer_may_be_replaced() -> None:
    assert LastCheckpoint(version=0, size=1).may_follow(decode(b""))
    assert LastCheckpoint(version=0, size=1).may_follow(decode(encode(POINTER).replace(b":13", b":14")))
