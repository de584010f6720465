"""What a unit of commits answers: which versions count as published, and why it ended."""

import time
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from typing import Any
from uuid import uuid4

import pytest

from deltamirror.config import StorageSettings
from deltamirror.errors import (
    DeltaMirrorError,
    Diverged,
    Internal,
    InvalidAction,
    LeaseLost,
    LogChanged,
    Transient,
    Unavailable,
)
from deltamirror.publish.readings import OpenedVersion
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Created, Exists, Store
from deltamirror.work import CommitOutcome, Stage, Verification
from tests.support.logs.commit_units import LEASE, commit_key, log_of, publish, unit_of, watched, work_of

pytestmark = pytest.mark.requirement("R87")

FOUNDATION = (
    b'{"commitInfo":{"operation":"CREATE TABLE","txnId":"x"}}\n'
    b'{"metaData":{"id":"t","format":{"provider":"parquet","options":{}},'
    b'"schemaString":"{\\"type\\":\\"struct\\",\\"fields\\":[]}","partitionColumns":[],"configuration":{}}}\n'
    b'{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}\n'
)
APPEND = (
    b'{"commitInfo":{"operation":"WRITE","txnId":"x"}}\n'
    b'{"add":{"path":"f%d","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}\n'
)
WORK = [work_of(0, FOUNDATION), *(work_of(version, APPEND % version) for version in range(1, 4))]
LAST = OpenedVersion(
    num_files=3,
    num_bytes=3,
    min_reader_version=1,
    min_writer_version=2,
    metadata_id="t",
    partition_columns=[],
    configuration={},
)


@pytest.fixture
def store() -> Store:
    return store_at(f"memory://{uuid4()}/t", StorageSettings())


def versions(outcome: CommitOutcome) -> list[int]:
    return [done.version for done in outcome.published]


def test_an_outcome_is_of_its_table_and_lease_and_says_what_was_put(store: Store) -> None:
    before = time.time()
    outcome = publish(unit_of(WORK), store)
    assert (outcome.table_id, outcome.lease, outcome.failure, outcome.checksum_failure) == (1, LEASE, None, None)
    assert outcome.ended_at is not None
    assert before <= outcome.ended_at <= time.time()
    assert [(done.version, done.already, done.num_bytes) for done in outcome.published] == [
        (work.version, False, work.num_bytes) for work in WORK
    ]
    assert outcome.checksum == log_of(store)[commit_key(3, "crc")]
    assert [done.already for done in publish(unit_of(WORK), store).published] == [True] * 4


def test_milliseconds_are_those_between_fetching_and_the_end_of_a_put(store: Store) -> None:
    now = [0.0]

    def slow(operation: str, key: str) -> None:
        now[0] += 2.0

    watching, _ = watched(store, after=slow)
    outcome = publish(unit_of(WORK, checksums=False, read=5.0), watching, clock=lambda: now[0])
    assert [done.milliseconds for done in outcome.published] == [2_000.0] * 4
    # After the last put the names are synced, once.
    assert [done.age for done in outcome.published] == [8_000.0, 6_000.0, 4_000.0, 2_000.0]
    assert outcome.stages is not None
    assert (outcome.stages.upload, outcome.stages.read) == (10_000.0, 5.0)


def test_nothing_is_put_behind_a_gap(store: Store) -> None:
    unit = unit_of(WORK[1:], follows=commit_key(0))
    outcome = publish(unit, store)
    assert outcome.failure is not None
    assert (type(outcome.failure.error), outcome.failure.stage) == (LogChanged, Stage.CHECK)
    assert (outcome.failure.version, outcome.failure.key, log_of(store)) == (1, commit_key(0), {})
    assert "version 1 of table 'sales.t' is not put without it" in outcome.failure.error.message
    assert outcome.failure.error.hint.startswith("if the disk or bucket is the right one, `deltamirror reconcile")
    store.put(commit_key(0), FOUNDATION)
    assert versions(publish(unit, store)) == [1, 2, 3]


