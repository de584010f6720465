"""What ends a unit says where it happened; checksums do not hold up commits."""

import dataclasses
import pickle
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import uuid4

import pytest

from deltamirror.config import StorageSettings
from deltamirror.delta.chunks import Chunk
from deltamirror.delta.names import LOG_DIRECTORY
from deltamirror.errors import CapacityExceeded, DeltaMirrorError, Internal, LeaseLost, Unavailable
from deltamirror.publish.commits import publish_commits
from deltamirror.storage import files
from deltamirror.storage.disk import DiskStore
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from deltamirror.work import CommitOutcome, CommitWork, Failure, Stage, Verification
from tests.support.logs.commit_units import carried, commit_key, held, log_of, publish, unit_of, watched, work_of

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
WORK = [work_of(0, FOUNDATION), *(work_of(version, APPEND % version) for version in range(1, 6))]


@pytest.fixture
def store() -> Store:
    return store_at(f"memory://{uuid4()}/t", StorageSettings())


def failing(error: Exception, *, at: int = 1) -> Callable[[CommitWork], Sequence[Chunk]]:
    def fetch(work: CommitWork) -> Sequence[Chunk]:
        if work.version == at:
            raise error
        return carried(work)

    return fetch


def failure_of(outcome: CommitOutcome) -> Failure:
    assert [done.version for done in outcome.published] == [0]
    assert outcome.failure is not None
    assert (outcome.failure.version, outcome.failure.key) == (1, commit_key(1))
    return outcome.failure


@pytest.mark.parametrize(
    ("error", "expected"),
    [(Unavailable("gone"), Unavailable), (ValueError("what?"), Internal)],
)
def test_trouble_with_the_database_is_of_fetching(
    store: Store, error: Exception, expected: type[DeltaMirrorError]
) -> None:
    failure = failure_of(publish_commits(unit_of(WORK), store, fetch=failing(error), guard=held))
    assert (type(failure.error), failure.stage) == (expected, Stage.FETCH)
    assert str(error) in failure.error.message
    assert commit_key(1) not in log_of(store)


def test_a_damaged_commit_is_of_checking_and_is_not_put(store: Store) -> None:
    damaged = dataclasses.replace(WORK[1], digest=b"\0" * 32)
    failure = failure_of(publish(unit_of([WORK[0], damaged]), store))
    assert (type(failure.error), failure.stage) == (Internal, Stage.CHECK)
    assert "version 1 of table 'sales.t'" in failure.error.message
    assert commit_key(1) not in log_of(store)
    unchecked = publish(unit_of([WORK[0], damaged], verify=Verification.OFF), store)
    assert unchecked.failure is None
    assert log_of(store)[commit_key(1)] == APPEND % 1


@pytest.mark.parametrize("error", [Unavailable("gone"), ZeroDivisionError("what?")])
def test_trouble_with_the_store_is_of_putting(store: Store, error: Exception) -> None:
    def fail(operation: str, key: str) -> None:
        if (operation, key) == ("create", commit_key(1)):
            raise error

    failing_store, _ = watched(store, before=fail)
    failure = failure_of(publish(unit_of(WORK), failing_store))
    assert failure.stage is Stage.PUT
    assert str(error) in failure.error.message


def test_a_guard_that_cannot_tell_is_a_failure(store: Store) -> None:
    watching, calls = watched(store)

    def guard() -> None:
        if commit_key(0) in calls.of("create"):
            raise Unavailable("the database is gone")

    failure = failure_of(publish(unit_of(WORK, checksums=False), watching, guard=guard))
    assert (type(failure.error), failure.stage) == (Unavailable, Stage.LEASE)


def test_a_lease_that_is_lost_at_the_first_put_publishes_nothing(store: Store) -> None:
    def guard() -> None:
        raise LeaseLost("somebody else has it")

    outcome = publish(unit_of(WORK), store, guard=guard)
    assert (outcome.published, outcome.failure, outcome.checksum, log_of(store)) == ((), None, None, {})


def test_the_folder_is_synced_once_when_all_objects_have_their_names(store: Store) -> None:
    def wait(operation: str, key: str) -> None:
        """Let what does not wait for the last checksum be ahead of it."""
        if operation == "create" and key == commit_key(5, "crc"):
            time.sleep(0.2)

    watching, calls = watched(store, before=wait)
    assert len(publish(unit_of(WORK), watching).published) == len(WORK)
    assert calls.of("sync") == [LOG_DIRECTORY]
    made = [operation for operation, _ in calls.made if operation in {"create", "sync"}]
    assert made == ["create"] * 2 * len(WORK) + ["sync"]


