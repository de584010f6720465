"""Jobs of the mirror: what one run of the runner works on, what comes of it, and what is written down of that."""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from typing import Final

from deltamirror.config import LiveSettings, Settings
from deltamirror.errors import (
    CapacityExceeded,
    CatalogMismatch,
    DeltaMirrorError,
    Diverged,
    Internal,
    InvalidSettings,
    LeaseLost,
    MissingExtra,
    PermissionDenied,
    Transient,
    Unavailable,
)
from deltamirror.pipeline.failures.backoff import RetryPolicy
from deltamirror.pipeline.failures.circuit import Breakers, Purpose
from deltamirror.pipeline.failures.escalation import EscalationPolicy
from deltamirror.pipeline.failures.our_errors import our_error
from deltamirror.pipeline.plan.cadence import Due
from deltamirror.pipeline.plan.planning import CommitPlan
from deltamirror.pipeline.run.execution import failed, let_go
from deltamirror.pipeline.run.runner import Runner
from deltamirror.pipeline.service.heartbeat import Heartbeat
from deltamirror.pipeline.service.pace import Pace
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.location import local_path, store_prefix
from deltamirror.telemetry import metrics, spans
from deltamirror.txnlog.content.superseded import explained
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.backlog import txn_ids
from deltamirror.txnlog.queue.claims import Claim
from deltamirror.txnlog.queue.outcomes import CommitRecord, Recorded, record_checkpoint, record_commits
from deltamirror.work import (
    CheckpointOutcome,
    CommitOutcome,
    CommitUnit,
    CommitWork,
    Failure,
    Lane,
    Lease,
    Outcome,
    Stage,
    Unit,
)

_log = logging.getLogger(__name__)

_OF_SERVICE: Final = (InvalidSettings, MissingExtra, Unavailable)
"""What a runner raises if it cannot run anything, whatever the units are."""

_MOMENT: Final = 1.0
"""So many seconds a table waits for others whose checksums are begun in the same job."""

OF_DATABASE: Final = (CapacityExceeded, CatalogMismatch, MissingExtra, PermissionDenied, Transient, Unavailable)
"""What planning raises if the database is in trouble, whatever the table is."""


