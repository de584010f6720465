"""Canonical lines, typed views, and what is said about lines that are neither."""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.delta.actions import (
    Action,
    Add,
    Cdc,
    CheckpointMetadata,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Format,
    Metadata,
    Protocol,
    Remove,
    Sidecar,
    Txn,
)
from deltamirror.delta.lines import decode, decode_commit, encode, encode_commit, json_text, read_ndjson, wire_name
from deltamirror.delta.shapes import ACTION_TYPES, ShapeRule
from deltamirror.errors import InvalidAction, InvalidLine, Unsupported

pytestmark = pytest.mark.requirement("R5")

VECTOR = DeletionVector(
    storage_type="u", path_or_inline_dv="ab^-aqEH.-t@S}K{vb[*k^", offset=4, size_in_bytes=40, cardinality=6
)
VECTOR_JSON = (
    '{"storageType":"u","pathOrInlineDv":"ab^-aqEH.-t@S}K{vb[*k^","offset":4,"sizeInBytes":40,"cardinality":6}'
)

EXAMPLES: list[tuple[Action, str]] = [
    (
        Add(path="a", partition_values={}, size=0, modification_time=0, data_change=False),
        '{"add":{"path":"a","partitionValues":{},"size":0,"modificationTime":0,"dataChange":false}}',
    ),
    (
        Add(
            path="p=a%20b/é.parquet",
            partition_values={"p": None, "q": "x"},
            size=1,
            modification_time=2,
            data_change=True,
            stats='{"numRecords":2}',
            tags={"t": ""},
            deletion_vector=VECTOR,
            base_row_id=3,
            default_row_commit_version=4,
            clustering_provider="liquid",
        ),
        '{"add":{"path":"p=a%20b/é.parquet","partitionValues":{"p":null,"q":"x"},"size":1,"modificationTime":2,'
        '"dataChange":true,"stats":"{\\"numRecords\\":2}","tags":{"t":""},"deletionVector":' + VECTOR_JSON + ","
        '"baseRowId":3,"defaultRowCommitVersion":4,"clusteringProvider":"liquid"}}',
    ),
    (Remove(path="a", data_change=True), '{"remove":{"path":"a","dataChange":true}}'),
    (
        Remove(
            path="a",
            deletion_timestamp=5,
            data_change=False,
            extended_file_metadata=True,
            partition_values={"q": "x"},
            size=1,
            tags={},
            deletion_vector=VECTOR,
            base_row_id=3,
            default_row_commit_version=4,
            stats="{}",
        ),
        '{"remove":{"path":"a","deletionTimestamp":5,"dataChange":false,"extendedFileMetadata":true,'
        '"partitionValues":{"q":"x"},"size":1,"tags":{},"deletionVector":' + VECTOR_JSON + ","
        '"baseRowId":3,"defaultRowCommitVersion":4,"stats":"{}"}}',
    ),
    (
        Cdc(path="_change_data/c", partition_values={"p": None}, size=7, tags={"k": "v"}, data_change=False),
        '{"cdc":{"path":"_change_data/c","partitionValues":{"p":null},"size":7,"tags":{"k":"v"},"dataChange":false}}',
    ),
    (
        Metadata(
            id="i",
            name="n",
            description="",
            format=Format(provider="parquet", options={}),
            schema_string='{"type":"struct","fields":[]}',
            partition_columns=[],
            configuration={"delta.appendOnly": "true"},
            created_time=9,
        ),
        '{"metaData":{"id":"i","name":"n","description":"","format":{"provider":"parquet","options":{}},'
        '"schemaString":"{\\"type\\":\\"struct\\",\\"fields\\":[]}","partitionColumns":[],'
        '"configuration":{"delta.appendOnly":"true"},"createdTime":9}}',
    ),
    (
        Protocol(min_reader_version=1, min_writer_version=2),
        '{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}',
    ),
    (
        Protocol(min_reader_version=3, min_writer_version=7, reader_features=[], writer_features=["appendOnly"]),
        '{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":[],"writerFeatures":["appendOnly"]}}',
    ),
    (Txn(app_id="loader", version=12, last_updated=8), '{"txn":{"appId":"loader","version":12,"lastUpdated":8}}'),
    (
        DomainMetadata(domain="d", configuration='{"a":[]}', removed=True),
        '{"domainMetadata":{"domain":"d","configuration":"{\\"a\\":[]}","removed":true}}',
    ),
    (
        CommitInfo(
            in_commit_timestamp=1,
            timestamp=2,
            operation="WRITE",
            operation_parameters={
                "mode": msgspec.Raw(b'"Append"'),
                "b": msgspec.Raw(b"null"),
                "c": msgspec.Raw(b"1.50"),
            },
            read_version=0,
            isolation_level="Serializable",
            is_blind_append=False,
            operation_metrics={},
            user_metadata="u",
            tags={"t": "1"},
            engine_info="e",
            txn_id="x",
        ),
        '{"commitInfo":{"inCommitTimestamp":1,"timestamp":2,"operation":"WRITE",'
        '"operationParameters":{"mode":"Append","b":null,"c":1.50},"readVersion":0,"isolationLevel":"Serializable",'
        '"isBlindAppend":false,"operationMetrics":{},"userMetadata":"u","tags":{"t":"1"},"engineInfo":"e","txnId":"x"}}',
    ),
    (CheckpointMetadata(version=4, tags={"k": "v"}), '{"checkpointMetadata":{"version":4,"tags":{"k":"v"}}}'),
    (
        Sidecar(path="s.parquet", size_in_bytes=1, modification_time=2),
        '{"sidecar":{"path":"s.parquet","sizeInBytes":1,"modificationTime":2}}',
    ),
]

