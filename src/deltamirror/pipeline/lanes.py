"""The two lanes of the mirror, commits and checkpoints: each claims, plans, runs and records on its own."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

from deltamirror.config import Settings
from deltamirror.errors import Diverged
from deltamirror.pipeline.backoff import RetryPolicy
from deltamirror.pipeline.escalation import EscalationPolicy
from deltamirror.pipeline.gate import Breakers
from deltamirror.pipeline.heartbeat import Heartbeat
from deltamirror.pipeline.planning import CommitPlan, plan_checkpoint, plan_commits
from deltamirror.pipeline.policy import STORE_CODES
from deltamirror.pipeline.runner import Runner
from deltamirror.storage.location import store_prefix
from deltamirror.txnlog.database import Database
from deltamirror.txnlog.leases import Claim, claim, claim_in_store, release
from deltamirror.txnlog.outcomes import Recorded, record_checkpoint, record_commits
from deltamirror.txnlog.superseding import explained
from deltamirror.work import CheckpointOutcome, CommitOutcome, Lane, Outcome, Unit

__all__ = ["CheckpointLane", "CommitLane", "Job", "MirrorLane", "Workshop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What the lanes work with."""

    database: Database
    runner: Runner
    settings: Settings
    owner: str
    retry: RetryPolicy
    escalates: EscalationPolicy
    heartbeat: Heartbeat
    breakers: Breakers

    @property
    def carried(self) -> bool:
        """Whether units carry the chunks of their commits."""
        return not self.runner.fetches


class Job(ABC):
    """Units of one store that one run of the runner works on. Their leases are renewed until that is over.

    A job that ``tries`` its store is one unit, by which a store that was left alone shows that it is back.
    """

    def __init__(self, shop: Workshop, units: Sequence[Unit], *, tries: bool = False) -> None:
        self._shop = shop
        self._tries = tries
        self._units = tuple(units)
        self._waiting = {unit.table_id: unit.lease for unit in units}
        self._names = {unit.table_id: unit.table for unit in units}
        self.store = store_prefix(units[0].address.location)
        shop.heartbeat.add(self._waiting.values())

    def run(self, *, escalate: Callable[[Outcome], None] = lambda _: None) -> Iterator[Outcome]:
        """What comes of each unit, recorded, as they finish. Recording gives a lease back.

        ``escalate`` is told of those that somebody has to look at. As soon as the store is left alone, no other unit is
        begun, and those under way put nothing more.
        """
        with closing(self._shop.runner.run(self._units)) as outcomes:
            for outcome in outcomes:
                named = self._explained(replace(outcome, table=self._names[outcome.table_id]))
                recorded = self._record(named)
                named = replace(named, attempt=recorded.attempt)
                if recorded.escalated:
                    escalate(named)
                self._shop.heartbeat.remove([self._waiting.pop(outcome.table_id)])
                goes_on = self._shop.breakers.told(self.store, outcome, tries=self._tries)
                self._tries = False
                yield named
                if not goes_on:
                    break

    def _explained(self, outcome: Outcome) -> Outcome:
        """Whether bytes that are not the database's are ours nevertheless, only the database knows."""
        failure = outcome.failure
        if failure is None or not isinstance(failure.error, Diverged):
            return outcome
        with self._shop.database.read() as connection:
            error = explained(connection, outcome.table_id, failure.error)
        return replace(outcome, failure=replace(failure, error=error))

    def close(self) -> None:
        """Give back the leases of units that came to nothing, and what they were to try."""
        self._shop.heartbeat.remove(self._waiting.values())
        if self._waiting:
            release(self._shop.database, self._waiting.values())
        if self._tries:
            self._shop.breakers.end_trying(self.store)

    @abstractmethod
    def _record(self, outcome: Outcome) -> Recorded:
        """Write down what came of a unit."""


class _CommitJob(Job):
    def __init__(self, shop: Workshop, plans: Sequence[CommitPlan], *, tries: bool = False) -> None:
        super().__init__(shop, [plan.unit for plan in plans], tries=tries)
        self._plans = {plan.unit.table_id: plan for plan in plans}

    def _record(self, outcome: Outcome) -> Recorded:
        if not isinstance(outcome, CommitOutcome):
            return Recorded(held=False)
        shop, due = self._shop, self._plans[outcome.table_id].due(outcome)
        return record_commits(shop.database, outcome, retry=shop.retry, escalates=shop.escalates, checkpoint=due)


class _CheckpointJob(Job):
    def _record(self, outcome: Outcome) -> Recorded:
        if not isinstance(outcome, CheckpointOutcome):
            return Recorded(held=False)
        shop = self._shop
        return record_checkpoint(shop.database, outcome, retry=shop.retry, escalates=shop.escalates)