class Predecessors:
    """The last versions that were put without trouble. Safe to share between threads.

    A disk is looked at each time: that costs nothing, and another one may be mounted in its place at any moment.
    """

    def __init__(self) -> None:
        self._put: dict[tuple[int, StoreAddress], int] = {}

    def continued(self, unit: CommitUnit) -> CommitUnit:
        """The unit; without the version that it follows on, where this service put that one.

        What comes of it has to be remembered for the next unit: until then nothing is known.
        """
        known = self._put.pop((unit.table_id, unit.address), None) == unit.commits[0].version - 1
        return replace(unit, follows="") if known else unit

    def remember(self, unit: CommitUnit, outcome: CommitOutcome) -> None:
        """What came of a unit: unless it met trouble, its last version is there."""
        if outcome.failure is None and outcome.published and local_path(unit.address.location) is None:
            self._put[unit.table_id, unit.address] = outcome.published[-1].version


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What the lanes work with."""

    database: Database
    runner: Runner
    live: LiveSettings
    owner: str
    heartbeat: Heartbeat
    breakers: Breakers
    pace: Pace
    predecessors: Predecessors = field(default_factory=Predecessors)

    @property
    def settings(self) -> Settings:
        """Those in force."""
        return self.live.current


class Job(ABC):
    """Work at tables of one store, by their leases and names. The leases are renewed since the claim, until it is over.

    A job whose purpose is a probe is of one table.
    """

    is_retry = False
    """Whether all of its tables failed before."""

    def __init__(self, shop: Workshop, tables: Mapping[Lease, str], *, location: str, purpose: Purpose) -> None:
        self._shop = shop
        self._purpose = purpose
        self._waiting = {lease.table_id: lease for lease in tables}
        self._names = {lease.table_id: name for lease, name in tables.items()}
        self.store = store_prefix(location)

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of its tables."""
        return tuple(self._names.values())

    def run(self, *, escalate: Callable[[Outcome], None] = lambda _: None) -> Iterator[Outcome]:
        """What comes of each table's work, recorded, as it finishes. Recording gives a lease back.

        ``escalate`` is told of those that an operator has to look at. When one of them opens the circuit of the store,
        no other unit is begun, and those under way put nothing more.
        """
        with closing(self._outcomes()) as outcomes:
            for together in outcomes:
                for some in self._apart([self._named(each) for each in together]):
                    goes_on = yield from self._take(some, escalate)
                    if not goes_on:
                        return

    def _named(self, outcome: Outcome) -> Outcome:
        named = self._explained(replace(outcome, table=self._names[outcome.table_id]))
        _measure(named)
        return named

    def _apart(self, outcomes: Sequence[Outcome]) -> list[list[Outcome]]:
        """The outcomes as they are recorded: each by itself, unless they can be together."""
        return [[each] for each in outcomes]

    def _take(self, outcomes: Sequence[Outcome], escalate: Callable[[Outcome], None]) -> Generator[Outcome, None, bool]:
        """Record outcomes and hand them on; whether the circuit of the store stays as it is."""
        if _is_given_up(outcomes[0]):
            yield from outcomes  # not recorded; closing gives the lease back
            return True
        told = []
        for outcome, recorded in zip(outcomes, self._record(outcomes), strict=True):
            named = replace(outcome, attempt=recorded.attempt, retry_at=recorded.retry_at)
            told.append(named)
            if recorded.escalated:
                escalate(named)
            self._shop.heartbeat.remove([self._waiting.pop(outcome.table_id)])
            if recorded.recovered:
                self._shop.breakers.recovered(self.store)
        goes_on = self._shop.breakers.told(self.store, outcomes, self._purpose)
        self._purpose = Purpose.WORK
        yield from told
        return goes_on

    def close(self) -> None:
        """Give back the leases of tables whose work came to nothing, and what they were to try."""
        if self._waiting:
            self._shop.heartbeat.give_back(self._waiting.values())
        if self._purpose is Purpose.PROBE:
            self._shop.breakers.end_trying(self.store)

    @abstractmethod
    def _outcomes(self) -> Generator[Sequence[Outcome]]:
        """Do the work."""

    def _explained(self, outcome: Outcome) -> Outcome:
        """Whether bytes that are not the database's are ours nevertheless, only the database knows."""
        failure = outcome.failure
        if failure is None or not isinstance(failure.error, Diverged):
            return outcome
        with self._shop.database.read() as connection:
            error = explained(connection, outcome.table_id, failure.error)
        return replace(outcome, failure=replace(failure, error=error))

    def _record(self, outcomes: Sequence[Outcome]) -> list[Recorded]:
        """Write down what came of tables, in one transaction: of one, unless nothing failed."""
        database, mirror = self._shop.database, self._shop.settings.mirror
        retry, escalates = RetryPolicy(mirror), EscalationPolicy(mirror)
        [first, *_] = outcomes
        if isinstance(first, CheckpointOutcome):
            return [record_checkpoint(database, first, retry=retry, escalates=escalates)]
        commits = [each for each in outcomes if isinstance(each, CommitOutcome)]
        records = [CommitRecord(each, self._due(each)) for each in commits]
        return record_commits(database, records, retry=retry, escalates=escalates)

    def _due(self, outcome: CommitOutcome) -> Due | None:
        """The checkpoint that commits which were published make due."""
        return None


