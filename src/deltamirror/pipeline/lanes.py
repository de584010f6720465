"""The two lanes of the mirror, commits and checkpoints: each claims, plans, runs and records on its own."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from deltamirror.config import Settings
from deltamirror.pipeline.backoff import RetryPolicy
from deltamirror.pipeline.escalation import EscalationPolicy, tell
from deltamirror.pipeline.heartbeat import Heartbeat
from deltamirror.pipeline.planning import CommitPlan, plan_checkpoint, plan_commits
from deltamirror.pipeline.runner import Runner
from deltamirror.txnlog.database import Database
from deltamirror.txnlog.leases import Claim, claim, release
from deltamirror.txnlog.outcomes import Recorded, record_checkpoint, record_commits
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

    @property
    def carried(self) -> bool:
        """Whether units carry the chunks of their commits."""
        return not self.runner.fetches


class Job(ABC):
    """Units of one store that one run of the runner works on. Their leases are renewed until that is over."""

    def __init__(self, shop: Workshop, units: Sequence[Unit]) -> None:
        self._shop = shop
        self._units = tuple(units)
        self._waiting = {unit.table_id: unit.lease for unit in units}
        self._names = {unit.table_id: unit.table for unit in units}
        self.store = _store(units[0].address.location)
        shop.heartbeat.add(self._waiting.values())

    def run(self) -> Iterator[Outcome]:
        """What comes of each unit, recorded, as they finish. Recording gives a lease back."""
        for outcome in self._shop.runner.run(self._units):
            named = replace(outcome, table=self._names[outcome.table_id])
            if self._record(named).escalated:
                tell(named)
            self._shop.heartbeat.remove([self._waiting.pop(outcome.table_id)])
            yield named

    def close(self) -> None:
        """Give back the leases of units that came to nothing."""
        self._shop.heartbeat.remove(self._waiting.values())
        if self._waiting:
            release(self._shop.database, self._waiting.values())

    @abstractmethod
    def _record(self, outcome: Outcome) -> Recorded:
        """Write down what came of a unit."""


class _CommitJob(Job):
    def __init__(self, shop: Workshop, plans: Sequence[CommitPlan]) -> None:
        super().__init__(shop, [plan.unit for plan in plans])
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

    def __init__(self, shop: Workshop) -> None:
        self._shop = shop

    @property
    @abstractmethod
    def concurrency(self) -> int:
        """How many of its jobs run at once."""

    @abstractmethod
    def jobs(self, *, except_stores: Sequence[str] = ()) -> list[Job]:
        """Work that is due, claimed: of tables in any store but these."""

    @abstractmethod
    def job_of(self, table_id: int, *, upto: int | None = None) -> Job | None:
        """Work of one table, up to a version, due or not; None where there is none, or somebody else is at it."""


class CommitLane(MirrorLane):
    """Publishes commits, with their checksums."""

    @property
    def concurrency(self) -> int:
        """How many jobs run at once."""
        return self._shop.settings.mirror.concurrency

    def jobs(self, *, except_stores: Sequence[str] = ()) -> list[Job]:
        """One job a store; a large unit is a job of its own, so that small ones are recorded without it."""
        settings = self._shop.settings.mirror
        claims = _claimed(self._shop, Lane.COMMITS, limit=settings.batch_tables, except_stores=except_stores)
        return [_CommitJob(self._shop, plans) for plans in _by_store(self._planned(claims), large=settings.batch_bytes)]

    def job_of(self, table_id: int, *, upto: int | None = None) -> Job | None:
        """The next versions of a table."""
        claims = _claimed(self._shop, Lane.COMMITS, limit=1, table_ids=[table_id])
        return _CommitJob(self._shop, self._planned(claims, upto=upto)) if claims else None

    def _planned(self, claims: Sequence[Claim], *, upto: int | None = None) -> list[CommitPlan]:
        with _given_back_on_failure(self._shop, claims):
            return plan_commits(self._shop.database, claims, self._shop.settings, upto=upto, carried=self._shop.carried)


class CheckpointLane(MirrorLane):
    """Writes checkpoints."""

    @property
    def concurrency(self) -> int:
        """How many jobs run at once."""
        return self._shop.settings.checkpoint.concurrency

    def jobs(self, *, except_stores: Sequence[str] = ()) -> list[Job]:
        """One checkpoint."""
        return self._planned(_claimed(self._shop, Lane.CHECKPOINTS, limit=1, except_stores=except_stores))

    def job_of(self, table_id: int, *, upto: int | None = None) -> Job | None:
        """The checkpoint that a table waits for."""
        planned = self._planned(_claimed(self._shop, Lane.CHECKPOINTS, limit=1, table_ids=[table_id]))
        return planned[0] if planned else None

    def _planned(self, claims: Sequence[Claim]) -> list[Job]:
        shop = self._shop
        with _given_back_on_failure(shop, claims):
            units = [plan_checkpoint(shop.database, each, shop.settings, carried=shop.carried) for each in claims]
        return [_CheckpointJob(shop, [unit]) for unit in units]


def _claimed(
    shop: Workshop,
    lane: Lane,
    *,
    limit: int,
    table_ids: Sequence[int] | None = None,
    except_stores: Sequence[str] = (),
) -> list[Claim]:
    seconds = {Lane.COMMITS: shop.settings.mirror.lease, Lane.CHECKPOINTS: shop.settings.checkpoint.lease}[lane]
    return claim(
        shop.database,
        lane=lane,
        owner=shop.owner,
        seconds=seconds,
        limit=limit,
        table_ids=table_ids,
        except_stores=except_stores,
    )


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
        key = plan.unit.table if num_bytes >= large else _store(plan.unit.address.location)
        groups.setdefault(key, []).append(plan)
    return list(groups.values())


def _store(location: str) -> str:
    """What the locations of one store begin with: its bucket, or the local disk."""
    scheme, _, rest = location.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}/"