ADD = {"path": "a", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}


def line_of(name: str, body: object) -> bytes:
    return json.dumps({name: body}).encode()


def path_bytes(path: str) -> bytes:
    """What ``encode`` makes of a string."""
    return encode(Add(path=path, partition_values={}, size=0, modification_time=0, data_change=True)).split(b",")[0][
        15:
    ]


@pytest.mark.requirement("R3")
@pytest.mark.parametrize(("action", "line"), EXAMPLES)
def test_an_action_is_written_with_the_reference_writers_fields_in_its_order(action: Action, line: str) -> None:
    assert encode(action).decode() == line


@pytest.mark.requirement("R3")
@pytest.mark.parametrize(("action", "line"), EXAMPLES)
def test_a_line_is_read_back_as_the_action_it_was_written_from(action: Action, line: str) -> None:
    assert encode(decode(line)) == line.encode()
    assert decode(line.encode()) == action


@pytest.mark.requirement("R3")
def test_the_examples_cover_every_action() -> None:
    assert {wire_name(action) for action, _ in EXAMPLES} == set(ACTION_TYPES)


def test_a_remove_drops_null_partition_values_and_an_add_keeps_them() -> None:
    remove = Remove(path="a", data_change=True, partition_values={"p": None, "q": "1"})
    assert encode(remove) == b'{"remove":{"path":"a","dataChange":true,"partitionValues":{"q":"1"}}}'
    assert remove.partition_values == {"p": None, "q": "1"}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ('"', r"\""),
        ("\\", r"\\"),
        ("\b\t\n\f\r", r"\b\t\n\f\r"),
        ("\x00\x01\x0b\x1f", r"\u0000\u0001\u000B\u001F"),
        ("\\u001f", r"\\u001f"),
        ("\\\x1f\\u001f\\\\\x1e", r"\\\u001F\\u001f\\\\\u001E"),
        ("\x7f", "\x7f"),
        ("/<>&'", "/<>&'"),
        ("\u0085\u2028\u2029", "\u0085\u2028\u2029"),
        ("é😀\U0010ffff", "é😀\U0010ffff"),
    ],
)
def test_strings_are_escaped_as_jackson_does(text: str, written: str) -> None:
    assert path_bytes(text).decode() == f'"{written}"'
    assert json_text(text) == f'"{written}"'


def test_every_ascii_control_character_is_escaped_as_jackson_does() -> None:
    short = {8: r"\b", 9: r"\t", 10: r"\n", 12: r"\f", 13: r"\r"}
    expected = "".join(short.get(code, f"\\u{code:04X}") for code in range(32))
    assert json_text("".join(map(chr, range(32)))) == f'"{expected}"'


def test_json_inside_of_json_keeps_its_own_escapes() -> None:
    inner = json_text({"max": "\x1f", "none": None, "list": [1, True]})
    assert inner == r'{"max":"\u001F","none":null,"list":[1,true]}'
    lower = '{"max":"\\u001f"}'
    add = Add(path="a", partition_values={}, size=0, modification_time=0, data_change=True, stats=lower)
    assert b'"stats":"{\\"max\\":\\"\\\\u001f\\"}"' in encode(add)
    assert decode(encode(add)) == add


def test_text_without_a_utf8_form_is_refused_rather_than_written_as_another_name() -> None:
    with pytest.raises(InvalidAction, match="UTF-8") as caught:
        path_bytes("part-\udcff")
    assert (caught.value.rule, caught.value.action, caught.value.found) == (ShapeRule.TEXT, "add", r"'\udcff'")


