"""A service that hangs is told from one that is idle, and from one that is busy."""

from typing import Any, cast

import pytest

from deltamirror.pipeline.service.progress import WorkInHand
from deltamirror.work import Lane

pytestmark = pytest.mark.requirement("R64")


class Clock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Work:
    """A job, as far as progress is concerned."""

    def __init__(self, *tables: str) -> None:
        self.tables = tables


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def progress(clock: Clock) -> WorkInHand:
    return WorkInHand(clock)


def job(*tables: str) -> Any:
    return cast("Any", Work(*tables))


def test_a_service_that_has_not_begun_says_so(progress: WorkInHand) -> None:
    assert progress.standing().turned is None


def test_an_idle_service_has_nothing_in_hand(progress: WorkInHand, clock: Clock) -> None:
    progress.turn()
    clock.now += 3_600
    progress.turn()
    standing = progress.standing()
    assert (standing.turned, standing.advanced, standing.jobs) == (0, 3_600, ())


def test_a_job_that_hangs_is_quiet_for_as_long_as_it_hangs(progress: WorkInHand, clock: Clock) -> None:
    progress.turn()
    clock.now += 3_600  # idle: this does not count
    progress.begin(Lane.COMMITS, job("orders"))
    clock.now += 700
    [quiet] = progress.standing().jobs
    assert (quiet.lane, quiet.tables, quiet.seconds, quiet.lane_seconds) == (Lane.COMMITS, ("orders",), 700, 700)


def test_a_job_with_an_outcome_now_and_then_is_not_quiet(progress: WorkInHand, clock: Clock) -> None:
    large = job("a", "b")
    progress.begin(Lane.COMMITS, large)
    clock.now += 500
    progress.advance(large)
    clock.now += 100
    [quiet] = progress.standing().jobs
    assert (quiet.seconds, quiet.lane_seconds) == (100, 100)


def test_others_of_its_lane_that_end_tell_a_hanging_job_from_a_hanging_service(
    progress: WorkInHand, clock: Clock
) -> None:
    hanging, other = job("hanging"), job("other")
    progress.begin(Lane.COMMITS, hanging)
    clock.now += 500
    progress.begin(Lane.COMMITS, other)
    clock.now += 200
    progress.end(other)
    clock.now += 10
    [quiet] = progress.standing().jobs
    assert (quiet.tables, quiet.seconds, quiet.lane_seconds) == (("hanging",), 710, 10)


def test_a_lane_that_hangs_is_not_hidden_by_another(progress: WorkInHand, clock: Clock) -> None:
    progress.begin(Lane.COMMITS, job("hanging"))
    clock.now += 600
    checkpoint = job("other")
    progress.begin(Lane.CHECKPOINTS, checkpoint)
    progress.end(checkpoint)
    [quiet] = progress.standing().jobs
    assert quiet.lane_seconds == 600
