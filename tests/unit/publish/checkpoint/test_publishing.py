"""The outcome of a unit of a checkpoint: all that was written, or the stage and the object at which it stopped."""

from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from deltamirror.config import StorageSettings
from deltamirror.delta.chunks import Chunk
from deltamirror.deltalog.pointer import POINTER_KEY
from deltamirror.errors import DeltaMirrorError, Internal, LeaseLost, NotFound, Unavailable
from deltamirror.publish.checkpoint import publishing
from deltamirror.publish.checkpoint.building import BaseUnusable
from deltamirror.publish.checkpoint.publishing import publish_checkpoint
from deltamirror.publish.readings import OpenedVersion
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from deltamirror.work import CheckpointOutcome, CheckpointUnit, CommitWork, Failure, Guard, Stage
from tests.support.logs.checkpoint_attempts import CLASSIC, KINDS, LATER, V2, pointer_of, replayed, unit
from tests.support.logs.checkpoints import base_of, carried, objects, put_commits
from tests.support.logs.commit_units import held, watched

pytestmark = [pytest.mark.requirement("R24"), pytest.mark.requirement("R87")]

CHECKPOINT = "00000000000000000003.checkpoint.parquet"
COMMIT_KEY = "_delta_log/00000000000000000003.json"
STATE = replayed(CLASSIC)
COMMITTED = OpenedVersion.of(STATE.protocol, STATE.metadata, num_files=6, num_bytes=None)


@pytest.fixture
def store() -> Store:
    made = store_at(f"memory://{uuid4()}/t", StorageSettings())
    put_commits(made, [*CLASSIC, *LATER])
    return made


def published(
    store: Store, wanted: CheckpointUnit | None = None, *, guard: Guard = held, **options: Any
) -> CheckpointOutcome:
    return publish_checkpoint(wanted or unit(CLASSIC), store, **{"fetch": carried, "guard": guard, **options})


def failure_of(outcome: CheckpointOutcome, kind: type[DeltaMirrorError]) -> Failure:
    """Why nothing was told to be written."""
    assert (outcome.name, outcome.num_rows, outcome.base_unusable) == ("", 0, False)
    assert outcome.failure is not None
    assert isinstance(outcome.failure.error, kind)
    assert outcome.failure.version == outcome.version
    return outcome.failure


def test_the_outcome_has_all_that_was_written_and_how_long_it_took(store: Store) -> None:
    ticks = iter([3.0, 5.5])
    outcome = published(store, clock=lambda: next(ticks))
    data = objects(store)[f"_delta_log/{CHECKPOINT}"]
    wanted = unit(CLASSIC)
    assert outcome == CheckpointOutcome(
        table_id=wanted.table_id,
        lease=wanted.lease,
        version=3,
        name=CHECKPOINT,
        digest=sha256(data).digest(),
        num_rows=11,
        num_files=6,
        num_bytes=len(data),
        milliseconds=2500,
    )
    assert pointer_of(store).version == 3


@KINDS
def test_sidecars_are_written_where_the_table_wants_them(commits: list[bytes]) -> None:
    store = store_at(f"memory://{uuid4()}/t", StorageSettings())
    put_commits(store, commits)
    assert published(store, unit(commits)).name.endswith(".json" if commits is V2 else ".parquet")
    assert pointer_of(store).size == (15 if commits is V2 else 11)


def test_a_checkpoint_tells_which_one_it_was_built_from(store: Store) -> None:
    first = published(store)
    second = published(store, unit([*CLASSIC, *LATER], base=base_of(first)))
    assert (first.base, second.base, second.failure, second.num_files) == (None, 3, None, 8)


def test_a_base_that_is_gone_is_no_failure(store: Store) -> None:
    base = base_of(published(store))
    store.delete([f"_delta_log/{CHECKPOINT}"])
    outcome = published(store, unit([*CLASSIC, *LATER], base=base))
    assert (outcome.base_unusable, outcome.failure, outcome.name) == (True, None, "")


def without(version: int) -> CheckpointUnit:
    whole = unit(CLASSIC)
    return replace(whole, commits=tuple(work for work in whole.commits if work.version != version))


@pytest.mark.parametrize(
    "wrong", [without(0), without(1), without(3), replace(unit(CLASSIC), version=2), replace(unit(CLASSIC), commits=())]
)
def test_a_plan_with_a_gap_is_refused(store: Store, wrong: CheckpointUnit) -> None:
    failure = failure_of(published(store, wrong), Internal)
    assert failure.stage is Stage.CHECK
    assert failure.key == f"_delta_log/{wrong.version:020}.json"
    assert "do not follow on one another" in failure.error.message


@pytest.mark.parametrize("version", [2, 4])
def test_a_plan_that_does_not_begin_after_its_base_is_refused(store: Store, version: int) -> None:
    base = replace(base_of(published(store)), version=version)
    wrong = replace(unit([*CLASSIC, *LATER], base=base_of(published(store))), base=base)
    assert failure_of(published(store, wrong), Internal).stage is Stage.CHECK