def test_each_line_of_a_commit_ends_with_a_newline() -> None:
    actions = [action for action, _ in EXAMPLES]
    assert encode_commit(actions) == "".join(f"{line}\n" for _, line in EXAMPLES).encode()
    assert encode_commit([]) == b""


def test_a_commit_may_lack_its_last_newline_and_have_blank_lines() -> None:
    data = b'\n{"txn":{"appId":"a","version":1}}\r\n  \n{"txn":{"appId":"b","version":2}}'
    assert decode_commit(data) == [Txn(app_id="a", version=1), Txn(app_id="b", version=2)]


def test_a_view_drops_unknown_fields_and_takes_explicit_nulls_for_absence() -> None:
    found = decode(line_of("add", {**ADD, "tags": None, "stats": None, "future": {"x": [1.5]}}))
    assert found == Add(path="a", partition_values={}, size=1, modification_time=1, data_change=True)


def test_a_commit_info_may_hold_anything_beside_the_known_fields() -> None:
    found = decode(
        b'{"commitInfo":{"timestamp":1,"clientVersion":"x","extra":{"a":1},"operationParameters":{"n":{"a":1}}}}'
    )
    assert isinstance(found, CommitInfo)
    assert found.operation_parameters is not None
    assert bytes(found.operation_parameters["n"]) == b'{"a":1}'
    assert decode(b'{"commitInfo":{}}') == CommitInfo()


def test_metrics_that_other_writers_leave_as_numbers_are_read_as_text() -> None:
    found = decode(
        b'{"commitInfo":{"timestamp":1,"operationMetrics":{"n":1,"s":"x","o":{"a":null}},"tags":{"t":true}}}'
    )
    assert isinstance(found, CommitInfo)
    assert found.operation_metrics == {"n": "1", "s": "x", "o": '{"a":null}'}
    assert found.tags == {"t": "true"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "not JSON"),
        (b"hello", "not JSON"),
        (b'{"add":NaN}', "not JSON"),
        (b'{"add":{"path":"a"}} {}', "not JSON"),
        (b'{"txn":{"appId":"\xff","version":1}}', "not UTF-8.*byte 17"),
        (b'{"txn":{"appId":"a","version":1,"unknown":"\xff"}}', "not UTF-8"),
        (b'\xef\xbb\xbf{"txn":{"appId":"a","version":1}}', "byte order mark"),
        (rb'{"txn":{"appId":"\ud800","version":1}}', "surrogate"),
        (rb'{"txn":{"appId":"\udc00\ud800","version":1}}', "surrogate"),
        (b"[" * 100_000, "nested too deeply"),
        (b'[{"txn":{"appId":"a","version":1}}]', "JSON array"),
        (b"[]", "JSON array"),
        (b'"add"', "JSON string"),
        (b"null", "JSON null"),
        (b"1", "JSON number"),
        (b"{}", "exactly one action, found none"),
        (b'{"txn":{"appId":"a","version":1},"add":{}}', r"exactly one action, found several \(txn, add\)"),
        (b'{"txn":{"appId":"a","version":1},"txn":{"appId":"b","version":1}}', "exactly one action"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_is_not_one_json_object_with_one_action_is_refused(line: bytes, message: str) -> None:
    with pytest.raises(InvalidLine, match=message):
        decode(line)
    with pytest.raises(InvalidLine, match=f"^f.json, line 3: .*{message}") as caught:
        decode_commit(b'{"txn":{"appId":"a","version":1}}\n\n' + line, source="f.json")
    assert (caught.value.source, caught.value.line) == ("f.json", 3)


def test_a_line_of_text_with_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(InvalidLine, match="UTF-8"):
        decode('{"txn":{"appId":"\ud800","version":1}}')


def test_an_unknown_action_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="line 1: unknown action 'checkpoint'") as caught:
        decode_commit(b'{"checkpoint":{}}')
    assert caught.value.features == ("checkpoint",)


def without(field: str) -> dict[str, object]:
    return {key: value for key, value in ADD.items() if key != field}


METADATA = {"id": "i", "format": {"provider": "parquet", "options": {}}, "schemaString": "{}", "partitionColumns": []}


