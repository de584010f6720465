"""Version checksums of published commits: ours, or one of somebody else that is right; trouble stops nothing."""

import threading

import msgspec
import pytest
from msgspec.structs import replace

from deltamirror.delta.actions import (
    Action,
    Add,
    CommitInfo,
    DomainMetadata,
    Format,
    Metadata,
    Protocol,
    Remove,
    Txn,
)
from deltamirror.delta.checksum import Checksum, checksum_of, decode, encode
from deltamirror.delta.lines import encode_commit
from deltamirror.delta.replay import replay
from deltamirror.errors import LeaseLost, PermissionDenied, Transient
from deltamirror.storage.store import Changed, Exists, Store
from deltamirror.work import CommitOutcome, Stage
from tests.support.logs.commit_units import commit_key, publish, unit_of, watched, work_of
from tests.support.stores.any_store import ON_S3_TOO

pytestmark = [pytest.mark.requirement("R15"), pytest.mark.default_on("memory")]

FEATURES = ["columnMapping", "domainMetadata", "inCommitTimestamp"]
SCHEMA = '{"type":"struct","fields":[{"name":"k","type":"long","nullable":true,"metadata":{}}]}'
PROTOCOL = Protocol(
    min_reader_version=3, min_writer_version=7, reader_features=FEATURES[:1], writer_features=list(FEATURES)
)
METADATA = Metadata(
    id="t",
    format=Format(provider="parquet", options={}),
    schema_string=SCHEMA,
    partition_columns=[],
    configuration={"delta.enableInCommitTimestamps": "true", "a": "1"},
)


def add(path: str, size: int = 10) -> Add:
    return Add(path=path, partition_values={}, size=size, modification_time=1, data_change=False)


def info(version: int, operation: str = "WRITE") -> CommitInfo:
    return CommitInfo(in_commit_timestamp=version + 1, timestamp=version + 1, operation=operation, txn_id=f"x{version}")


ACTIONS: list[list[Action]] = [
    [info(0), METADATA, PROTOCOL, Txn(app_id="a", version=1), Txn(app_id="b", version=2)],
    [info(1), add("f"), add("g", size=9000), DomainMetadata(domain="d", configuration="{}", removed=False)],
    [info(2), add("h")],
]
COMMITS = [encode_commit(actions) for actions in ACTIONS]
WORK = [work_of(version, data) for version, data in enumerate(COMMITS)]
KEYS = [commit_key(version, "crc") for version in range(3)]


def right(version: int) -> Checksum:
    """The checksum of the whole state at a version."""
    return checksum_of(replay(ACTIONS[: version + 1]), info=info(version))


def checksum_in(store: Store, version: int) -> bytes | None:
    found = store.read(KEYS[version])
    return None if found is None else found.data


def publish_all(store: Store) -> CommitOutcome:
    outcome = publish(unit_of(WORK), store)
    assert (outcome.failure, len(outcome.published)) == (None, 3)
    return outcome


def test_checksums_say_what_the_whole_state_amounts_to(any_store: Store) -> None:
    outcome = publish_all(any_store)
    assert [checksum_in(any_store, version) for version in range(3)] == [encode(right(n)) for n in range(3)]
    assert (outcome.checksum, outcome.checksum_failure) == (encode(right(2)), None)


@ON_S3_TOO
def test_a_unit_continues_from_the_checksum_of_the_one_before(any_store: Store) -> None:
    first = publish(unit_of(WORK[:1]), any_store)
    second = publish(unit_of(WORK[1:], checksum=first.checksum), any_store)
    assert second.checksum == encode(right(2)) == checksum_in(any_store, 2)


@pytest.mark.parametrize("seed", [None, b"{}"])
def test_without_a_checksum_to_start_from_there_is_none(any_store: Store, seed: bytes | None) -> None:
    outcome = publish(unit_of(WORK[1:], checksum=seed), any_store)
    assert (outcome.checksum, outcome.checksum_failure, len(outcome.published)) == (None, None, 2)
    assert [checksum_in(any_store, version) for version in range(3)] == [None] * 3


def test_checksums_may_be_switched_off(any_store: Store) -> None:
    outcome = publish(unit_of(WORK, checksums=False), any_store)
    assert (outcome.checksum, len(outcome.published)) == (None, 3)
    assert [checksum_in(any_store, version) for version in range(3)] == [None] * 3