@pytest.mark.parametrize("lost", [0, 2, 3])
def test_versions_whose_checksum_the_lease_was_lost_for_are_left_to_its_owner(store: Store, lost: int) -> None:
    put_all = {commit_key(work.version) for work in WORK}

    def lose(operation: str, key: str) -> None:
        if (operation, key) == ("create", commit_key(lost, "crc")):
            raise LeaseLost("another process has it")

    watching, _ = watched(store, before=lose)
    outcome = publish(unit_of(WORK), watching)
    assert (versions(outcome), outcome.failure, outcome.checksum) == (list(range(lost)), None, None)
    assert put_all <= set(log_of(store))


@pytest.mark.parametrize("level", [Verification.STRICT, Verification.PARANOID])
def test_a_commit_that_breaks_a_rule_is_put_only_where_rules_are_not_asked(store: Store, level: Verification) -> None:
    broken = [WORK[0], work_of(1, (APPEND % 1).replace(b'"size":1', b'"size":-1'))]
    outcome = publish(unit_of(broken, verify=level), store)
    assert versions(outcome) == [0]
    assert outcome.failure is not None
    assert (type(outcome.failure.error), outcome.failure.stage) == (InvalidAction, Stage.CHECK)
    assert commit_key(1) not in log_of(store)
    assert versions(publish(unit_of(broken), store)) == [0, 1]


def gone(key: str, store: Store) -> Callable[[str, str], object]:
    """A store that answers well, and puts the object elsewhere."""

    def badly(operation: str, asked: str) -> object:
        return Created(store.put("elsewhere", b"x")) if (operation, asked) == ("create", key) else None

    return badly


@pytest.mark.parametrize("fields", [{"reads_back": True}, {"verify": Verification.STRICT}])
def test_an_object_that_was_put_and_is_not_there_does_not_count(store: Store, fields: dict[str, Any]) -> None:
    watching, _ = watched(store, before=gone(commit_key(1), store))
    outcome = publish(unit_of(WORK, **fields), watching)
    assert versions(outcome) == [0]
    assert outcome.failure is not None
    assert (type(outcome.failure.error), outcome.failure.stage) == (Transient, Stage.VERIFY)
    assert outcome.failure.error.message.startswith(f"{commit_key(1)} was put to memory://")
    assert outcome.failure.error.hint == "the mirror tries again"


def test_an_object_that_exists_and_is_not_there_is_tried_three_times(store: Store) -> None:
    def full(operation: str, key: str) -> object:
        return Exists() if operation == "create" else None

    watching, calls = watched(store, before=full)
    outcome = publish(unit_of(WORK), watching)
    assert outcome.failure is not None
    assert (type(outcome.failure.error), outcome.failure.stage) == (Transient, Stage.PUT)
    assert outcome.failure.error.message.endswith(f"says that {commit_key(0)} exists, and does not have it")
    assert outcome.failure.error.hint.startswith("an upload of another writer may be under way")
    assert calls.of("create") == [commit_key(0)] * 3


def test_an_object_of_another_writer_is_named_with_both_digests(store: Store) -> None:
    store.put(commit_key(0), b"theirs")
    failure = publish(unit_of(WORK), store).failure
    assert failure is not None
    assert isinstance(failure.error, Diverged)
    assert (failure.error.table, failure.error.version, failure.error.key) == ("sales.t", 0, commit_key(0))
    assert (failure.error.expected, failure.error.found) == (
        sha256(FOUNDATION).hexdigest(),
        sha256(b"theirs").hexdigest(),
    )
    assert "`deltamirror adopt sales.t` takes it in" in failure.error.hint


