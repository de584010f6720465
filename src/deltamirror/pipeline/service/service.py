"""The service: passes over all tables, as long as there is work, or until it is stopped."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from deltamirror.errors import DeltaMirrorError, LeaseLost
from deltamirror.pipeline.failures.escalation import tell
from deltamirror.pipeline.failures.our_errors import our_error
from deltamirror.pipeline.service.first_look import Outlook
from deltamirror.pipeline.service.jobs import Job
from deltamirror.pipeline.service.lanes import MirrorLane
from deltamirror.pipeline.service.progress import WorkInHand
from deltamirror.pipeline.service.shutdown import Ending
from deltamirror.telemetry.mentions import Mentions
from deltamirror.telemetry.traces import traced
from deltamirror.txnlog.database.access import Database
from deltamirror.work import CheckpointOutcome, CommitOutcome, Failure, Outcome

_log = logging.getLogger(__name__)
_SERVICE: Final = "service"
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_KEPT_FAILURES = 1_000

Observer = Callable[[Outcome], None]


@dataclass(slots=True)
class Summary:
    """What a run of the service did."""

    versions: int = 0
    checkpoints: int = 0
    failures: list[Failure] = field(default_factory=list)
    """The latest of them: a service may run for years."""

    def add(self, outcome: Outcome) -> None:
        """Count what came of a unit."""
        if isinstance(outcome, CommitOutcome):
            self.versions += len(outcome.published)
        elif outcome.failure is None and not outcome.base_unusable:
            self.checkpoints += 1
        if (failure := lasting_failure(outcome)) is not None:
            self.failures.append(failure)
            del self.failures[:-_KEPT_FAILURES]


def lasting_failure(outcome: Outcome) -> Failure | None:
    """Why a unit failed; it has not where it lost its lease, or a checkpoint has to be built from another base."""
    failure = outcome.failure
    if failure is None or isinstance(failure.error, LeaseLost):
        return None
    return None if isinstance(outcome, CheckpointOutcome) and outcome.base_unusable else failure


class Service:
    """Claims work for its lanes and runs their jobs at once, each lane within its own number of threads.

    Passes overlap: a job that takes long keeps its own tables, and the others go on. One store never takes more than
    half of the threads of a lane, so that one that hangs leaves some to the others: what was claimed beyond that waits.
    So do all tables together that failed before.
    """

    def __init__(
        self,
        database: Database,
        lanes: Sequence[MirrorLane],
        *,
        poll: Callable[[], float],
        observe: Observer,
        shares_database: bool,
        outlook: Outlook,
        ending: Ending,
        progress: WorkInHand,
        after_checkpoint: Callable[[CheckpointOutcome], None] = lambda _: None,
    ) -> None:
        self._database = database
        self._lets_go = not shares_database
        self._lanes = tuple(lanes)
        self._poll = poll
        self._observe = observe
        self._outlook = outlook
        self._ending = ending
        self._progress = progress
        self._after_checkpoint = after_checkpoint
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._rewatch = threading.Event()
        self._is_outdated = False
        self._is_paced = False
        self._lock = threading.Lock()
        self._waiting: dict[MirrorLane, list[Job]] = {lane: [] for lane in self._lanes}
        self._running: dict[MirrorLane, set[Job]] = {lane: set() for lane in self._lanes}
        self._trouble: DeltaMirrorError | None = None
        self._pause = _FIRST_PAUSE
        self._lines = FailureLines(_log)
        self.summary = Summary()

    def stop(self) -> None:
        """Claim nothing more; ``run`` returns when the work in hand is done, or given up: within a lease.

        For other threads than that of ``run``.
        """
        self._stopping.set()
        self._rewatch.set()
        self._wake.set()

    def refresh(self) -> None:
        """Go by changed settings: jobs that were not begun are claimed again by them; those under way are finished."""
        self._is_outdated = True
        self._rewatch.set()
        self._wake.set()

    def run(self, *, once: bool) -> Summary:
        """Work until stopped, or, with ``once``, until nothing is due.

        Trouble of the service as a whole (the database is away, Spark is) is waited out; with ``once`` it is raised.
        """
        self._is_paced = not once
        with ExitStack() as stack:
            stack.enter_context(closing(self._outlook))
            stack.callback(self._finish)
            if not once:
                stack.callback(self._watching().join)
            stack.callback(self._give_back_waiting)
            stack.callback(self.stop)  # whatever ends the loop
            while not self._stopping.is_set():
                self._progress.turn()
                self._wake.clear()
                self._give_back_outdated()
                busy = self._is_busy()  # asked first: a job that ends after the claims may have made more due
                started = self._start()
                if once and (self._trouble is not None or not (started or busy)):
                    break
                with self._trouble_met(Exception):
                    self._let_go()
                self._wait_out_trouble()
                self._wake.wait(self._rest())
        if once and self._trouble is not None:
            raise self._trouble
        return self.summary

    def _start(self) -> bool:
        """Begin what is due; whether there was anything, or will be once a store was looked at."""
        started = False
        with self._trouble_met(Exception):
            self._outlook.look(self._wake.set)
            awaited = self._outlook.awaited()
            started = bool(awaited)
            for lane in self._lanes:
                self._submit(lane)
                while self._claim(lane, awaited):
                    started = True
                    self._submit(lane)
        return started

    def _claim(self, lane: MirrorLane, awaited: Sequence[str]) -> bool:
        """Jobs for the free threads of a lane, none of them for a store that has its share, or is not looked at yet."""
        with self._lock:
            free, waiting = self._free(lane), self._waiting[lane]
            others = {*self._full(lane), *(job.store for job in waiting if not job.is_retry), *awaited}
            retried = {job.store for job in (*waiting, *self._running[lane]) if job.is_retry}
        jobs = lane.jobs(except_stores=sorted(others), except_retries=sorted(retried)) if free > 0 else []
        with self._lock:
            self._waiting[lane] += jobs
        return bool(jobs)

    def _submit(self, lane: MirrorLane) -> None:
        """Begin jobs that wait, as far as there are threads, and their stores have not had their share of them."""
        for job in iter(partial(self._next, lane), None):
            # A daemon: one that does not come back must not keep the process from ending.
            name = f"deltamirror-{lane.kind.value}"
            try:
                threading.Thread(target=self._work, args=(lane, job), name=name, daemon=True).start()
            except Exception:  # such as: no other thread can be started
                self._end(lane, job)
                job.close()
                raise

    def _next(self, lane: MirrorLane) -> Job | None:
        with self._lock:
            job = next((job for job in self._waiting[lane] if self._has_room(lane, job)), None)
            if job is not None:
                self._waiting[lane].remove(job)
                self._running[lane].add(job)
                self._progress.begin(lane.kind, job)
            return job

    def _free(self, lane: MirrorLane) -> int:
        is_halted = self._trouble is not None or self._stopping.is_set()
        return 0 if is_halted else lane.concurrency - len(self._running[lane])

    def _has_room(self, lane: MirrorLane, job: Job) -> bool:
        """Whether a job may begin. Tables that failed have half of the threads, and one a store beside its share."""
        if self._free(lane) <= 0:
            return False
        if not job.is_retry:
            return job.store not in self._full(lane)
        retried = [each.store for each in self._running[lane] if each.is_retry]
        return job.store not in retried and len(retried) < _half(lane)

    def _full(self, lane: MirrorLane) -> list[str]:
        """The stores that have their share of the threads of a lane."""
        running = Counter(job.store for job in self._running[lane] if not job.is_retry)
        return [store for store, jobs in running.items() if jobs >= _half(lane)]

    def _rest(self) -> float | None:
        """For how many seconds a lane rests; None where none does."""
        return min(filter(None, (lane.pace.rest() for lane in self._lanes)), default=None)

    @traced()
    def _work(self, lane: MirrorLane, job: Job) -> None:
        begun = time.monotonic()
        try:
            # A panic of a Rust library is no Exception.
            with self._trouble_met(BaseException), closing(job), self._trouble_met(BaseException):
                for outcome in job.run(escalate=tell):
                    self._progress.advance(job)
                    self._take(outcome)
        finally:
            if self._is_paced:
                lane.pace.worked(time.monotonic() - begun)
            self._end(lane, job)

    def _end(self, lane: MirrorLane, job: Job) -> None:
        with self._lock:
            self._running[lane].discard(job)
            self._progress.end(job)
        self._wake.set()

    def _finish(self) -> None:
        """Wait for the jobs that are running; those that do not come to an end in time are left behind."""
        if not self._ending.wait(self._are_done):
            left = sum(len(jobs) for jobs in self._running.values())
            _log.warning("%d jobs did not end in time, and are left behind: their tables go on when leases end", left)

    def _are_done(self, seconds: float) -> bool:
        """Whether no job is running, or none is after so many seconds at most."""
        deadline = time.monotonic() + seconds
        while any(self._running.values()) and (left := deadline - time.monotonic()) > 0:
            self._wake.clear()
            if any(self._running.values()):
                self._wake.wait(left)
        return not any(self._running.values())

    def _give_back_outdated(self) -> None:
        if self._is_outdated:
            self._is_outdated = False
            self._give_back_waiting()

    def _give_back_waiting(self) -> None:
        """Let others have what was claimed and not begun."""
        for lane in self._lanes:
            with self._lock:
                waiting, self._waiting[lane] = self._waiting[lane], []
            for job in waiting:
                with self._trouble_met(Exception):
                    job.close()

    def _take(self, outcome: Outcome) -> None:
        with self._lock:
            self.summary.add(outcome)
        self._lines.tell(outcome, lasting_failure(outcome))
        self._observe(outcome)
        if isinstance(outcome, CheckpointOutcome) and outcome.failure is None and not outcome.base_unusable:
            self._after_checkpoint(outcome)
        with self._lock:
            self._pause = _FIRST_PAUSE

    @contextmanager
    def _trouble_met(self, kind: type[BaseException]) -> Iterator[None]:
        """Trouble of the service as a whole, a defect included: nothing is claimed until it is waited out."""
        try:
            yield
        except kind as error:
            trouble = our_error(error)
            if trouble is not error:
                _log.error("unexpected error: %s", trouble)  # a traceback may repeat secrets
            with self._lock:
                self._trouble = trouble
            self._wake.set()

    def _wait_out_trouble(self) -> None:
        with self._lock:
            trouble, self._trouble = self._trouble, None
            pause, self._pause = self._pause, min(self._pause * 2, _LONGEST_PAUSE) if trouble else self._pause
        if trouble is not None:
            self._lines.tell_of_pause(trouble, pause)
            self._stopping.wait(pause)
            self._wake.set()

    def _is_busy(self) -> bool:
        with self._lock:
            return any(self._running[lane] or self._waiting[lane] for lane in self._lanes)

    def _let_go(self) -> None:
        """Let others open the database between two passes, where only one process can have it open."""
        if self._lets_go and not self._is_busy():
            self._database.let_go()

    def _watching(self) -> threading.Thread:
        thread = threading.Thread(target=self._watch, name="deltamirror-watch", daemon=True)
        thread.start()
        return thread

    def _watch(self) -> None:
        while not self._stopping.is_set():
            try:
                self._database.wait_for_commits(self._poll(), self._rewatch)
            except Exception as error:  # noqa: BLE001  without this thread nothing wakes the service
                level = logging.DEBUG if isinstance(error, DeltaMirrorError) else logging.ERROR
                _log.log(level, "commits are not announced: %s", our_error(error))
                self._rewatch.wait(self._poll())
            self._rewatch.clear()
            self._wake.set()


def _half(lane: MirrorLane) -> int:
    return max(1, lane.concurrency // 2)


class FailureLines:
    """Says what failed, and again only once it fails otherwise, or after it succeeded. All attempts are in SQL."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._mentions = Mentions()

    def tell(self, outcome: Outcome, failure: Failure | None) -> None:
        """Say what failed of a unit, if that is news."""
        place = outcome.table_id, outcome.lease.lane
        self._mentions.is_well(_SERVICE)
        if outcome.published if isinstance(outcome, CommitOutcome) else outcome.failure is None:
            self._mentions.is_well(place)
        if failure is not None and self._mentions.is_news(place, (failure.version, failure.error.code)):
            what = f"version {failure.version} of table {outcome.table!r}"
            self._log.warning("%s failed at %s: %s", what, failure.stage, failure.error, extra=outcome.log_fields)
        if isinstance(outcome, CommitOutcome):
            self._tell_of_checksum(outcome)

    def tell_of_pause(self, trouble: DeltaMirrorError, seconds: float) -> None:
        """Say that the service as a whole pauses: while pauses grow, and not each time that it is still in trouble."""
        if self._mentions.is_news(_SERVICE, (trouble.code, seconds)):
            self._log.error("the mirror pauses for %.1f s: %s", seconds, trouble, extra={"code": trouble.code})

    def _tell_of_checksum(self, outcome: CommitOutcome) -> None:
        missing, place = outcome.checksum_failure, (outcome.table_id, "checksum")
        if missing is None and outcome.published:
            self._mentions.is_well(place)
        if missing is not None and self._mentions.is_news(place, missing.error.code):
            fields = {**outcome.log_fields, "version": missing.version, "code": missing.error.code}
            said = "%s of table %r is not written: %s"
            self._log.warning(said, missing.key, outcome.table, missing.error, extra=fields)