class RunnerJob(Job):
    """Units of one store that one run of the runner works on.

    If that fails as a whole, the failing unit is not known: each unit is then run by itself, and the one that fails
    so again is the one that failed.
    """

    def __init__(self, shop: Workshop, units: Sequence[Unit], *, purpose: Purpose = Purpose.WORK) -> None:
        tables = {unit.lease: unit.table for unit in units}
        super().__init__(shop, tables, location=units[0].address.location, purpose=purpose)
        self._units = tuple(units)

    def _outcomes(self) -> Generator[Sequence[Outcome]]:
        yield from self._of(self._units)

    def _of(self, units: Sequence[Unit]) -> Generator[Sequence[Outcome]]:
        if len(units) > 1 and (yield from self._together(units)):
            return
        for unit in units:
            if unit.table_id in self._waiting:
                yield from self._alone(unit)

    def _together(self, units: Sequence[Unit]) -> Generator[Sequence[Outcome], None, bool]:
        """All units at once; whether the run did not fail as a whole."""
        try:
            yield from self._shop.runner.run(units)
        except _OF_SERVICE:
            raise
        except Exception as error:  # noqa: BLE001  whatever it is, one of the units may bring it about
            what = "a job of %d tables failed as a whole, and is done table by table: %s"
            _log.warning(what, len(units), our_error(error))
            return False
        return True

    def _alone(self, unit: Unit) -> Generator[Sequence[Outcome]]:
        try:
            yield from self._shop.runner.run([unit])
            return
        except _OF_SERVICE:
            raise
        except Exception as error:
            if unit.table_id not in self._waiting:
                raise
            failure = _of_whole_job(unit, error)
        let_go(failure)
        yield [failed(unit, failure, Stage.RUN)]


class CommitJob(RunnerJob):
    """Commits to publish."""

    def __init__(self, shop: Workshop, plans: Sequence[CommitPlan], *, purpose: Purpose = Purpose.WORK) -> None:
        continued = [replace(plan, unit=shop.predecessors.continued(plan.unit)) for plan in plans]
        super().__init__(shop, [plan.unit for plan in continued], purpose=purpose)
        self._plans = {plan.unit.table_id: plan for plan in continued}
        self.is_retry = all(plan.is_retry for plan in plans)

    def _due(self, outcome: CommitOutcome) -> Due | None:
        due = self._plans[outcome.table_id].due(outcome)
        if due is not None and due.is_late:
            self._shop.pace.hurry(outcome.table_id)
        return due

    def _apart(self, outcomes: Sequence[Outcome]) -> list[list[Outcome]]:
        """Those in which nothing failed, now or before, together."""
        clean = [each for each in outcomes if self._is_clean(each)]
        return [*([clean] if clean else []), *([each] for each in outcomes if not self._is_clean(each))]

    def _is_clean(self, outcome: Outcome) -> bool:
        return outcome.failure is None and not self._plans[outcome.table_id].is_retry and self._purpose is Purpose.WORK

    def _record(self, outcomes: Sequence[Outcome]) -> list[Recorded]:
        recorded = super()._record(outcomes)
        for outcome, each in zip(outcomes, recorded, strict=True):
            unit = self._plans[outcome.table_id].unit
            if isinstance(outcome, CommitOutcome):
                self._shop.predecessors.remember(unit, outcome)
            visible = [(work, at) for work in unit.commits if (at := each.visible_at.get(work.version)) is not None]
            metrics.observe_publish(outcome.table, ((at - work.committed_at) / 1_000 for work, at in visible))
            if visible and spans.are_recorded():
                self._trace(outcome, visible)
        return recorded

    def _trace(self, outcome: Outcome, visible: Sequence[tuple[CommitWork, int]]) -> None:
        first, last = visible[0][0].version, visible[-1][0].version
        try:
            with self._shop.database.read() as connection:
                transactions = txn_ids(connection, outcome.table_id, first=first, last=last)
        except DeltaMirrorError as error:
            _log.debug("no spans of table %r: %s", outcome.table, error)  # the versions are published and recorded
            return
        for work, visible_at in visible:
            spans.published(
                transactions[work.version],
                outcome.table,
                work.version,
                committed_at=work.committed_at,
                visible_at=visible_at,
                num_bytes=work.num_bytes,
            )


