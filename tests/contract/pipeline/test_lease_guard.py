"""Nobody puts to a table that may be somebody else's, and nobody asks more often than that takes."""

import threading
import time

import pytest

from deltamirror import Catalog
from deltamirror.errors import LeaseLost
from deltamirror.pipeline.run import lease_guard as guard_module
from deltamirror.pipeline.run.lease_guard import LeaseGuard
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
    return LeaseGuard("t", mine.lease, catalog.database, given_up or threading.Event())


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

    def left(*_: object) -> float:
        asked.append(watch.now)
        return 0.020

    monkeypatch.setattr(guard_module, "held_for", left)
    guard = guard_of(catalog)
    for moment in (100.0, 100.009, 100.010, 100.019, 100.021):
        watch.now = moment
        guard()
    assert asked == [100.0, 100.010, 100.021]


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
    LeaseGuard("t", held, None, threading.Event())()
    with pytest.raises(LeaseLost):
        LeaseGuard("t", over, None, threading.Event())()
