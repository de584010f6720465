"""Time that is lost in one stage of publishing shows there, and nowhere else."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from deltamirror.config import StorageSettings
from deltamirror.delta.chunks import Chunk
from deltamirror.publish import commits
from deltamirror.publish.assembly import commit_data
from deltamirror.publish.commits import publish_commits
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from deltamirror.work import CommitUnit, CommitWork, StageTimes, Verification
from tests.support.logs.commit_units import carried, held, unit_of, watched, work_of

pytestmark = pytest.mark.requirement("R63")

LINE = b'{"commitInfo":{"operation":"WRITE"}}\n'
DELAY = 2.0


class Clock:
    """Time that goes by only where a test lets it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def delay(self) -> None:
        self.now += DELAY


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store() -> Store:
    return store_at(f"memory://{uuid4()}/t", StorageSettings())


def unit(**fields: Any) -> CommitUnit:
    return unit_of([work_of(0, LINE), work_of(1, LINE)], checksums=False, verify=Verification.STRICT, **fields)


def delayed_fetch(clock: Clock) -> Callable[[CommitWork], Iterator[Chunk]]:
    def fetch(work: CommitWork) -> Iterator[Chunk]:
        if work.version == 1:
            clock.delay()
        yield from carried(work)

    return fetch


def delayed_store(store: Store, clock: Clock, *, writing: bool) -> Store:
    def delay(operation: str, key: str) -> None:
        if (operation == "create") is writing and key.endswith("1.json"):
            clock.delay()

    return watched(store, before=delay)[0]


def stages(store: Store, clock: Clock, *, unit: CommitUnit, **changed: Any) -> StageTimes:
    outcome = publish_commits(unit, store, clock=clock, **{"fetch": carried, "guard": held, **changed})
    assert [done.version for done in outcome.published] == [0, 1]
    assert outcome.stages is not None
    return outcome.stages


def test_a_database_that_is_slow_to_answer_is_seen_in_read(store: Store, clock: Clock) -> None:
    assert stages(store, clock, unit=unit(), fetch=delayed_fetch(clock)) == StageTimes(read=2_000.0)


def test_a_lease_that_is_slow_to_be_checked_is_seen_in_read(store: Store, clock: Clock) -> None:
    assert stages(store, clock, unit=unit(), guard=clock.delay) == StageTimes(read=4_000.0)


def test_chunks_that_were_read_before_the_unit_began_count_as_read(store: Store, clock: Clock) -> None:
    assert stages(store, clock, unit=unit(read=750.0)) == StageTimes(read=750.0)


def test_bytes_that_are_slow_to_be_made_are_seen_in_serialise(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(work: CommitWork, *given: Any, **named: Any) -> object:
        if work.version == 1:
            clock.delay()
        return commit_data(work, *given, **named)

    monkeypatch.setattr(commits, "commit_data", slow)
    assert stages(store, clock, unit=unit()) == StageTimes(serialise=2_000.0)


def test_a_store_that_is_slow_to_write_is_seen_in_upload(store: Store, clock: Clock) -> None:
    assert stages(delayed_store(store, clock, writing=True), clock, unit=unit()) == StageTimes(upload=2_000.0)


def test_a_store_that_is_slow_to_read_is_seen_in_verify(store: Store, clock: Clock) -> None:
    found = stages(delayed_store(store, clock, writing=False), clock, unit=unit())
    assert found == StageTimes(verify=found.verify)
    assert found.verify >= 2_000.0


def test_a_version_that_is_found_in_the_log_was_not_uploaded_for_as_long_as_it_is_read(
    store: Store, clock: Clock
) -> None:
    stages(store, clock, unit=unit())
    found = stages(delayed_store(store, clock, writing=False), clock, unit=unit())
    assert found == StageTimes(verify=found.verify)
