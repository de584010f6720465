"""Which of a service's troubles only a restart cures, and which it does not."""

from typing import Any, cast

import pytest

from deltamirror.ops.health.process import ServiceProgress
from deltamirror.ops.health.report import HealthFinding, HealthReport, HealthState, PartHealth, combined
from deltamirror.pipeline.service.progress import WorkInHand
from deltamirror.txnlog.queue.claims import Overdue
from deltamirror.work import Lane

pytestmark = pytest.mark.requirement("R64")

STALLED = 600.0


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


class Watched:
    """A service that has begun, under watch."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.progress = WorkInHand(self.clock)
        self.progress.turn()
        self.service = ServiceProgress(self.progress, owner="me", stalled=lambda: STALLED, clock=self.clock)

    def begin(self, table: str) -> Any:
        job = cast("Any", Work(table))
        self.progress.begin(Lane.COMMITS, job)
        return job

    def after(self, seconds: float) -> "Watched":
        self.clock.now += seconds
        self.progress.turn()
        return self

    def finding(self, *late: Overdue) -> HealthFinding:
        return self.service.finding(late)


@pytest.fixture
def watched() -> Watched:
    return Watched()


def overdue(name: str, owner: str | None = None) -> Overdue:
    return Overdue(name=name, location=f"s3://lake/{name}", version=3, committed_at=0, owner=owner)


def test_one_job_that_hangs_while_others_end_is_no_reason_to_restart(watched: Watched) -> None:
    watched.begin("hanging")
    other = watched.after(500).begin("other")
    watched.after(200).progress.end(other)
    found = watched.finding()
    assert (found.state, found.restart_cures) == (HealthState.DEGRADED, False)
    assert found.reason == "a job of lane commits has had no outcome for 700 s: hanging"


def test_a_service_that_no_longer_looks_for_work_needs_a_restart(watched: Watched) -> None:
    watched.clock.now += 601
    found = watched.finding()
    assert (found.state, found.restart_cures) == (HealthState.FAILED, True)
    assert found.reason == "the service has not looked for work for 601 s"


def test_work_that_is_old_when_it_becomes_due_is_given_time(watched: Watched) -> None:
    """After a pause, or an outage, commits may be hours old."""
    watched.after(3_600)
    assert watched.finding(overdue("resumed")).state is HealthState.DEGRADED
    assert watched.after(599).finding(overdue("resumed")).state is HealthState.DEGRADED
    found = watched.after(2).finding(overdue("resumed"))
    assert (found.state, found.restart_cures) == (HealthState.FAILED, True)
    assert "commits of table 'resumed' are due, and no job ended for 4201 s" in found.reason
    assert watched.finding().state is HealthState.OK
    assert watched.finding(overdue("another")).state is HealthState.DEGRADED


def test_a_service_with_more_work_than_it_can_do_is_not_restarted(watched: Watched) -> None:
    watched.finding(overdue("waiting"))
    for _ in range(10):
        job = watched.begin("busy")
        watched.after(100).progress.end(job)
    found = watched.finding(overdue("waiting"))
    assert (found.state, found.restart_cures) == (HealthState.DEGRADED, False)


def test_another_service_that_hangs_is_told_and_is_no_reason_to_restart_this_one(watched: Watched) -> None:
    found = watched.finding(overdue("theirs", owner="host:1:x"), overdue("mine", owner="me"))
    assert (found.state, found.restart_cures) == (HealthState.DEGRADED, False)
    assert "service host:1:x renews the leases of table 'theirs'" in found.reason
    assert "mine" not in found.reason


def test_a_service_that_waits_for_its_database_does_not_hang(watched: Watched) -> None:
    watched.clock.now += 3_600
    found = watched.service.finding(None)
    assert (found.state, found.restart_cures) == (HealthState.DEGRADED, False)
    assert found.reason.endswith("the database does not answer")


def part(state: HealthState, *, restart_cures: bool = False) -> PartHealth:
    return PartHealth(name="x", state=state, reason="", advice="", since=0, restart_cures=restart_cures)


@pytest.mark.parametrize(
    ("parts", "ok", "ready", "state"),
    [
        ([], True, True, HealthState.OK),
        ([part(HealthState.OK), part(HealthState.DEGRADED)], True, True, HealthState.DEGRADED),
        ([part(HealthState.FAILED), part(HealthState.DEGRADED)], True, False, HealthState.FAILED),
        ([part(HealthState.OK), part(HealthState.FAILED, restart_cures=True)], False, False, HealthState.FAILED),
    ],
)
def test_a_process_lives_unless_a_restart_is_needed_and_is_ready_unless_a_part_failed(
    parts: list[PartHealth], ok: bool, ready: bool, state: HealthState
) -> None:
    report = HealthReport(tuple(parts))
    assert (report.ok, report.ready, report.state) == (ok, ready, state)


def test_a_part_with_several_findings_has_the_worst_state_and_all_reasons() -> None:
    late = HealthFinding(state=HealthState.DEGRADED, reason="late", advice="wait")
    gone = HealthFinding(state=HealthState.FAILED, reason="gone", advice="look")
    found = combined([HealthFinding(reason="well"), late, gone])
    assert (found.state, found.reason, found.advice) == (HealthState.FAILED, "gone; late", "look; wait")