@pytest.mark.parametrize(
    ("name", "body", "rule", "field"),
    [
        ("add", [], ShapeRule.BODY, ""),
        ("add", None, ShapeRule.BODY, ""),
        *[("add", without(field), ShapeRule.MISSING_FIELD, field) for field in ADD],
        ("metaData", {**METADATA}, ShapeRule.MISSING_FIELD, "configuration"),
        ("metaData", {"configuration": {}, **METADATA, "id": None}, ShapeRule.WRONG_TYPE, "id"),
        ("metaData", {"id": "i"}, ShapeRule.MISSING_FIELD, "format"),
        ("metaData", {"format": {}}, ShapeRule.MISSING_FIELD, "id"),
        ("metaData", {**METADATA, "schemaString": {"type": "struct"}}, ShapeRule.JSON_TEXT, "schemaString"),
        ("metaData", {**METADATA, "configuration": {"a": 1}}, ShapeRule.WRONG_TYPE, "configuration"),
        ("add", {**ADD, "stats": {"numRecords": 1}}, ShapeRule.JSON_TEXT, "stats"),
        ("remove", {"path": "a", "dataChange": True, "stats": []}, ShapeRule.JSON_TEXT, "stats"),
        (
            "domainMetadata",
            {"domain": "d", "configuration": {}, "removed": False},
            ShapeRule.JSON_TEXT,
            "configuration",
        ),
        ("add", {**without("dataChange"), "data_change": True}, ShapeRule.SNAKE_CASE, "data_change"),
        ("txn", {"app_id": "a", "version": 1}, ShapeRule.SNAKE_CASE, "app_id"),
        ("add", {**ADD, "size": "1"}, ShapeRule.WRONG_TYPE, "size"),
        ("add", {**ADD, "size": 1.0}, ShapeRule.WRONG_TYPE, "size"),
        ("add", {**ADD, "size": True}, ShapeRule.WRONG_TYPE, "size"),
        ("add", {**ADD, "dataChange": 1}, ShapeRule.WRONG_TYPE, "dataChange"),
        ("add", {**ADD, "partitionValues": {"p": 1}}, ShapeRule.WRONG_TYPE, "partitionValues"),
        ("add", {**ADD, "partitionValues": None}, ShapeRule.WRONG_TYPE, "partitionValues"),
        ("add", {**ADD, "deletionVector": {"storageType": "u"}}, ShapeRule.WRONG_TYPE, "deletionVector"),
        ("add", {**ADD, "modificationTime": -1}, ShapeRule.NEGATIVE_TIME, "modificationTime"),
        ("add", {**ADD, "modificationTime": 1.5e12}, ShapeRule.WRONG_TYPE, "modificationTime"),
        (
            "remove",
            {"path": "a", "dataChange": True, "deletionTimestamp": -1},
            ShapeRule.NEGATIVE_TIME,
            "deletionTimestamp",
        ),
        ("txn", {"appId": "a", "version": 1, "lastUpdated": -1}, ShapeRule.NEGATIVE_TIME, "lastUpdated"),
        ("commitInfo", {"timestamp": -1}, ShapeRule.NEGATIVE_TIME, "timestamp"),
        ("commitInfo", {"inCommitTimestamp": "1"}, ShapeRule.WRONG_TYPE, "inCommitTimestamp"),
        ("commitInfo", {"operationMetrics": []}, ShapeRule.WRONG_TYPE, "operationMetrics"),
        ("protocol", {"minReaderVersion": 1}, ShapeRule.MISSING_FIELD, "minWriterVersion"),
    ],
    ids=lambda value: json.dumps(value)[:60] if isinstance(value, dict) else None,
)
def test_a_mis_shaped_field_is_refused_by_name(name: str, body: object, rule: ShapeRule, field: str) -> None:
    with pytest.raises(InvalidAction) as caught:
        list(read_ndjson([b"\n", line_of(name, body)], source="in.ndjson"))
    error = caught.value
    assert (error.rule, error.action, error.field, error.index) == (rule, name, field, 0)
    assert str(error).startswith(f"in.ndjson, line 2: {name}")
    with pytest.raises(InvalidAction):
        decode(line_of(name, body))


@pytest.mark.parametrize(
    ("field", "rule"), [("deletion_vector", ShapeRule.SNAKE_CASE), ("future", ShapeRule.UNKNOWN_FIELD)]
)
def test_authored_input_may_not_hold_a_field_that_would_be_lost(field: str, rule: ShapeRule) -> None:
    lines = [line_of("add", ADD), line_of("add", {**ADD, field: {"a": 1}})]
    with pytest.raises(InvalidAction) as caught:
        list(read_ndjson(lines, source="in"))
    assert (caught.value.rule, caught.value.field, caught.value.index) == (rule, field, 1)
    assert "line 2" in str(caught.value)