class SeedingJob(CommitJob):
    """Commits of tables whose checksums begin anew, from whole states: of those together that are ready in a moment.

    That is no part of planning: other tables would not be claimed meanwhile.
    """

    def _outcomes(self) -> Generator[Sequence[Outcome]]:
        ready, begun = list[Unit](), time.monotonic()
        for plan in self._plans.values():
            try:
                ready.append(plan.with_checksums(self._shop.database))
            except OF_DATABASE:
                raise
            except Exception as error:  # noqa: BLE001  whatever it is, it is recorded as the failure of its table
                failure = our_error(error)
                let_go(failure)
                yield [failed(plan.unit, failure, Stage.PLAN)]
            if ready and time.monotonic() - begun >= _MOMENT:
                yield from self._of(ready)
                ready, begun = [], time.monotonic()
        yield from self._of(ready)


class UnplannedJob(Job):
    """A table whose work cannot be planned: all that is done is to write down why."""

    def __init__(
        self, shop: Workshop, claim: Claim, error: DeltaMirrorError, *, purpose: Purpose = Purpose.WORK
    ) -> None:
        super().__init__(shop, {claim.lease: claim.name}, location=claim.location, purpose=purpose)
        self._outcome = _unplanned(claim, error)

    def _outcomes(self) -> Generator[Sequence[Outcome]]:
        yield [self._outcome]


def _measure(outcome: Outcome) -> None:
    lane, failure = outcome.lease.lane.value, outcome.failure
    if _is_abandoned(outcome):
        metrics.count_attempt(lane, "abandoned")
    elif failure is not None:
        metrics.count_attempt(lane, "failure")
        metrics.count_failure(failure.error.code, lane)
    else:
        metrics.count_attempt(lane, "success")
    if isinstance(outcome, CheckpointOutcome):
        _measure_checkpoint(outcome)
    elif outcome.stages is not None:
        for stage, milliseconds in asdict(outcome.stages).items():
            metrics.observe_stage(stage, milliseconds / 1_000)


def _measure_checkpoint(outcome: CheckpointOutcome) -> None:
    if outcome.milliseconds:
        metrics.observe_stage("checkpoint", outcome.milliseconds / 1_000)
    if outcome.failure is None and not outcome.base_unusable:
        metrics.observe_checkpoint(outcome.milliseconds / 1_000, outcome.num_bytes)


def _is_abandoned(outcome: Outcome) -> bool:
    """Whether a unit came to nothing, and is no failure: a lease was lost, or a checkpoint needs another base."""
    if isinstance(outcome, CommitOutcome):
        return outcome.failure is None and not outcome.published
    return outcome.base_unusable or _is_given_up(outcome)


def _is_given_up(outcome: Outcome) -> bool:
    """Whether a checkpoint ended with its lease, or with the service: its next owner writes it."""
    failure = outcome.failure
    return isinstance(outcome, CheckpointOutcome) and failure is not None and isinstance(failure.error, LeaseLost)


def _unplanned(claim: Claim, error: DeltaMirrorError) -> Outcome:
    let_go(error)
    if claim.lease.lane is Lane.CHECKPOINTS:
        failure = Failure(error=error, stage=Stage.PLAN, version=claim.checkpoint)
        return CheckpointOutcome(table_id=claim.table_id, lease=claim.lease, version=claim.checkpoint, failure=failure)
    failure = Failure(error=error, stage=Stage.PLAN, version=claim.published + 1)
    return CommitOutcome(table_id=claim.table_id, lease=claim.lease, failure=failure)


def _of_whole_job(unit: Unit, error: Exception) -> DeltaMirrorError:
    """The error of a job of one unit. An unknown error may be the runner's: the job is retried before long."""
    ours = our_error(error)
    if not isinstance(ours, Internal):
        return ours
    return Transient(
        f"the job for table {unit.table!r} failed as a whole: {ours}",
        hint="if it goes on, look at the logs of the executors, and at their memory",
    )