def respelled(version: int) -> list[Checksum]:
    """What other writers write in place of ours, which tells readers the same or less."""
    ours = right(version)
    return [
        replace(ours, file_size_histogram=None, txn_id=None),
        replace(ours, set_transactions=None, domain_metadata=None, all_files=None),
        replace(ours, set_transactions=tuple(reversed(ours.set_transactions or ()))),
        replace(ours, all_files=tuple(reversed(ours.all_files or ()))),
        replace(ours, protocol=replace(ours.protocol, writer_features=FEATURES[::-1])),
        replace(ours, metadata=replace(ours.metadata, schema_string=SCHEMA.replace(":", ": "))),
        replace(ours, metadata=replace(ours.metadata, configuration=dict(reversed(METADATA.configuration.items())))),
    ]


@pytest.mark.parametrize("number", range(7))
@ON_S3_TOO
def test_a_checksum_of_somebody_else_that_is_right_is_kept(any_store: Store, number: int) -> None:
    theirs = encode(respelled(1)[number])
    assert theirs != encode(right(1))
    any_store.create(KEYS[1], theirs)
    outcome = publish_all(any_store)
    assert checksum_in(any_store, 1) == theirs
    assert (outcome.checksum, outcome.checksum_failure) == (encode(right(2)), None)


def wrong(version: int) -> list[bytes]:
    """What readers must not find."""
    ours = right(version)
    metadata = replace(ours.metadata, configuration={})
    checksums = [
        replace(ours, num_files=7),
        replace(ours, table_size_bytes=7),
        replace(ours, in_commit_timestamp=7),
        replace(ours, in_commit_timestamp=None),
        replace(ours, set_transactions=()),
        replace(ours, domain_metadata=()),
        replace(ours, all_files=(ours.all_files or ())[:1]),
        replace(ours, protocol=replace(ours.protocol, min_writer_version=8)),
        replace(ours, protocol=replace(ours.protocol, reader_features=[])),
        replace(ours, metadata=metadata),
        replace(ours, metadata=replace(ours.metadata, schema_string=SCHEMA.replace("long", "date"))),
        replace(ours, metadata=replace(ours.metadata, schema_string="no schema")),
    ]
    return [*(encode(each) for each in checksums), b"{", b"{}\n", encode(ours)[:-20]]


@pytest.mark.parametrize("number", range(15))
def test_a_checksum_of_somebody_else_that_is_wrong_is_replaced(any_store: Store, number: int) -> None:
    any_store.create(KEYS[1], wrong(1)[number])
    outcome = publish_all(any_store)
    assert checksum_in(any_store, 1) == encode(right(1))
    assert outcome.checksum_failure is None


@pytest.mark.parametrize("operation", ["create", "read", "replace"])
def test_trouble_with_a_checksum_stops_nothing_and_is_told(any_store: Store, operation: str) -> None:
    any_store.create(KEYS[1], b"{}\n")

    def fail(name: str, key: str) -> None:
        if (name, key) == (operation, KEYS[1]):
            raise PermissionDenied("not for you")

    store, _ = watched(any_store, before=fail)
    outcome = publish_all(store)
    assert outcome.checksum_failure is not None
    assert (outcome.checksum_failure.stage, outcome.checksum_failure.version) == (Stage.CHECKSUM, 1)
    assert (outcome.checksum_failure.key, outcome.checksum_failure.error.code) == (KEYS[1], "permission-denied")
    assert (outcome.checksum, checksum_in(any_store, 2)) == (encode(right(2)), encode(right(2)))


def test_a_checksum_that_keeps_changing_is_given_up(any_store: Store) -> None:
    any_store.create(KEYS[1], b"{}\n")

    def change(name: str, key: str) -> object:
        return Changed() if (name, key) == ("replace", KEYS[1]) else None

    store, calls = watched(any_store, before=change)
    outcome = publish_all(store)
    assert outcome.checksum_failure is not None
    assert type(outcome.checksum_failure.error) is Transient
    assert calls.of("replace") == [KEYS[1]] * 3


def test_an_upload_of_a_checksum_that_comes_to_nothing_is_no_obstacle(any_store: Store) -> None:
    turns = [2]

    def pretend(name: str, key: str) -> object:
        if (name, key) == ("create", KEYS[1]) and turns[0]:
            turns[0] -= 1
            return Exists()
        return None

    store, _ = watched(any_store, before=pretend)
    assert publish_all(store).checksum_failure is None
    assert checksum_in(any_store, 1) == encode(right(1))