def test_a_partition_called_like_its_action_is_not_a_second_action() -> None:
    line = line_of("add", {**ADD, "partitionValues": {"add": "add"}})
    assert [add.partition_values for add in read_ndjson([line], source="in") if isinstance(add, Add)] == [
        {"add": "add"}
    ]


def test_a_stream_is_read_one_line_at_a_time() -> None:
    taken: list[int] = []

    def stream() -> Iterator[bytes]:
        for number in range(5):
            taken.append(number)
            yield b'{"txn":{"appId":"a","version":%d}}\n' % number

    actions = read_ndjson(stream(), source="in")
    assert next(actions) == Txn(app_id="a", version=0)
    assert taken == [0]


TEXT = st.text(max_size=12) | st.text(alphabet='\x00\x1f\x0b\\"u0f1é', max_size=12)
LONG = st.integers(0, 2**63 - 1)
INT = st.integers(0, 2**31 - 1)
TEXTS = st.dictionaries(TEXT, TEXT, max_size=5)
PARTITIONS = st.dictionaries(TEXT, TEXT | st.none(), max_size=3)
VECTORS = st.builds(
    DeletionVector,
    storage_type=TEXT,
    path_or_inline_dv=TEXT,
    offset=INT | st.none(),
    size_in_bytes=INT,
    cardinality=LONG,
)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


FILE = {"path": TEXT, "partition_values": PARTITIONS, "size": LONG, "data_change": st.booleans(), "tags": maybe(TEXTS)}
DATA_FILE = {
    **FILE,
    "stats": maybe(TEXT),
    "deletion_vector": maybe(VECTORS),
    "base_row_id": maybe(LONG),
    "default_row_commit_version": maybe(LONG),
}
ACTIONS: st.SearchStrategy[Action] = st.one_of(
    st.builds(Add, **DATA_FILE, modification_time=LONG, clustering_provider=maybe(TEXT)),
    st.builds(
        Remove,
        **{**DATA_FILE, "partition_values": maybe(TEXTS), "size": maybe(LONG)},
        deletion_timestamp=maybe(LONG),
        extended_file_metadata=maybe(st.booleans()),
    ),
    st.builds(Cdc, **FILE),
    st.builds(
        Metadata,
        id=TEXT,
        name=maybe(TEXT),
        description=maybe(TEXT),
        format=st.builds(Format, provider=TEXT, options=TEXTS),
        schema_string=TEXT,
        partition_columns=st.lists(TEXT, max_size=3),
        configuration=TEXTS,
        created_time=maybe(LONG),
    ),
    st.builds(
        Protocol,
        min_reader_version=INT,
        min_writer_version=INT,
        reader_features=maybe(st.lists(TEXT, max_size=3)),
        writer_features=maybe(st.lists(TEXT, max_size=3)),
    ),
    st.builds(Txn, app_id=TEXT, version=LONG, last_updated=maybe(LONG)),
    st.builds(DomainMetadata, domain=TEXT, configuration=TEXT, removed=st.booleans()),
    st.builds(
        CommitInfo,
        timestamp=maybe(LONG),
        in_commit_timestamp=maybe(LONG),
        operation=maybe(TEXT),
        read_version=maybe(LONG),
        is_blind_append=maybe(st.booleans()),
        operation_metrics=maybe(TEXTS),
        user_metadata=maybe(TEXT),
        tags=maybe(TEXTS),
        engine_info=maybe(TEXT),
        txn_id=maybe(TEXT),
    ),
    st.builds(CheckpointMetadata, version=LONG, tags=maybe(TEXTS)),
    st.builds(Sidecar, path=TEXT, size_in_bytes=LONG, modification_time=LONG, tags=maybe(TEXTS)),
)


@pytest.mark.requirement("R3")
@given(ACTIONS)
def test_decoding_undoes_encoding(action: Action) -> None:
    line = encode(action)
    assert decode(line) == action
    assert list(read_ndjson([line], source="in")) == [action]
    assert encode(decode(line)) == line


@given(ACTIONS)
def test_a_line_is_compact_json_with_upper_case_escapes(action: Action) -> None:
    line = encode(action).decode()
    plain = json.dumps(json.loads(line), ensure_ascii=False, separators=(",", ":"))
    upper = re.sub(r"\\(u00[01].|.)", lambda m: rf"\u{m[1][1:].upper()}" if m[1].startswith("u") else m[0], plain)
    assert line == upper


@given(st.lists(ACTIONS, max_size=4))
def test_decoding_undoes_encoding_of_commits(actions: list[Action]) -> None:
    assert decode_commit(encode_commit(actions)) == actions
