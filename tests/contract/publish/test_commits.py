"""Publishing on every kind of store: in order, never over somebody's bytes, and finished by whoever tries again.

This is G5 of the README.
"""

import hashlib
import itertools
import threading
from collections.abc import Callable

import pytest

from deltamirror.delta.actions import Action, Add, CommitInfo, Format, Metadata, Protocol
from deltamirror.delta.lines import encode_commit
from deltamirror.errors import DeltaMirrorError, Diverged, Internal, LeaseLost, Transient, Unavailable
from deltamirror.storage.store import Created, Exists, Store
from deltamirror.work import CommitOutcome, Stage, Verification
from tests.support.logs.commit_units import commit_key, log_of, publish, unit_of, watched, work_of
from tests.support.stores.any_store import ON_S3_TOO

pytestmark = pytest.mark.default_on("memory")

PROTOCOL = Protocol(min_reader_version=1, min_writer_version=2)
METADATA = Metadata(
    id="t",
    format=Format(provider="parquet", options={}),
    schema_string='{"type":"struct","fields":[]}',
    partition_columns=[],
    configuration={},
)


def add(path: str) -> Add:
    return Add(path=path, partition_values={}, size=10, modification_time=1, data_change=True)


def commit(version: int, *actions: Action) -> bytes:
    info = CommitInfo(timestamp=version, operation="WRITE", txn_id=f"x{version}")
    foundation = (METADATA, PROTOCOL) if version == 0 else ()
    return encode_commit([info, *foundation, *(actions or (add(f"f{version}"),))])


COMMITS = [commit(version) for version in range(5)]
UNIT = unit_of([work_of(version, data) for version, data in enumerate(COMMITS)])
JSON = {commit_key(version): data for version, data in enumerate(COMMITS)}
CHECKSUMS = {commit_key(version, "crc") for version in range(5)}


def versions(outcome: CommitOutcome) -> list[int]:
    return [done.version for done in outcome.published]


def commits_in(store: Store) -> dict[str, bytes]:
    return {key: data for key, data in log_of(store).items() if key.endswith(".json")}


@pytest.mark.requirement("R1")
@pytest.mark.requirement("R2")
@ON_S3_TOO
def test_every_version_is_one_object_with_the_bytes_that_were_committed(any_store: Store) -> None:
    outcome = publish(UNIT, any_store)
    assert [(done.version, done.already, done.num_bytes) for done in outcome.published] == [
        (version, False, len(data)) for version, data in enumerate(COMMITS)
    ]
    assert (outcome.failure, outcome.checksum_failure, outcome.lease) == (None, None, UNIT.lease)
    assert commits_in(any_store) == JSON
    assert log_of(any_store).keys() == JSON.keys() | CHECKSUMS


@pytest.mark.requirement("R24")
def test_versions_are_put_in_order_and_a_checksum_after_its_commit(any_store: Store) -> None:
    store, calls = watched(any_store)
    publish(UNIT, store)
    created = calls.of("create")
    assert [key for key in created if key.endswith(".json")] == list(JSON)
    for version in range(5):
        assert created.index(commit_key(version)) < created.index(commit_key(version, "crc"))


@pytest.mark.requirement("R29")
@pytest.mark.parametrize("failing", range(5))
def test_a_put_that_fails_leaves_the_versions_before_it_and_a_second_run_finishes(
    any_store: Store, failing: int
) -> None:
    def fail(operation: str, key: str) -> None:
        if (operation, key) == ("create", commit_key(failing)):
            raise Unavailable("the store is gone")

    store, _ = watched(any_store, before=fail)
    outcome = publish(UNIT, store)
    assert versions(outcome) == list(range(failing))
    assert outcome.failure is not None
    assert (outcome.failure.stage, outcome.failure.version, outcome.failure.key) == (
        Stage.PUT, failing, commit_key(failing),
    )  # fmt: skip
    assert isinstance(outcome.failure.error, Unavailable)
    assert commits_in(any_store) == dict(list(JSON.items())[:failing])
    rest = unit_of(UNIT.commits[failing:], checksum=outcome.checksum)
    assert [done.already for done in publish(rest, any_store).published] == [False] * (5 - failing)
    assert commits_in(any_store) == JSON
    assert log_of(any_store).keys() == JSON.keys() | CHECKSUMS


