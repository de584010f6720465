"""Statistics, types and numbers of actions: every integer fits where readers keep it."""

import msgspec
import pytest

from deltamirror.delta.actions import Action
from deltamirror.delta.lines import decode
from deltamirror.delta.rowtracking import MOST_RECORDS
from deltamirror.delta.shapes import ACTION_TYPES
from deltamirror.delta.validation import TableRules, plain_block
from deltamirror.errors import InvalidAction
from tests.support.lakes.validation import ADD, CDC, DOMAIN, EXTENDED, INFO, PLAIN, REMOVE, TABLE, TXN, VECTOR, changed

pytestmark = pytest.mark.requirement("R5")

OF_32_BITS = {"offset", "sizeInBytes", "minReaderVersion", "minWriterVersion"}
EXAMPLES: dict[str, Action] = {
    "add": changed(ADD, deletion_vector=VECTOR, base_row_id=0, default_row_commit_version=0),
    "remove": changed(REMOVE, deletion_vector=VECTOR, base_row_id=0, default_row_commit_version=0),
    "cdc": CDC,
    "txn": changed(TXN, last_updated=1),
    "metaData": changed(TABLE, created_time=1),
    "protocol": PLAIN,
    "commitInfo": changed(INFO, version=0, timestamp=1, read_version=0),
}


def integers(value: object, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The paths of all integers in a JSON value."""
    if isinstance(value, dict):
        return [found for key, each in value.items() for found in integers(each, (*path, key))]
    return [path] if type(value) is int else []


def with_integer(action: Action, path: tuple[str, ...], number: int) -> dict[str, object]:
    body: dict[str, object] = msgspec.to_builtins(action)
    inner = body
    for key in path[:-1]:
        inner = inner[key]  # type: ignore[assignment]
    inner[path[-1]] = number
    return body


INTEGERS = [(name, path) for name, action in EXAMPLES.items() for path in integers(msgspec.to_builtins(action))]


def test_every_integer_field_of_a_commit_has_an_example() -> None:
    stated = {(name, path[-1]) for name, path in INTEGERS}
    for name in EXAMPLES:
        for field in msgspec.structs.fields(ACTION_TYPES[name]):
            if field.type in (int, msgspec.Meta) or "Meta(" in str(field.type):
                assert (name, field.encode_name) in stated


@pytest.mark.parametrize(("name", "path"), INTEGERS, ids=lambda each: each if type(each) is str else ".".join(each))
def test_an_integer_beyond_the_range_of_its_field_is_refused(name: str, path: tuple[str, ...]) -> None:
    limit = 2**31 if path[-1] in OF_32_BITS and name != "sidecar" else 2**63
    wire = msgspec.json.encode({name: with_integer(EXAMPLES[name], path, limit - 1)})
    decode(wire)
    for number in (limit, -limit - 1, 2**64):
        with pytest.raises(InvalidAction) as caught:
            decode(msgspec.json.encode({name: with_integer(EXAMPLES[name], path, 5)}).replace(b":5", b":%d" % number))
        assert caught.value.rule == "shape.wrong-type"


@pytest.mark.parametrize(
    "values",
    [
        {"size": 2**63},
        {"modification_time": 2**63},
        {"base_row_id": 2**63},
        {"deletion_vector": msgspec.structs.replace(VECTOR, offset=2**31)},
        {"deletion_vector": msgspec.structs.replace(VECTOR, size_in_bytes=2**31)},
        {"deletion_vector": msgspec.structs.replace(VECTOR, cardinality=2**63)},
    ],
)
def test_a_struct_with_a_number_beyond_its_range_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(InvalidAction) as caught:
        TableRules.of(EXTENDED, TABLE).check(changed(ADD, **values))
    assert caught.value.rule == "commit.type"
    assert plain_block(TableRules.of(EXTENDED, TABLE), [msgspec.structs.replace(ADD, **values)]) is None


@pytest.mark.parametrize("count", [MOST_RECORDS + 1, 2**63, 2**64, 10**30])
def test_a_count_of_records_that_no_file_has_is_refused(count: int) -> None:
    add = msgspec.structs.replace(ADD, stats=f'{{"numRecords":{count}}}')
    with pytest.raises(InvalidAction) as caught:
        TableRules.of(PLAIN, TABLE).check(add)
    assert caught.value.rule == "add.stats.num-records"
    assert plain_block(TableRules.of(PLAIN, TABLE), [add]) is None


@pytest.mark.parametrize("mark", [2**63, "7", None])
def test_a_mark_of_row_ids_that_later_commits_cannot_read_is_refused(mark: object) -> None:
    configuration = msgspec.json.encode({"rowIdHighWaterMark": mark}).decode()
    domain = msgspec.structs.replace(DOMAIN, domain="delta.rowTracking", configuration=configuration)
    with pytest.raises(InvalidAction) as caught:
        TableRules.of(EXTENDED, TABLE, verbatim=True).check(domain)
    assert caught.value.rule == "domainMetadata.configuration.row-tracking"


@pytest.mark.parametrize("seconds", [100_000_000, 1_700_000_000, 31_535_999_999])
def test_a_time_in_seconds_is_refused_in_our_own_commits(seconds: int) -> None:
    add = msgspec.structs.replace(ADD, modification_time=seconds)
    with pytest.raises(InvalidAction, match="milliseconds") as caught:
        TableRules.of(PLAIN, TABLE).check(add)
    assert caught.value.rule == "add.modification-time.seconds"
    assert plain_block(TableRules.of(PLAIN, TABLE), [ADD, add]) is None
    TableRules.of(PLAIN, TABLE, verbatim=True).check(add)


@pytest.mark.parametrize("time", [0, 99_999_999, 31_536_000_000, 1_700_000_000_000])
def test_a_time_that_cannot_be_in_seconds_passes(time: int) -> None:
    add = msgspec.structs.replace(ADD, modification_time=time)
    TableRules.of(PLAIN, TABLE).check(add)
    assert plain_block(TableRules.of(PLAIN, TABLE), [add]) is not None


@pytest.mark.parametrize("stats", ["", "null", "3", "{", '{"numRecords":1}x', '{"numRecords":1,"minValues":{]}'])
def test_stats_that_are_no_json_object_are_refused(stats: str) -> None:
    with pytest.raises(InvalidAction) as caught:
        TableRules.of(PLAIN, TABLE).check(msgspec.structs.replace(ADD, stats=stats), 5)
    assert caught.value.rule == "add.stats.json"
    assert caught.value.index == 5


@pytest.mark.parametrize("count", ["1.5", '"3"', "true", "1e400"])
def test_a_count_of_records_that_is_no_integer_is_refused(count: str) -> None:
    with pytest.raises(InvalidAction) as caught:
        TableRules.of(PLAIN, TABLE).check(msgspec.structs.replace(ADD, stats=f'{{"numRecords":{count}}}'))
    assert caught.value.rule.startswith("add.stats.")


@pytest.mark.parametrize(
    "values",
    [
        {"path": None},
        {"path": b"a"},
        {"size": 1.5},
        {"size": None},
        {"modification_time": "1"},
        {"data_change": 1},
        {"data_change": None},
        {"stats": {"numRecords": 1}},
        {"partition_values": []},
        {"partition_values": {"day": 1}},
        {"tags": {"k": 1}},
    ],
)
def test_a_struct_that_lies_about_its_types_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(InvalidAction) as caught:
        TableRules.of(PLAIN, TABLE).check(changed(ADD, **values))
    assert caught.value.rule == "commit.type"
