"""Jobs on a Spark of ours or of the caller: it is started by the first of them, and again once it has ended."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, TypeAlias

import pyarrow as pa
from pyspark.sql import SparkSession

from deltamirror.config import LiveSettings, Settings
from deltamirror.errors import DeltaMirrorError, Unavailable
from deltamirror.executors.failures import translated
from deltamirror.pipeline.run.spark.session import is_gone, require_server, slots_of, start_session
from deltamirror.pipeline.run.spark.sharing import Shares
from deltamirror.telemetry import metrics
from deltamirror.telemetry.stopwatch import Stopwatch

Task: TypeAlias = Callable[[Iterator[bytes]], Iterator[bytes]]
"""What executors do: the items of a partition in, answers out, as many as there are."""

_SLOTS_HOLD: Final = 60.0
_JOB: Final = "job"
_ANSWERS: Final = "answer binary"
_STARTS_WITHIN: Final = 5.0


class SparkJobs:
    """Runs jobs on the Spark that ``settings.spark`` names; it is started by the first job.

    A ``session`` that is handed in is used instead, and stays the caller's. Safe to share between threads.
    """

    def __init__(self, settings: Settings | LiveSettings, *, session: SparkSession | None = None) -> None:
        self._live = LiveSettings.of(settings)
        self._shares = Shares(self._jobs)
        self._is_given = session is not None
        self._session = session
        self._is_left = False
        self._trouble: DeltaMirrorError | None = None
        self._slots = (0, float("-inf"))
        self._lock = threading.Lock()

    @property
    def _settings(self) -> Settings:
        return self._live.current

    def _jobs(self) -> int:
        """How many jobs run at once."""
        settings = self._settings
        return settings.mirror.concurrency + settings.checkpoint.concurrency

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

    def job(self, items: Sequence[bytes], task: Task) -> Iterator[Sequence[bytes]]:
        """What a task makes of items, by one Spark job; those answers together that are there at once."""
        session = self._started()
        with self._forgotten_if_gone(session):
            if not self._is_given:
                require_server(self._settings.spark.master)
            with translated("run the units"), self._shares.taken(self._slots_of(session), wanted=len(items)) as share:
                watch = Stopwatch()
                with watch.at(_JOB):
                    found = _answers(session, items, task, partitions=share)
                yield from watch.each(_JOB, found)
                metrics.observe_spark_job(watch.seconds(_JOB))

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


def _ended(why: str = "") -> Unavailable:
    return Unavailable(f"Spark has ended{why}", hint="the mirror starts it again")


def _answers(
    session: SparkSession, items: Sequence[bytes], task: Task, *, partitions: int
) -> Iterator[Sequence[bytes]]:
    """By one job. A query would be analysed, optimised and planned each time; over Spark Connect there is no other."""
    context = getattr(session, "sparkContext", None)
    if context is not None:
        return iter([context.parallelize(items, partitions).mapPartitions(task).collect()])
    frame = session.createDataFrame(_rows(items)).coalesce(partitions).mapInArrow(partial(_in_rows, task), _ANSWERS)
    # Partition by partition, as they finish.
    return ([row[0]] for row in frame.toLocalIterator())


def _rows(items: Sequence[bytes]) -> pa.Table:
    """One row an item, each in a batch of its own: what is large, Spark spreads by batches."""
    return pa.Table.from_batches([_row("item", item) for item in items])


def _in_rows(task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    items = (item.as_py() for batch in batches for item in batch.column(0))
    return (_row("answer", answer) for answer in task(items))


def _row(name: str, value: bytes) -> pa.RecordBatch:
    return pa.record_batch([pa.array([value], pa.binary())], names=[name])