@pytest.mark.requirement("R29")
@pytest.mark.parametrize("lost", range(5))
@ON_S3_TOO
def test_a_lost_reply_is_not_a_divergence(any_store: Store, lost: int) -> None:
    def lose(operation: str, key: str) -> None:
        if (operation, key) == ("create", commit_key(lost)):
            raise Unavailable("no answer")

    store, _ = watched(any_store, after=lose)
    first = publish(UNIT, store)
    assert (versions(first), first.failure and first.failure.version) == (list(range(lost)), lost)
    second = publish(UNIT, any_store)
    assert [done.already for done in second.published] == [version <= lost for version in range(5)]
    assert second.failure is None
    assert commits_in(any_store) == JSON


@pytest.mark.requirement("R29")
@ON_S3_TOO
def test_publishing_again_changes_nothing(any_store: Store) -> None:
    publish(UNIT, any_store)
    before = log_of(any_store)
    store, calls = watched(any_store)
    outcome = publish(UNIT, store)
    assert [done.already for done in outcome.published] == [True] * 5
    assert (log_of(any_store), calls.of("replace"), calls.of("put")) == (before, [], [])


@pytest.mark.requirement("R39")
@pytest.mark.parametrize("foreign", [b'{"commitInfo":{}}\n', COMMITS[2][:-1], COMMITS[2] + b"\n"])
@ON_S3_TOO
def test_what_somebody_else_wrote_is_never_overwritten_and_stops_the_table(any_store: Store, foreign: bytes) -> None:
    any_store.create(commit_key(2), foreign)
    outcome = publish(UNIT, any_store)
    assert versions(outcome) == [0, 1]
    assert outcome.failure is not None
    error = outcome.failure.error
    assert isinstance(error, Diverged)
    assert (error.table, error.version, error.key) == ("sales.t", 2, commit_key(2))
    assert error.expected == hashlib.sha256(COMMITS[2]).hexdigest()
    assert error.found == hashlib.sha256(foreign).hexdigest()
    assert commits_in(any_store) == {**dict(list(JSON.items())[:2]), commit_key(2): foreign}


@pytest.mark.requirement("R24")
@pytest.mark.parametrize("kept", range(5))
def test_a_lost_lease_ends_the_unit_without_a_failure(any_store: Store, kept: int) -> None:
    turns = itertools.count()

    def guard() -> None:
        if next(turns) == kept:
            raise LeaseLost("somebody else has it")

    outcome = publish(unit_of(UNIT.commits, checksums=False), any_store, guard=guard)
    assert (versions(outcome), outcome.failure) == (list(range(kept)), None)
    assert log_of(any_store) == dict(list(JSON.items())[:kept])


def test_a_lease_that_is_lost_before_a_checksum_leaves_it_to_others(any_store: Store) -> None:
    def guard() -> None:
        if threading.current_thread() is not threading.main_thread():
            raise LeaseLost("somebody else has it")

    outcome = publish(UNIT, any_store, guard=guard)
    assert (outcome.failure, outcome.checksum_failure) == (None, None)
    assert log_of(any_store) == JSON


@pytest.mark.parametrize(("budget", "expected"), [(0.0, 1), (10.0, 2), (10.1, 3), (1000.0, 5)])
def test_a_unit_ends_when_its_budget_is_spent_but_tries_one_version(
    any_store: Store, budget: float, expected: int
) -> None:
    now = [0.0]

    def take_five_seconds(operation: str, key: str) -> None:
        if operation == "create" and key.endswith(".json"):
            now[0] += 5.0

    store, _ = watched(any_store, before=take_five_seconds)
    outcome = publish(unit_of(UNIT.commits, budget=budget), store, clock=lambda: now[0])
    assert (len(outcome.published), outcome.failure) == (expected, None)
    assert [done.milliseconds for done in outcome.published] == [5000.0] * expected
    assert commits_in(any_store) == dict(list(JSON.items())[:expected])