def test_an_error_that_nobody_foresaw_stops_nothing(any_store: Store) -> None:
    def fail(name: str, key: str) -> None:
        if (name, key) == ("create", KEYS[1]):
            raise ZeroDivisionError("what?")

    store, _ = watched(any_store, before=fail)
    outcome = publish_all(store)
    assert outcome.checksum_failure is not None
    assert outcome.checksum_failure.error.code == "internal"
    assert "ZeroDivisionError: what?" in outcome.checksum_failure.error.message


RESTORE = encode_commit([info(1, "RESTORE"), add("f")])
NO_SIZE = encode_commit([info(1), Remove(path="f", data_change=True)])


@pytest.mark.parametrize("uncertain", [RESTORE, NO_SIZE])
def test_after_a_version_without_a_checksum_the_unit_has_none(any_store: Store, uncertain: bytes) -> None:
    outcome = publish(unit_of([WORK[0], work_of(1, uncertain), WORK[2]]), any_store)
    assert (outcome.checksum, outcome.checksum_failure, len(outcome.published)) == (None, None, 3)
    assert [checksum_in(any_store, version) is None for version in range(3)] == [False, True, True]


def test_a_count_of_files_that_sql_contradicts_is_not_written(any_store: Store) -> None:
    """A table of many files, to which a commit adds one that it has."""
    many = encode_commit([*ACTIONS[0], *(add(f"f{number}") for number in range(60))])
    again = encode_commit([info(1), add("f7", size=11)])
    counted = [work_of(0, many, num_files=60), work_of(1, again, num_files=60), work_of(2, COMMITS[2], num_files=61)]
    outcome = publish(unit_of(counted), any_store)
    assert (outcome.checksum, len(outcome.published)) == (None, 3)
    assert [checksum_in(any_store, version) is None for version in range(3)] == [False, True, True]


def test_a_very_large_commit_has_no_checksum(any_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltamirror.publish.checksums._LARGEST", len(COMMITS[1]) - 1)
    assert len(COMMITS[0]) > len(COMMITS[1]) > len(COMMITS[2])
    outcome = publish(unit_of(WORK[1:], checksum=encode(right(0))), any_store)
    assert (outcome.checksum, len(outcome.published)) == (None, 2)
    assert checksum_in(any_store, 1) is None
    small = publish(unit_of(WORK[2:], checksum=encode(right(1))), any_store)
    assert small.checksum == encode(right(2))


def test_files_are_listed_again_after_a_change_of_schema(any_store: Store) -> None:
    wider = replace(METADATA, schema_string=SCHEMA.replace('"long"', '"string"'))
    later = [encode_commit([info(2), wider]), encode_commit([info(3), add("i")])]
    publish(unit_of([*WORK[:2], *(work_of(version, data) for version, data in enumerate(later, 2))]), any_store)
    assert [listed_in(any_store, version) for version in range(4)] == [set(), {"f", "g"}, None, {"f", "g", "i"}]


def listed_in(store: Store, version: int) -> set[str] | None:
    found = store.read(commit_key(version, "crc"))
    checksum = None if found is None else decode(found.data)
    assert checksum is not None
    return None if checksum.all_files is None else {each.path for each in checksum.all_files}


def test_the_checksum_is_one_line_of_json(any_store: Store) -> None:
    publish_all(any_store)
    data = checksum_in(any_store, 2)
    assert data is not None
    assert data.count(b"\n") == 1
    assert msgspec.json.decode(data)["numFiles"] == 3


def test_a_lease_lost_before_a_checksum_leaves_its_version_to_the_next_owner(any_store: Store) -> None:
    held_for = iter([True])  # the checksum of version 0, and no other

    def guard() -> None:
        if "checksums" in threading.current_thread().name and not next(held_for, False):
            raise LeaseLost("somebody else has it")

    outcome = publish(unit_of(WORK), any_store, guard=guard)
    assert [each.version for each in outcome.published] == [0]
    assert (outcome.failure, outcome.checksum) == (None, None)
    again = publish(unit_of(WORK), any_store)
    assert [(each.version, each.already) for each in again.published] == [(0, True), (1, True), (2, True)]
    assert [checksum_in(any_store, version) for version in range(3)] == [encode(right(version)) for version in range(3)]
