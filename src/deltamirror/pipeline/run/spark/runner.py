"""The runner on Spark: a row a unit, a task for some of them, threads in each task."""

import gc
import logging
import math
import pickle
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, TypeAlias, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from deltamirror.batches import packed
from deltamirror.config import LiveSettings, Settings
from deltamirror.errors import DeltaMirrorError, LeaseLost, Unavailable
from deltamirror.executors.failures import translated
from deltamirror.pipeline.run.local.runner import InProcessRunner
from deltamirror.pipeline.run.spark.carrying import Carrier, publish_in_a_row
from deltamirror.pipeline.run.spark.executor import OUTCOMES, rows_of, run_rows
from deltamirror.pipeline.run.spark.session import is_gone, require_server, slots_of, start_session
from deltamirror.pipeline.run.spark.sharing import LARGEST, Shares, unit_bytes
from deltamirror.storage.calls import StoreCalls
from deltamirror.telemetry import metrics
from deltamirror.telemetry.stopwatch import Stopwatch
from deltamirror.txnlog.database.access import Database
from deltamirror.work import CommitOutcome, CommitUnit, Outcome, Unit

__all__ = ["SparkRunner", "Task"]

Task: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What executors do: batches of rows in, batches of rows out."""

_log = logging.getLogger(__name__)
_BY_THE_CLOCK: Final = (
    "an executor without the database does not learn that its lease is renewed; raise checkpoint.lease if checkpoints "
    "take that long, and compare the clock of its machine with this one's"
)
_COLLECT_AFTER: Final = 32 * 1024 * 1024
_SLOTS_HOLD: Final = 60.0
_JOB: Final = "job"
_STARTS_WITHIN: Final = 5.0
_TOGETHER: Final = 1.0
"""How many seconds the commits of a job of several tables take: none of them waits longer to be recorded."""


class SparkRunner:
    """Runs units on the Spark that ``settings.spark`` names; it is started by the first run.

    A ``session`` that is handed in is used instead, and stays the caller's. Where executors do not fetch the commits,
    the runner reads them from the ``database``, and no job carries more than ``largest`` bytes of them. One commit that
    is larger by itself is put by threads of this process; so is a checkpoint that is made from more.
    """

    def __init__(
        self,
        settings: Settings | LiveSettings,
        database: Database | None = None,
        calls: StoreCalls | None = None,
        *,
        session: SparkSession | None = None,
        largest: int = LARGEST,
    ) -> None:
        self._live = LiveSettings.of(settings)
        self._carrier = Carrier(database, largest=largest)
        self._here = InProcessRunner(database, self._live, calls)
        self._shares = Shares(self._jobs)
        self._is_given = session is not None
        self._session = session
        self._is_left = False
        self._trouble: DeltaMirrorError | None = None
        self._slots = (0, float("-inf"))
        self._carried = 0
        self._lock = threading.Lock()

    @property
    def _settings(self) -> Settings:
        return self._live.current

    def _jobs(self) -> int:
        """How many jobs run at once."""
        settings = self._settings
        return settings.mirror.concurrency + settings.checkpoint.concurrency

    @property
    def fetches(self) -> bool:
        """Whether executors fetch the commits: as ``spark.lines`` says, otherwise where the database is a server."""
        match self._settings.spark.lines:
            case "auto":
                return self._settings.catalog.url.startswith("postgres")
            case lines:
                return lines == "fetched"

    def start(self) -> bool:
        """Start Spark, unless it is running; whether it was not."""
        session = self._session
        if session is not None and is_gone(session):
            self._forget(session)
        was_running = self._session is not None
        self._started()
        if self._is_left:
            self.close()
        return not was_running

    def is_ready(self) -> bool:
        """Whether Spark has started, and answers; raises why it ended, or does not start."""
        session, trouble = self._session, self._trouble
        if session is None and trouble is not None:
            raise trouble
        if session is not None:
            if is_gone(session):
                raise _ended()
            require_server(self._settings.spark.master)
        return session is not None

    def run(self, units: Sequence[Unit]) -> Generator[list[Outcome]]:
        """One Spark job, or several in a row if the units carry too much for one."""
        large: list[Unit] = []
        for job in packed(self._small(units, large), unit_bytes, self._carrier.largest):
            yield from self._run(job)
        for unit in large:
            yield [self._run_large(unit)]

    def close(self) -> None:
        """Stop Spark, if it is ours. Jobs that are under way fail. A Spark that is just starting is stopped later."""
        # pyspark cannot be kept from starting, which takes half a minute on a busy machine.
        self._is_left = not self._lock.acquire(timeout=_STARTS_WITHIN)
        if self._is_left:
            return
        session, self._session = self._session, None
        self._lock.release()
        if session is not None and not self._is_given:
            # A server that is gone has nothing to be told, and pyspark would try to for ten minutes.
            with suppress(Unavailable), translated("stop"):
                require_server(self._settings.spark.master)
                if not is_gone(session):
                    session.stop()

    def job(self, rows: pa.Table, task: Task, columns: str) -> Iterator[Sequence[Any]]:
        """What a task makes of rows, one value each, by one Spark job; those values together that are there at once."""
        session = self._started()
        with self._forgotten_if_gone(session):
            if not self._is_given:
                require_server(self._settings.spark.master)
            with translated("run the units"), self._shares.taken(self._slots_of(session), wanted=len(rows)) as share:
                # As many partitions as slots; fewer of them without a shuffle.
                watch = Stopwatch()
                with watch.at(_JOB):
                    frame = session.createDataFrame(rows).coalesce(share)
                    found = _collected(frame.mapInArrow(task, columns))
                yield from watch.each(_JOB, found)
                metrics.observe_spark_job(watch.seconds(_JOB))

    def _small(self, units: Sequence[Unit], large: list[Unit]) -> Iterator[Unit]:
        """The units that one job carries, with what they carry; the others are added to ``large``."""
        for unit in units:
            if self.fetches:
                yield unit
            elif self._carrier.has_room_for(unit) and (loaded := self._carrier.loaded(unit)) is not None:
                yield loaded
            else:
                large.append(unit)

    def _run(self, units: list[Unit]) -> Iterator[list[Outcome]]:
        seconds = _TOGETHER if len(units) > 1 else math.inf
        task = partial(run_rows, threads=self._settings.mirror.threads, fetches=self.fetches, seconds=seconds)
        for rows in self.job(rows_of(units), task, OUTCOMES):
            yield [self._outcome(row) for row in rows]
        self._collect_garbage(sum(map(unit_bytes, units)))

    def _outcome(self, row: bytes) -> Outcome:
        outcome: Outcome = pickle.loads(row)  # noqa: S301  our own executors wrote it
        if not self.fetches and outcome.failure is not None and isinstance(outcome.failure.error, LeaseLost):
            _log.warning("%s: %s", outcome.failure.error, _BY_THE_CLOCK)
        return outcome

    def _run_large(self, unit: Unit) -> Outcome:
        """One unit that may be too much for a job: commits by several jobs in a row, a checkpoint as a whole."""
        if not isinstance(unit, CommitUnit):
            return self._run_alone(unit)
        run = cast("Callable[[CommitUnit], CommitOutcome]", self._run_alone)
        return publish_in_a_row(unit, self._carrier.loads(unit.commits), run)

    def _run_alone(self, unit: Unit) -> Outcome:
        """By a job; by threads of this process, which read it bit by bit, where no job carries it."""
        loaded = self._carrier.loaded(unit)
        [[outcome]] = self._here.run([unit]) if loaded is None else self._run([loaded])
        return outcome

    def _started(self) -> SparkSession:
        with self._lock:
            if self._session is None:
                try:
                    self._session = start_session(self._settings.spark.master, jobs=self._jobs())
                except DeltaMirrorError as error:
                    self._trouble = error
                    raise
                self._trouble = None
            return self._session

    @contextmanager
    def _forgotten_if_gone(self, session: SparkSession) -> Iterator[None]:
        try:
            yield
        except Unavailable:
            self._forget(session)
            raise
        except DeltaMirrorError as error:
            # What pyspark says of a JVM that ended depends on what it was about to ask of it.
            if not is_gone(session):
                raise
            self._forget(session)
            raise _ended(f": {error.message}") from error

    def _forget(self, session: SparkSession) -> None:
        """Let the next run start a session in the place of one that is gone."""
        with self._lock:
            if self._session is session and not self._is_given:
                self._session, self._trouble = None, _ended()

    def _slots_of(self, session: SparkSession) -> int:
        # Clusters grow and shrink; over Spark Connect the question is a job.
        slots, asked = self._slots
        if time.monotonic() - asked > _SLOTS_HOLD:
            slots = slots_of(session)
            self._slots = slots, time.monotonic()
        return slots

    def _collect_garbage(self, carried: int) -> None:
        # py4j's objects are cycles, and the JVM keeps what they stand for, rows included, until Python lets them go.
        self._carried += carried
        if self._carried > _COLLECT_AFTER:
            self._carried = 0
            gc.collect()


def _ended(why: str = "") -> Unavailable:
    return Unavailable(f"Spark has ended{why}", hint="the mirror starts it again")


def _collected(frame: DataFrame) -> Iterator[Sequence[Any]]:
    """The rows of a frame of one column, by one job."""
    if getattr(frame.sparkSession, "sparkContext", None) is None:
        # Partition by partition, as they finish. Without Spark Connect this would be a job for each partition.
        return ([row[0]] for row in frame.toLocalIterator())
    return iter([[value.as_buffer() for value in frame.toArrow().column(0)]])