def pretending(turns: int) -> Callable[[str, str], object]:
    """A store that says that there is an object, when there is none."""
    left = [turns]

    def answer(operation: str, key: str) -> object:
        if operation == "create" and key.endswith(".json") and left[0]:
            left[0] -= 1
            return Exists()
        return None

    return answer


@ON_S3_TOO
def test_an_upload_of_somebody_else_that_comes_to_nothing_is_no_obstacle(any_store: Store) -> None:
    store, _ = watched(any_store, before=pretending(2))
    outcome = publish(UNIT, store)
    assert [done.already for done in outcome.published] == [False] * 5
    assert commits_in(any_store) == JSON


def test_an_object_that_exists_and_is_not_there_is_tried_again_later(any_store: Store) -> None:
    store, calls = watched(any_store, before=pretending(1_000))
    outcome = publish(UNIT, store)
    assert outcome.failure is not None
    assert type(outcome.failure.error) is Transient
    assert calls.of("create") == [commit_key(0)] * 3
    assert log_of(any_store) == {}


@pytest.mark.requirement("R31")
@ON_S3_TOO
def test_a_large_commit_is_the_same_object_as_a_small_one(any_store: Store) -> None:
    data = commit(0, *(add(f"part-{number:05d}") for number in range(40_000)))
    work = work_of(0, data, lines=500)
    assert work.num_chunks == 82
    outcome = publish(unit_of([work]), any_store)
    assert outcome.failure is None
    assert commits_in(any_store) == {commit_key(0): data}
    again = publish(unit_of([work]), any_store)
    assert again.failure is None
    assert [done.already for done in again.published] == [True]


def test_a_large_object_that_somebody_changed_is_found_out(any_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltamirror.storage.ranges._DIGEST_RANGE", 1 << 12)
    data = commit(0, *(add(f"part-{number:05d}") for number in range(500)))
    changed = data.replace(b"part-00499", b"part-00x99")
    any_store.create(commit_key(0), changed)
    outcome = publish(unit_of([work_of(0, data, lines=100)]), any_store)
    assert outcome.failure is not None
    assert isinstance(outcome.failure.error, Diverged)
    assert outcome.failure.error.found == hashlib.sha256(changed).hexdigest()
    monkeypatch.setattr("deltamirror.storage.ranges._DIGEST_RANGE", len(changed))
    again = publish(unit_of([work_of(0, changed)]), any_store)
    assert [done.already for done in again.published] == [True]


@pytest.mark.requirement("R43")
@ON_S3_TOO
def test_strict_verification_reads_back_what_was_put(any_store: Store) -> None:
    strict = unit_of(UNIT.commits, verify=Verification.STRICT)
    store, calls = watched(any_store)
    assert len(publish(strict, store).published) == 5
    assert calls.of("read_range") == list(JSON)


@pytest.mark.requirement("R43")
@pytest.mark.parametrize(("torn", "error"), [(b"{", Diverged), (None, Transient)])
def test_strict_verification_finds_an_object_that_is_torn_or_gone(
    any_store: Store, torn: bytes | None, error: type[DeltaMirrorError]
) -> None:
    """A store that answers well, and does its work badly."""

    def badly(operation: str, key: str) -> object:
        if (operation, key) != ("create", commit_key(1)):
            return None
        return Created(any_store.put(key, torn)) if torn else Created(any_store.put("elsewhere", b"x"))

    store, _ = watched(any_store, before=badly)
    outcome = publish(unit_of(UNIT.commits, verify=Verification.STRICT), store)
    assert versions(outcome) == [0]
    assert outcome.failure is not None
    assert (type(outcome.failure.error), outcome.failure.stage) == (error, Stage.VERIFY)


def test_a_version_is_not_put_after_a_gap(any_store: Store) -> None:
    outcome = publish(unit_of([UNIT.commits[0], UNIT.commits[2]]), any_store)
    assert versions(outcome) == [0]
    assert outcome.failure is not None
    assert isinstance(outcome.failure.error, Internal)
    assert commits_in(any_store) == {commit_key(0): COMMITS[0]}


def test_a_unit_may_begin_anywhere(any_store: Store) -> None:
    assert versions(publish(unit_of(UNIT.commits[3:]), any_store)) == [3, 4]
    assert log_of(any_store) == dict(list(JSON.items())[3:])