def imported(*, last: int, has_bytes: bool = True) -> CheckpointUnit:
    """Of a table whose history begins with the state of version 2, be it without the bytes of its commit."""
    commits = [b"".join(CLASSIC[:3]), *CLASSIC[3 : last + 1]]
    first, *others = (replace(work, version=2 + work.version) for work in unit(commits).commits)
    base = replace(first, is_base=True, num_chunks=first.num_chunks if has_bytes else 0)
    return replace(unit(CLASSIC[: last + 1]), commits=(base, *others))


def test_the_history_of_an_imported_table_begins_later(store: Store) -> None:
    outcome = published(store, imported(last=3))
    assert (outcome.failure, outcome.num_files) == (None, 6)


def test_a_base_without_bytes_needs_no_commit_in_the_log_and_one_with_bytes_does(store: Store) -> None:
    store.delete(["_delta_log/00000000000000000002.json", COMMIT_KEY])
    assert published(store, imported(last=2, has_bytes=False)).failure is None
    assert failure_of(published(store, imported(last=2)), NotFound).stage is Stage.CHECK
    assert failure_of(published(store, imported(last=3, has_bytes=False)), NotFound).key == COMMIT_KEY


def test_a_checkpoint_does_not_come_before_its_commit(store: Store) -> None:
    store.delete([COMMIT_KEY])
    failure = failure_of(published(store), NotFound)
    assert (failure.stage, failure.key) == (Stage.CHECK, COMMIT_KEY)
    assert isinstance(failure.error, NotFound)
    assert (failure.error.table, failure.error.version) == ("t", 3)
    assert "put it back, with the bytes of Table.commit_file" in failure.error.hint
    assert POINTER_KEY not in objects(store)


def test_damage_in_the_database_is_told_of_the_stage_that_builds(store: Store) -> None:
    def fetch(work: CommitWork) -> Iterable[Chunk]:
        return ()

    failure = failure_of(published(store, fetch=fetch), Internal)
    assert (failure.stage, failure.key) == (Stage.BUILD, "")


def test_an_error_of_arrow_is_told_as_ours(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> object:
        raise pa.ArrowInvalid("no such column")

    monkeypatch.setattr(publishing, "build", fail)
    failure = failure_of(published(store), Internal)
    assert failure.error.message == "the checkpoint 3 of t cannot be built: no such column"
    assert (failure.stage, failure.key) == (Stage.BUILD, "")


@pytest.mark.parametrize("allowed", [0, 1])
def test_a_lost_lease_is_told_of_as_such_before_each_put(store: Store, allowed: int) -> None:
    answers = iter([True] * allowed)

    def guard() -> None:
        if not next(answers, False):
            raise LeaseLost("another process has it")

    failure = failure_of(published(store, guard=guard), LeaseLost)
    assert (failure.stage, failure.key) == (Stage.LEASE, "")
    assert (f"_delta_log/{CHECKPOINT}" in objects(store)) is bool(allowed)
    assert POINTER_KEY not in objects(store)


@pytest.mark.parametrize(
    ("key", "stage", "told"),
    [(f"_delta_log/{CHECKPOINT}", Stage.PUT, ""), (POINTER_KEY, Stage.POINTER, POINTER_KEY)],
)
def test_a_store_that_fails_is_told_of_with_the_stage(store: Store, key: str, stage: Stage, told: str) -> None:
    def fail(operation: str, asked: str) -> None:
        if operation in ("create", "replace") and asked == key:
            raise Unavailable("the store is down")

    failing, _ = watched(store, before=fail)
    failure = failure_of(published(failing), Unavailable)
    assert (failure.stage, failure.key) == (stage, told)


def test_a_version_counts_once_a_reader_sees_what_was_committed(store: Store) -> None:
    asked: list[int] = []

    def read(version: int) -> OpenedVersion:
        asked.append(version)
        return COMMITTED

    outcome = published(store, reader=read)
    assert (outcome.failure, outcome.name, asked) == (None, CHECKPOINT, [3])


def test_a_reader_that_sees_something_else_is_told_of(store: Store) -> None:
    failure = failure_of(published(store, reader=lambda _: replace(COMMITTED, num_files=5)), Internal)
    assert (failure.stage, failure.key) == (Stage.VERIFY, f"_delta_log/{CHECKPOINT}")
    assert "table 't'" in failure.error.message
    assert "num_files is 5, not 6" in failure.error.message


def test_an_unusable_base_has_its_time_measured_too(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> object:
        raise BaseUnusable

    monkeypatch.setattr(publishing, "build", fail)
    ticks = iter([1.0, 2.0])
    outcome = published(store, clock=lambda: next(ticks))
    assert (outcome.base_unusable, outcome.milliseconds) == (True, 1000)