def test_an_error_that_none_of_ours_describes_is_told_with_its_version(store: Store) -> None:
    def fail(operation: str, key: str) -> None:
        raise ZeroDivisionError("what?")

    watching, _ = watched(store, before=fail)
    failure = publish(unit_of(WORK), watching).failure
    assert failure is not None
    assert (type(failure.error), failure.stage, failure.version, failure.key) == (
        Internal,
        Stage.PUT,
        0,
        commit_key(0),
    )
    assert failure.error.message == "version 0 of table 'sales.t' was not published: ZeroDivisionError: what?"


def test_trouble_with_a_checksum_is_told_and_is_no_failure(store: Store) -> None:
    def fail(operation: str, key: str) -> None:
        if key.endswith(".crc"):
            raise Unavailable("gone")

    watching, _ = watched(store, before=fail)
    outcome = publish(unit_of(WORK), watching)
    assert (versions(outcome), outcome.failure) == ([0, 1, 2, 3], None)
    assert outcome.checksum_failure is not None
    assert outcome.checksum_failure.key == commit_key(0, "crc")


def test_a_damaged_commit_is_published_only_where_nothing_is_checked(store: Store) -> None:
    damaged = [replace(WORK[0], digest=bytes(32))]
    assert versions(publish(unit_of(damaged), store)) == []
    assert versions(publish(unit_of(damaged, verify=Verification.OFF), store)) == [0]


def test_an_object_that_nothing_reads_back_counts(store: Store) -> None:
    watching, calls = watched(store, before=gone(commit_key(1), store))
    assert versions(publish(unit_of(WORK, checksums=False), watching)) == [0, 1, 2, 3]
    assert calls.of("read_range") == []


def test_the_last_version_counts_once_a_reader_sees_what_was_committed(store: Store) -> None:
    opened: list[int] = []

    def reader(version: int) -> OpenedVersion:
        opened.append(version)
        return LAST

    outcome = publish(unit_of(WORK), store, reader=reader)
    assert (opened, versions(outcome), outcome.failure) == ([3], [0, 1, 2, 3], None)
    assert outcome.checksum is not None


@pytest.mark.parametrize(("seen", "error"), [(replace(LAST, num_files=2), Internal), (None, Unavailable)])
def test_a_version_that_a_reader_does_not_see_as_committed_does_not_count(
    store: Store, seen: OpenedVersion | None, error: type[DeltaMirrorError]
) -> None:
    def reader(version: int) -> OpenedVersion:
        if seen is None:
            raise Unavailable("gone")
        return seen

    outcome = publish(unit_of(WORK), store, reader=reader)
    assert (versions(outcome), outcome.checksum) == ([0, 1, 2], None)
    assert outcome.failure is not None
    assert (type(outcome.failure.error), outcome.failure.stage) == (error, Stage.VERIFY)
    assert (outcome.failure.version, outcome.failure.key) == (3, commit_key(3))


def test_without_a_checksum_it_suffices_that_the_reader_opens_the_version(store: Store) -> None:
    outcome = publish(unit_of(WORK, checksums=False), store, reader=lambda version: LAST)
    assert (versions(outcome), outcome.failure) == ([0, 1, 2, 3], None)
    assert versions(publish(unit_of(WORK[:1], checksums=False), store, reader=lambda version: LAST)) == [0]


def test_a_reader_is_not_asked_where_nothing_was_published(store: Store) -> None:
    def lose() -> None:
        raise LeaseLost("another process has it")

    outcome = publish(unit_of(WORK), store, guard=lose, reader=lambda version: pytest.fail("asked"))
    assert (outcome.published, outcome.failure) == ((), None)


def test_a_unit_ends_after_the_version_at_which_its_budget_is_spent(store: Store) -> None:
    now = [0.0]

    def slow(operation: str, key: str) -> None:
        now[0] += 1.0

    watching, calls = watched(store, after=slow)
    outcome = publish(unit_of(WORK, checksums=False, budget=2.0), watching, clock=lambda: now[0])
    assert (versions(outcome), calls.of("create")) == ([0, 1], [commit_key(0), commit_key(1)])
