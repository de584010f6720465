"""Nobody puts to a table that may be somebody else's, and nobody asks more often than that takes."""

import threading
import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import pytest

from deltamirror import Catalog
from deltamirror.errors import LeaseLost
from deltamirror.pipeline.run import lease_guard as guard_module
from deltamirror.pipeline.run.lease_guard import LeaseAnswers, LeaseGuard
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.leases import held_together
from deltamirror.work import Lane, Lease
from tests.support.lakes.lake import create, execute
from tests.support.mirrors.claims import claimed


class Watch:
    """A clock that is set by hand; the time of day stays as it is."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return time.time()


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    found = Watch()
    monkeypatch.setattr(guard_module, "time", found)
    return found


def guard_of(catalog: Catalog, given_up: threading.Event | None = None) -> LeaseGuard:
    create(catalog)
    [mine] = claimed(catalog)
    return LeaseGuard("t", mine.lease, LeaseAnswers(catalog.database), given_up or threading.Event())


def take_over(catalog: Catalog) -> None:
    execute(catalog, "UPDATE dl_leases SET owner = 'another', epoch = epoch + 1")


def test_a_lease_that_is_lost_is_noticed_after_a_moment(catalog: Catalog, watch: Watch) -> None:
    guard = guard_of(catalog)
    guard()
    take_over(catalog)
    watch.now += 0.049
    guard()
    watch.now += 0.001
    with pytest.raises(LeaseLost, match="another process holds it"):
        guard()


def test_the_first_put_always_asks(catalog: Catalog, watch: Watch) -> None:
    guard = guard_of(catalog)
    take_over(catalog)
    with pytest.raises(LeaseLost, match="another process holds it"):
        guard()


def test_an_answer_is_good_for_half_of_the_time_that_is_left_and_no_longer(
    catalog: Catalog, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[float]()

    def left(_: object, leases: Collection[Lease]) -> Mapping[Lease, float]:
        asked.append(watch.now)
        return dict.fromkeys(leases, 0.020)

    monkeypatch.setattr(guard_module, "held_together", left)
    guard = guard_of(catalog)
    for moment in (100.0, 100.009, 100.010, 100.019, 100.021):
        watch.now = moment
        guard()
    assert asked == [100.0, 100.010, 100.021]


@dataclass
class Questions:
    """Of which tables the database is asked for leases."""

    asked: list[set[int]] = field(default_factory=list)

    def ask(self, database: Database, leases: Collection[Lease]) -> Mapping[Lease, float]:
        self.asked.append({lease.table_id for lease in leases})
        return held_together(database, leases)


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> Questions:
    found = Questions()
    monkeypatch.setattr(guard_module, "held_together", found.ask)
    return found


def leases_of(catalog: Catalog, number: int) -> list[Lease]:
    for each in range(number):
        create(catalog, f"t{each}")
    return [each.lease for each in claimed(catalog, limit=number)]


def test_one_question_is_for_all_leases_of_a_job(catalog: Catalog, watch: Watch, questions: Questions) -> None:
    leases, answers = leases_of(catalog, 3), LeaseAnswers(catalog.database)
    with answers.asked_together(leases):
        for _ in range(2):
            for lease in leases:
                LeaseGuard("t", lease, answers, threading.Event())()
            watch.now += 0.050
    assert questions.asked == [{lease.table_id for lease in leases}] * 2


def test_of_leases_that_are_asked_for_together_the_one_that_is_lost_is_noticed(catalog: Catalog, watch: Watch) -> None:
    leases, answers = leases_of(catalog, 3), LeaseAnswers(catalog.database)
    lost = leases[1]
    with answers.asked_together(leases):
        guards = {lease: LeaseGuard("t", lease, answers, threading.Event()) for lease in leases}
        for guard in guards.values():
            guard()
        execute(catalog, "UPDATE dl_leases SET epoch = epoch + 1 WHERE table_id = :of", of=lost.table_id)
        watch.now += 0.050
        for lease in (leases[0], leases[2]):
            guards[lease]()
        with pytest.raises(LeaseLost):
            guards[lost]()


def test_leases_of_another_owner_or_lane_and_of_jobs_that_ended_are_not_asked_for(
    catalog: Catalog, watch: Watch, questions: Questions
) -> None:
    [lease, ended], answers = leases_of(catalog, 2), LeaseAnswers(catalog.database)
    others = [replace(lease, lane=Lane.CHECKPOINTS, table_id=7), replace(lease, owner="another", table_id=8)]
    with answers.asked_together([ended]):
        pass
    with answers.asked_together([lease, *others]):
        LeaseGuard("t", lease, answers, threading.Event())()
    assert questions.asked == [{lease.table_id}]


def test_a_unit_that_is_done_is_not_asked_for(catalog: Catalog, watch: Watch, questions: Questions) -> None:
    [lease, over], answers = leases_of(catalog, 2), LeaseAnswers(catalog.database)
    with answers.asked_together([lease, over]):
        answers.done(over)
        LeaseGuard("t", lease, answers, threading.Event())()
    assert questions.asked == [{lease.table_id}]


class SlowAnswers(Questions):
    """The first question is answered when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.release = threading.Event(), threading.Event()

    def ask(self, database: Database, leases: Collection[Lease]) -> Mapping[Lease, float]:
        found = super().ask(database, leases)
        if not self.entered.is_set():
            self.entered.set()
            assert self.release.wait(60)
        return found


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowAnswers]:
    found = SlowAnswers()
    monkeypatch.setattr(guard_module, "held_together", found.ask)
    yield found
    found.release.set()


