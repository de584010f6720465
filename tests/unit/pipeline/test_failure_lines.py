"""What a service says of failures: what is news, and nothing else."""

import logging

import pytest

from deltamirror.errors import PermissionDenied, Unavailable
from deltamirror.pipeline.service.service import FailureLines, lasting_failure
from deltamirror.work import CommitOutcome, Failure, Lane, Lease, Published, Stage

pytestmark = pytest.mark.requirement("R86")

LEASE = Lease(table_id=7, lane=Lane.COMMITS, owner="me", epoch=1, held_until=0.0)
AWAY = Unavailable("away")


def outcome(error: Unavailable | PermissionDenied | None, *, version: int = 3, published: int = 0) -> CommitOutcome:
    failure = None if error is None else Failure(error=error, stage=Stage.PUT, version=version)
    done = tuple(Published(version=each, already=False, num_bytes=1, milliseconds=1.0) for each in range(published))
    return CommitOutcome(table_id=7, table="t", lease=LEASE, published=done, failure=failure)


@pytest.fixture
def lines() -> FailureLines:
    return FailureLines(logging.getLogger("deltamirror.lines"))


def tell(lines: FailureLines, *outcomes: CommitOutcome) -> None:
    for each in outcomes:
        lines.tell(each, lasting_failure(each))


def test_the_same_failure_is_told_of_once(lines: FailureLines, caplog: pytest.LogCaptureFixture) -> None:
    tell(lines, *[outcome(AWAY)] * 100)
    assert len(caplog.records) == 1


def test_another_error_is_news(lines: FailureLines, caplog: pytest.LogCaptureFixture) -> None:
    tell(lines, *[outcome(AWAY), outcome(PermissionDenied("no"))] * 100)
    assert len(caplog.records) == 2


def test_a_failure_after_a_success_is_news(lines: FailureLines, caplog: pytest.LogCaptureFixture) -> None:
    tell(lines, outcome(AWAY), outcome(None, published=3), outcome(AWAY))
    assert len(caplog.records) == 2


def test_a_lost_lease_is_no_success(lines: FailureLines, caplog: pytest.LogCaptureFixture) -> None:
    tell(lines, *[outcome(AWAY), outcome(None)] * 100)
    assert len(caplog.records) == 1


def test_the_service_says_that_it_pauses_while_pauses_grow(
    lines: FailureLines, caplog: pytest.LogCaptureFixture
) -> None:
    for seconds in (0.5, 1.0, *[30.0] * 100):
        lines.tell_of_pause(AWAY, seconds)
    assert len(caplog.records) == 3
    tell(lines, outcome(AWAY))
    lines.tell_of_pause(AWAY, 0.5)
    assert len(caplog.records) == 5
