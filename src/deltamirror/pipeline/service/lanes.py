"""The two lanes of the mirror, commits and checkpoints: each claims, plans, runs and records on its own."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import ClassVar, Final, TypeVar

from deltamirror.config import Switch
from deltamirror.errors import DeltaMirrorError
from deltamirror.pipeline.failures.circuit import Purpose
from deltamirror.pipeline.failures.our_errors import our_error
from deltamirror.pipeline.failures.policy import STORE_CODES
from deltamirror.pipeline.plan.planning import CommitPlan, plan_checkpoint, plan_commits, read_waiting
from deltamirror.pipeline.service.jobs import OF_DATABASE, CommitJob, Job, RunnerJob, SeedingJob, UnplannedJob, Workshop
from deltamirror.pipeline.service.pace import Pace
from deltamirror.storage.location import store_prefix
from deltamirror.txnlog.queue.claims import Claim, claim, claim_in_store
from deltamirror.work import CheckpointUnit, Lane

P = TypeVar("P")

_CHECKPOINTS_TOGETHER: Final = 16
_WITHOUT_REST: Final = Pace(lambda: 100.0)
_SMALL_BYTES: Final = 1024 * 1024
_SMALL_FILES: Final = 10_000
"""Up to how many bytes of commits, and live files, a checkpoint is quick: several of these share a job."""


class MirrorLane(ABC):
    """A kind of work, with leases and a share of the threads of its own."""

    kind: ClassVar[Lane]

    def __init__(self, shop: Workshop) -> None:
        self._shop = shop

    @property
    @abstractmethod
    def concurrency(self) -> int:
        """How many of its jobs run at once."""

    def jobs(self, *, except_stores: Sequence[str] = (), except_retries: Sequence[str] = ()) -> list[Job]:
        """Work that is due, claimed: of tables in any store but ``except_stores``, and of tables that failed in none of
        ``except_retries``. Where a circuit is open, of tables that the store served before; and of one that probes it.
        """
        chosen = self._chosen()
        if chosen is not None and not chosen:
            return []
        gate, jobs = self._shop.breakers.gate(), list[Job]()
        with _closed_on_failure(jobs):
            claims = self._claimed(
                limit=self._tables_at_once,
                table_ids=chosen,
                except_stores=except_stores,
                except_retries=except_retries,
                open_circuits=list(gate.shut),
            )
            if chosen is not None:
                is_all = len(claims) < self._tables_at_once
                self.pace.forget(chosen if is_all else [each.table_id for each in claims])
            jobs += self._planned(claims)
            for store in gate.tried.keys() - {*except_stores, *except_retries}:
                jobs += self._probe(store, gate.tried[store], table_ids=chosen)
        return jobs

    def job_of(self, table_id: int, *, upto: int | None = None) -> Job | None:
        """Work of one table, up to a version, due or not; None where there is none, or the lease is not free."""
        gate = self._shop.breakers.gate()
        claims = self._claimed(limit=1, table_ids=[table_id], except_stores=list(gate.shut))
        jobs = self._planned(claims, upto=upto)
        for store in gate.tried:
            jobs = jobs or self._probe(store, table_ids=[table_id], upto=upto)
        return jobs[0] if jobs else None

    @property
    @abstractmethod
    def pace(self) -> Pace:
        """How much of its time a service spends on it."""

    def _chosen(self) -> Sequence[int] | None:
        """The tables that a service takes up, if they have something due; None: any."""
        return self.pace.late() if self.pace.rest() else None

    @property
    @abstractmethod
    def _tables_at_once(self) -> int:
        """How many tables are claimed at once."""

    @property
    @abstractmethod
    def _lease(self) -> float:
        """For how many seconds they are claimed."""

    @abstractmethod
    def _planned(
        self, claims: Sequence[Claim], *, upto: int | None = None, purpose: Purpose = Purpose.WORK
    ) -> list[Job]:
        """Jobs that do what was claimed."""

    def _claimed(
        self,
        *,
        limit: int,
        table_ids: Sequence[int] | None = None,
        except_stores: Sequence[str] = (),
        except_retries: Sequence[str] = (),
        open_circuits: Sequence[str] = (),
    ) -> list[Claim]:
        claims = claim(
            self._shop.database,
            lane=self.kind,
            owner=self._shop.owner,
            seconds=self._lease,
            limit=limit,
            table_ids=table_ids,
            except_stores=except_stores,
            except_retries=except_retries,
            open_circuits=open_circuits,
            retry_max=self._shop.settings.mirror.retry_max,
            switch=Switch.of(self._shop.settings),
        )
        self._shop.heartbeat.add([each.lease for each in claims])  # planning may take longer than a lease
        return claims

    def _probe(
        self,
        store: str,
        spared: int | None = None,
        *,
        table_ids: Sequence[int] | None = None,
        upto: int | None = None,
    ) -> list[Job]:
        """One unit that probes a store whose circuit is open; none where nothing waits, or another process probes."""
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
            switch=Switch.of(shop.settings),
        )
        shop.heartbeat.add([each.lease for each in claims])
        with _given_back_on_failure(shop, claims):
            if claims and not shop.breakers.begin_trying(store):
                shop.heartbeat.give_back([each.lease for each in claims])
                claims = []
        jobs = self._planned(claims, upto=upto, purpose=Purpose.PROBE)
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
    def pace(self) -> Pace:
        """It never rests."""
        return _WITHOUT_REST

    @property
    def _tables_at_once(self) -> int:
        return self._shop.settings.mirror.batch_tables

    @property
    def _lease(self) -> float:
        return self._shop.settings.mirror.lease

    def _planned(
        self, claims: Sequence[Claim], *, upto: int | None = None, purpose: Purpose = Purpose.WORK
    ) -> list[Job]:
        """One job a store, and one of its tables that failed: they may hang, and hold up none that did not.

        A large unit is a job of its own, so that small ones are recorded without it; so are those of a store whose
        checksums begin anew.
        """
        shop, settings = self._shop, self._shop.settings
        with _given_back_on_failure(shop, claims):
            waiting = read_waiting(shop.database, claims, settings=settings)

        def plan(claim: Claim) -> CommitPlan | None:
            return plan_commits(shop.database, claim, waiting, settings=settings, upto=upto)

        plans, failing = _planned(shop, claims, plan, purpose=purpose)
        groups = _by_store(plans, large=settings.mirror.batch_bytes)
        kinds = (SeedingJob if some[0].begins_checksums else CommitJob for some in groups)
        return [*failing, *(kind(shop, some, purpose=purpose) for kind, some in zip(kinds, groups, strict=True))]


class CheckpointLane(MirrorLane):
    """Writes checkpoints."""

    kind = Lane.CHECKPOINTS

    @property
    def concurrency(self) -> int:
        """How many jobs run at once; none where checkpoints are switched off."""
        options = self._shop.settings.checkpoint
        return options.concurrency if options.enabled else 0

    @property
    def pace(self) -> Pace:
        """The one that jobs of commits tell of late checkpoints."""
        return self._shop.pace

    @property
    def _tables_at_once(self) -> int:
        return _CHECKPOINTS_TOGETHER

    @property
    def _lease(self) -> float:
        return self._shop.settings.checkpoint.lease

    def _planned(
        self, claims: Sequence[Claim], *, upto: int | None = None, purpose: Purpose = Purpose.WORK
    ) -> list[Job]:
        """One job for the small checkpoints of a store, and one for the first that is not small.

        Another one that is not is given back: by the time that this service is free, another one may have written it.
        """
        shop = self._shop
        plan = partial(plan_checkpoint, shop.database, settings=shop.settings)
        units, failing = _planned(shop, claims, plan, purpose=purpose)
        large: list[list[CheckpointUnit]] = []
        small: dict[str, list[CheckpointUnit]] = {}
        for unit in units:
            if _is_small(unit):
                small.setdefault(store_prefix(unit.address.location), []).append(unit)
            else:
                large.append([unit])
        jobs = [*failing, *(RunnerJob(shop, some, purpose=purpose) for some in (*small.values(), *large[:1]))]
        if large[1:]:
            with _closed_on_failure(jobs):
                shop.heartbeat.give_back([unit.lease for [unit] in large[1:]])
        return jobs


def _planned(
    shop: Workshop, claims: Sequence[Claim], plan: Callable[[Claim], P | None], *, purpose: Purpose
) -> tuple[list[P], list[Job]]:
    """What claims come to, and jobs of the tables that cannot be planned: each of them fails, and holds up no other."""
    plans: list[P] = []
    idle: list[Claim] = []
    poisoned: list[tuple[Claim, DeltaMirrorError]] = []
    with _given_back_on_failure(shop, claims):
        for each in claims:
            try:
                found = plan(each)
            except OF_DATABASE:
                raise
            except Exception as error:  # noqa: BLE001  whatever it is, it is recorded as the failure of its table
                poisoned.append((each, our_error(error)))
                continue
            if found is None:
                idle.append(each)
            else:
                plans.append(found)
        if idle:
            shop.heartbeat.give_back([each.lease for each in idle])
    return plans, [UnplannedJob(shop, each, error, purpose=purpose) for each, error in poisoned]


@contextmanager
def _closed_on_failure(jobs: Iterable[Job]) -> Iterator[None]:
    """Jobs that are not handed on are closed, so that their leases are not renewed."""
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
        shop.heartbeat.give_back([each.lease for each in claims])
        raise


def _is_small(unit: CheckpointUnit) -> bool:
    """Whether a checkpoint takes a moment: where it begins with the state of an import, that is not known."""
    of_import = any(work.is_base for work in unit.commits)
    num_bytes = sum(work.num_bytes for work in unit.commits)
    return not of_import and num_bytes <= _SMALL_BYTES and unit.num_files is not None and unit.num_files <= _SMALL_FILES


def _by_store(plans: Iterable[CommitPlan], *, large: int) -> list[list[CommitPlan]]:
    groups: dict[tuple[str, bool, bool], list[CommitPlan]] = {}
    for plan in plans:
        num_bytes = sum(commit.num_bytes for commit in plan.unit.commits)
        key = plan.unit.table if num_bytes >= large else store_prefix(plan.unit.address.location)
        groups.setdefault((key, plan.is_retry, plan.begins_checksums), []).append(plan)
    return list(groups.values())