def test_on_a_disk_names_are_synced_together_and_so_are_those_that_were_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may have put them, and died before its sync."""
    (tmp_path / LOG_DIRECTORY).mkdir()
    synced = list[Path]()
    monkeypatch.setattr(files, "sync_folder", synced.append)
    disk = DiskStore(tmp_path)
    for number, already in enumerate((False, True), 1):
        found = publish(unit_of(WORK), disk)
        assert [done.already for done in found.published] == [already] * len(WORK)
        assert synced == [tmp_path / LOG_DIRECTORY] * number


def test_a_unit_that_put_nothing_syncs_nothing(store: Store) -> None:
    watching, calls = watched(store)
    outcome = publish_commits(unit_of(WORK), watching, fetch=failing(Unavailable("gone"), at=0), guard=held)
    assert (outcome.published, calls.of("sync")) == ((), [])


def test_what_was_put_before_a_failure_is_synced_and_counts(store: Store) -> None:
    def fail(operation: str, key: str) -> None:
        if (operation, key) == ("create", commit_key(3)):
            raise Unavailable("gone")

    watching, calls = watched(store, before=fail)
    outcome = publish(unit_of(WORK), watching)
    assert ([done.version for done in outcome.published], calls.of("sync")) == ([0, 1, 2], [LOG_DIRECTORY])
    assert outcome.failure is not None
    assert outcome.failure.version == 3


@pytest.mark.parametrize("error", [Unavailable("gone"), CapacityExceeded("full"), LeaseLost("the service stops")])
def test_what_may_not_be_on_disk_does_not_count_and_the_next_attempt_finds_it(
    store: Store, error: DeltaMirrorError
) -> None:
    def fail(operation: str, key: str) -> None:
        if operation == "sync":
            raise error

    watching, _ = watched(store, before=fail)
    outcome = publish(unit_of(WORK), watching)
    assert (outcome.published, outcome.checksum) == ((), None)
    if isinstance(error, LeaseLost):
        assert outcome.failure is None
    else:
        assert outcome.failure == Failure(error=error, stage=Stage.PUT, version=0, key=LOG_DIRECTORY)
    again = publish(unit_of(WORK), store)
    assert [done.already for done in again.published] == [True] * len(WORK)
    assert (again.failure, again.checksum is None) == (None, False)


def test_secrets_in_an_unforeseen_error_are_not_told(store: Store) -> None:
    error = ValueError("postgresql://me:hunter2@host/db")
    failure = failure_of(publish_commits(unit_of(WORK), store, fetch=failing(error), guard=held))
    assert "hunter2" not in failure.error.message


def test_commits_do_not_wait_for_their_checksums(store: Store) -> None:
    """No checksum is written before all commits are."""
    all_put = threading.Event()

    def wait(operation: str, key: str) -> None:
        if operation == "create" and key.endswith(".crc"):
            assert all_put.wait(60)

    def tell(operation: str, key: str) -> None:
        if (operation, key) == ("create", commit_key(5)):
            all_put.set()

    slow, _ = watched(store, before=wait, after=tell)
    outcome = publish(unit_of(WORK), slow)
    assert (len(outcome.published), outcome.checksum_failure) == (6, None)
    assert len(log_of(store)) == 12


def test_commits_wait_for_checksums_that_fall_far_behind(store: Store) -> None:
    """While the first checksum is being written, a few commits are put, and not all of them."""
    many = [WORK[0], *(work_of(version, APPEND % version) for version in range(1, 40))]
    far_ahead = threading.Event()
    overtaken = []

    def stall(operation: str, key: str) -> None:
        if (operation, key) == ("create", commit_key(0, "crc")):
            overtaken.append(far_ahead.wait(0.5))

    def tell(operation: str, key: str) -> None:
        if (operation, key) == ("create", commit_key(12)):
            far_ahead.set()

    slow, _ = watched(store, before=stall, after=tell)
    assert len(publish(unit_of(many), slow).published) == 40
    assert overtaken == [False]
    assert len(log_of(store)) == 80


def test_units_and_outcomes_travel(store: Store) -> None:
    unit = unit_of(WORK)
    outcome = publish(pickle.loads(pickle.dumps(unit)), store)  # noqa: S301 - our own bytes
    assert pickle.loads(pickle.dumps(outcome)) == outcome  # noqa: S301 - our own bytes


def test_each_version_says_how_long_before_the_end_of_its_unit_it_was_put(store: Store) -> None:
    """A clock that only the store moves: each put takes a second."""
    seconds = [0.0]

    def put(operation: str, key: str) -> None:
        seconds[0] += 1.0 if key.endswith(".json") else 0.0

    slow, _ = watched(store, after=put)
    outcome = publish(dataclasses.replace(unit_of(WORK), checksums=False), slow, clock=lambda: seconds[0])
    assert [each.age for each in outcome.published] == [5_000, 4_000, 3_000, 2_000, 1_000, 0]