@pytest.mark.default_on("sqlite")
def test_threads_that_need_an_answer_at_once_wait_for_one(
    catalog: Catalog, slow: SlowAnswers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard_module, "_SURE_SECONDS", 60.0)
    leases, answers = leases_of(catalog, 3), LeaseAnswers(catalog.database)
    with answers.asked_together(leases), ThreadPoolExecutor(3) as threads:
        held = [threads.submit(answers.is_held, lease) for lease in leases]
        assert slow.entered.wait(60)
        slow.release.set()
        assert all(each.result() for each in held)
    assert len(slow.asked) == 1


@pytest.mark.default_on("sqlite")
def test_a_question_that_is_not_answered_holds_up_no_other_unit(catalog: Catalog, slow: SlowAnswers) -> None:
    [lease, other], answers = leases_of(catalog, 2), LeaseAnswers(catalog.database)
    with answers.asked_together([lease, other]), ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(answers.is_held, lease)
        assert slow.entered.wait(60)
        assert answers.is_held(other)
        assert not waiting.done()
        slow.release.set()


def test_a_failure_at_something_else_has_the_database_asked_anew(
    catalog: Catalog, watch: Watch, questions: Questions
) -> None:
    guard = guard_of(catalog)
    guard()
    guard.confirm()
    assert len(questions.asked) == 2


def test_what_was_lost_stays_lost(catalog: Catalog, watch: Watch) -> None:
    guard = guard_of(catalog)
    take_over(catalog)
    for _ in range(3):
        with pytest.raises(LeaseLost):
            guard()
        watch.now += 0.001


def test_work_that_was_given_up_puts_nothing_whatever_was_answered(catalog: Catalog) -> None:
    given_up = threading.Event()
    guard = guard_of(catalog, given_up)
    guard()
    given_up.set()
    with pytest.raises(LeaseLost, match="given up"):
        guard()


def test_without_a_database_the_lease_ends_by_the_clock_of_the_machine() -> None:
    held, over = (
        Lease(table_id=1, lane=Lane.COMMITS, owner="me", epoch=1, held_until=until) for until in (float("inf"), 1.0)
    )
    answers = LeaseAnswers(None)
    LeaseGuard("t", held, answers, threading.Event())()
    with pytest.raises(LeaseLost):
        LeaseGuard("t", over, answers, threading.Event())()