class MirrorLane(ABC):
    """A kind of work, with leases and a share of the threads of its own."""

    kind: ClassVar[Lane]

    def __init__(self, shop: Workshop) -> None:
        self._shop = shop

    @property
    @abstractmethod
    def concurrency(self) -> int:
        """How many of its jobs run at once."""

    def jobs(self, *, except_stores: Sequence[str] = ()) -> list[Job]:
        """Work that is due, claimed: of tables in any store but these. A store that is left alone may be tried."""
        gate, jobs = self._shop.breakers.gate(), list[Job]()
        with _closed_on_failure(jobs):
            jobs += self._planned(self._claimed(limit=self._tables_at_once, except_stores=[*except_stores, *gate.shut]))
            for store in gate.tried.keys() - set(except_stores):
                jobs += self._tries(store, gate.tried[store])
        return jobs

    def job_of(self, table_id: int, *, upto: int | None = None) -> Job | None:
        """Work of one table, up to a version, due or not; None where there is none, or somebody else is at it."""
        gate = self._shop.breakers.gate()
        claims = self._claimed(limit=1, table_ids=[table_id], except_stores=list(gate.shut))
        jobs = self._planned(claims, upto=upto)
        for store in gate.tried:
            jobs = jobs or self._tries(store, table_ids=[table_id], upto=upto)
        return jobs[0] if jobs else None

    @property
    @abstractmethod
    def _tables_at_once(self) -> int:
        """How many tables are claimed at once."""

    @property
    @abstractmethod
    def _lease(self) -> float:
        """For how many seconds they are claimed."""

    @abstractmethod
    def _planned(self, claims: Sequence[Claim], *, upto: int | None = None, tries: bool = False) -> list[Job]:
        """Jobs that do what was claimed."""

    def _claimed(
        self, *, limit: int, table_ids: Sequence[int] | None = None, except_stores: Sequence[str]
    ) -> list[Claim]:
        return claim(
            self._shop.database,
            lane=self.kind,
            owner=self._shop.owner,
            seconds=self._lease,
            limit=limit,
            table_ids=table_ids,
            except_stores=except_stores,
        )

    def _tries(
        self,
        store: str,
        spared: int | None = None,
        *,
        table_ids: Sequence[int] | None = None,
        upto: int | None = None,
    ) -> list[Job]:
        """One unit of a store that was left alone; none where nothing waits, or somebody else tries it."""
        shop = self._shop
        claims = claim_in_store(
            shop.database,
            store,
            lane=self.kind,
            owner=shop.owner,
            seconds=self._lease,
            codes=STORE_CODES,
            unless_table=spared,
            table_ids=table_ids,
        )
        with _given_back_on_failure(shop, claims):
            if claims and not shop.breakers.begin_trying(store):
                release(shop.database, [each.lease for each in claims])
                claims = []
        jobs = self._planned(claims, upto=upto, tries=True)
        if claims and not jobs:
            shop.breakers.end_trying(store)
        return jobs


class CommitLane(MirrorLane):
    """Publishes commits, with their checksums."""

    kind = Lane.COMMITS

    @property
    def concurrency(self) -> int:
        """How many jobs run at once."""
        return self._shop.settings.mirror.concurrency

    @property
    def _tables_at_once(self) -> int:
        return self._shop.settings.mirror.batch_tables

    @property
    def _lease(self) -> float:
        return self._shop.settings.mirror.lease

    def _planned(self, claims: Sequence[Claim], *, upto: int | None = None, tries: bool = False) -> list[Job]:
        """One job a store; a large unit is a job of its own, so that small ones are recorded without it."""
        shop, large = self._shop, self._shop.settings.mirror.batch_bytes
        with _given_back_on_failure(shop, claims):
            plans = plan_commits(shop.database, claims, shop.settings, upto=upto, carried=shop.carried)
            planned = {plan.unit.table_id for plan in plans}
            if idle := [each.lease for each in claims if each.table_id not in planned]:
                release(shop.database, idle)
        return [_CommitJob(shop, some, tries=tries) for some in _by_store(plans, large=large)]


class CheckpointLane(MirrorLane):
    """Writes checkpoints."""

    kind = Lane.CHECKPOINTS

    @property
    def concurrency(self) -> int:
        """How many jobs run at once."""
        return self._shop.settings.checkpoint.concurrency

    @property
    def _tables_at_once(self) -> int:
        return 1

    @property
    def _lease(self) -> float:
        return self._shop.settings.checkpoint.lease

    def _planned(self, claims: Sequence[Claim], *, upto: int | None = None, tries: bool = False) -> list[Job]:
        """One job a checkpoint."""
        shop = self._shop
        with _given_back_on_failure(shop, claims):
            units = [plan_checkpoint(shop.database, each, shop.settings, carried=shop.carried) for each in claims]
        return [_CheckpointJob(shop, [unit], tries=tries) for unit in units]


@contextmanager
def _closed_on_failure(jobs: Iterable[Job]) -> Iterator[None]:
    """Nobody renews the leases of jobs that nobody gets to know of."""
    try:
        yield
    except BaseException:
        with ExitStack() as stack:
            for job in jobs:
                stack.callback(job.close)
        raise


@contextmanager
def _given_back_on_failure(shop: Workshop, claims: Sequence[Claim]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        release(shop.database, [each.lease for each in claims])
        raise


def _by_store(plans: Iterable[CommitPlan], *, large: int) -> list[list[CommitPlan]]:
    groups: dict[str, list[CommitPlan]] = {}
    for plan in plans:
        num_bytes = sum(commit.num_bytes for commit in plan.unit.commits)
        key = plan.unit.table if num_bytes >= large else store_prefix(plan.unit.address.location)
        groups.setdefault(key, []).append(plan)
    return list(groups.values())
