"""The parts of a running process: whether its service advances, its reconciler, its Spark, its settings."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltamirror.config import ReloadState, Settings
from deltamirror.errors import DeltaMirrorError
from deltamirror.ops.health.catalog import named, overdue_findings, trouble
from deltamirror.ops.health.report import HealthFinding, HealthState, combined
from deltamirror.pipeline.failures.our_errors import our_error
from deltamirror.storage.calls import StoreCalls
from deltamirror.txnlog.queue.claims import Overdue

if TYPE_CHECKING:
    from deltamirror.ops.reconcile.background import BackgroundReconciler
    from deltamirror.pipeline.run.runner import Runner
    from deltamirror.pipeline.service.progress import Quiet, Standing, WorkInHand

_RESTART = "restart this process: its tables go to another service, or to itself, when their leases end"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessParts:
    """What a process consists of; None for what it has not."""

    owner: str = ""
    """The name under which it holds leases."""
    progress: "WorkInHand | None" = None
    reconciler: "Callable[[], BackgroundReconciler | None]" = lambda: None
    runner: "Runner | None" = None
    lets_go: bool = False
    """Whether a check has to let others open the database again, where one process at a time can: no service does."""


class ServiceProgress:
    """Whether a service gets on. It knows the work in hand itself; SQL knows the work that is due."""

    def __init__(
        self,
        progress: "WorkInHand",
        *,
        owner: str,
        stalled: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._progress, self._owner, self._stalled_after, self._clock = progress, owner, stalled, clock
        self._untaken_since: float | None = None

    @property
    def _stalled(self) -> float:
        return self._stalled_after()

    def finding(self, late: Sequence[Overdue] | None) -> HealthFinding:
        """How the service stands; ``late`` is None while the database does not answer: a restart cures nothing then."""
        standing = self._progress.standing()
        if standing.turned is None:
            return HealthFinding(reason="the service has not begun")
        found = combined([*self._of_loop(standing), *self._of_jobs(standing.jobs), *self._of_others(late, standing)])
        if late is None and found.state is HealthState.FAILED:
            return HealthFinding(state=HealthState.DEGRADED, reason=f"{found.reason}; the database does not answer")
        return found

    def _of_loop(self, standing: "Standing") -> Iterator[HealthFinding]:
        if standing.turned is not None and standing.turned > self._stalled:
            yield _hangs(f"the service has not looked for work for {standing.turned:.0f} s")

    def _of_jobs(self, jobs: "Sequence[Quiet]") -> Iterator[HealthFinding]:
        for job in jobs:
            if job.seconds <= self._stalled:
                continue
            what = f"a job of lane {job.lane} has had no outcome for {job.seconds:.0f} s: {', '.join(job.tables[:3])}"
            if job.lane_seconds > self._stalled:
                yield _hangs(f"{what}; no other job of its lane ended meanwhile")
            else:
                advice = f"others go on; if it lasts, {_RESTART}"
                yield HealthFinding(state=HealthState.DEGRADED, reason=what, advice=advice)

    def _of_others(self, late: Sequence[Overdue] | None, standing: "Standing") -> Iterator[HealthFinding]:
        """Work that this service might take on and does not, and that which another one holds and does not do."""
        untaken = [each for each in late or () if each.owner is None]
        if self._untaken_for(untaken) > self._stalled and standing.advanced > self._stalled:
            yield _hangs(f"commits of {named(untaken, None)} are due, and no job ended for {standing.advanced:.0f} s")
        elif untaken:
            what = f"commits of {named(untaken, None)} wait for more than {self._stalled:g} s"
            yield HealthFinding(
                state=HealthState.DEGRADED, reason=what, advice="start more services, or give them more threads"
            )
        others = [each for each in late or () if each.owner not in (None, self._owner)]
        for found in overdue_findings(others, stalled=self._stalled):
            yield HealthFinding(state=HealthState.DEGRADED, reason=found.reason, advice=found.advice)

    def _untaken_for(self, untaken: Sequence[Overdue]) -> float:
        """For how many seconds there has been such work: after a pause, or an outage, it is old when it becomes due."""
        now = self._clock()
        if not untaken:
            self._untaken_since = None
        elif self._untaken_since is None:
            self._untaken_since = now
        return 0.0 if self._untaken_since is None else now - self._untaken_since


def _hangs(reason: str) -> HealthFinding:
    return HealthFinding(state=HealthState.FAILED, reason=reason, advice=_RESTART, restart_cures=True)


def reconciler_finding(reconciler: "BackgroundReconciler | None", *, stalled: float) -> HealthFinding:
    """Whether the thread that compares logs gets on."""
    if reconciler is None:
        return HealthFinding(reason="this process does not compare logs")
    if not reconciler.is_on:
        return HealthFinding(reason="reconcile.interval is 0: this process does not compare logs")
    rounds = reconciler.rounds()
    if not rounds.is_running:
        return _hangs("the reconciler has ended")
    if rounds.late > stalled:
        what = "has not begun a round" if rounds.table is None else f"has been at the log of table {rounds.table!r}"
        return _hangs(f"the reconciler {what} for {rounds.late:.0f} s")
    if rounds.error:
        advice = "it tries again by itself; `deltamirror reconcile` compares the logs at once"
        return HealthFinding(
            state=HealthState.DEGRADED, reason=f"the logs are not compared: {rounds.error}", advice=advice
        )
    return HealthFinding()


def spark_finding(runner: "Runner | None", settings: Settings, calls: StoreCalls) -> HealthFinding:
    """Whether Spark has started, and answers."""
    if runner is None:
        return HealthFinding(reason="this process runs nothing on Spark")
    if settings.mirror.runner != "spark":
        return HealthFinding(reason="mirror.runner is local: Spark is not used")
    hint = "check the JVM or the Spark server; the mirror starts a Spark of its own again by itself"
    try:
        seconds = settings.health.timeout
        is_ready = calls.run(runner.is_ready, location="Spark", doing="ask", seconds=seconds, hint=hint)
    except DeltaMirrorError as error:
        return trouble(error)
    except Exception as error:  # noqa: BLE001  a check never fails as a whole
        return trouble(our_error(error))
    return (
        HealthFinding()
        if is_ready
        else HealthFinding(state=HealthState.DEGRADED, reason="Spark is starting", advice="wait for it")
    )


def settings_finding(state: ReloadState) -> HealthFinding:
    """Whether the settings in force are those of the file."""
    if state.valid:
        return HealthFinding()
    return HealthFinding(
        state=HealthState.DEGRADED,
        reason=f"the settings file was edited and is refused; the values from before are in force: {state.error}",
        advice="correct it: `deltamirror config check` names everything that is wrong",
    )
