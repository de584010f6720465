"""The runner on Spark: an item a unit, a task for some of them, threads in each task."""

import gc
import logging
import math
import pickle
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Final, cast

from pyspark.sql import SparkSession

from deltamirror.batches import packed
from deltamirror.config import LiveSettings, Settings
from deltamirror.errors import LeaseLost
from deltamirror.pipeline.run.local.runner import InProcessRunner
from deltamirror.pipeline.run.spark.carrying import Carrier, publish_in_a_row
from deltamirror.pipeline.run.spark.executor import run_units
from deltamirror.pipeline.run.spark.jobs import SparkJobs
from deltamirror.pipeline.run.spark.sharing import LARGEST, unit_bytes
from deltamirror.storage.calls import StoreCalls
from deltamirror.txnlog.database.access import Database
from deltamirror.work import CommitOutcome, CommitUnit, Outcome, Unit

_log = logging.getLogger(__name__)
_BY_THE_CLOCK: Final = (
    "an executor without the database does not learn that its lease is renewed; raise checkpoint.lease if checkpoints "
    "take that long, and compare the clock of its machine with this one's"
)
_COLLECT_AFTER: Final = 32 * 1024 * 1024
_TOGETHER: Final = 1.0
"""How many seconds the commits of a job of several tables take: none of them waits longer to be recorded."""


class SparkRunner(SparkJobs):
    """Runs units by jobs on Spark.

    Where executors do not fetch the commits, the runner reads them from the ``database``, and no job carries more than
    ``largest`` bytes of them. One commit that is larger by itself is put by threads of this process; so is a checkpoint
    that is made from more.
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
        super().__init__(settings, session=session)
        self._carrier = Carrier(database, largest=largest)
        self._here = InProcessRunner(database, self._live, calls)
        self._carried = 0

    @property
    def fetches(self) -> bool:
        """Whether executors fetch the commits: as ``spark.lines`` says, otherwise where the database is a server."""
        match self._settings.spark.lines:
            case "auto":
                return self._settings.catalog.url.startswith("postgres")
            case lines:
                return lines == "fetched"

    def run(self, units: Sequence[Unit]) -> Generator[list[Outcome]]:
        """One Spark job, or several in a row if the units carry too much for one."""
        large: list[Unit] = []
        for job in packed(self._small(units, large), unit_bytes, self._carrier.largest):
            yield from self._run(job)
        for unit in large:
            yield [self._run_large(unit)]

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
        task = partial(run_units, threads=self._settings.mirror.threads, fetches=self.fetches, seconds=seconds)
        for outcomes in self.job([pickle.dumps(unit) for unit in units], task):
            yield [self._outcome(each) for each in outcomes]
        self._collect_garbage(sum(map(unit_bytes, units)))

    def _outcome(self, answer: bytes) -> Outcome:
        outcome: Outcome = pickle.loads(answer)  # noqa: S301  our own executors wrote it
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

    def _collect_garbage(self, carried: int) -> None:
        # py4j's objects are cycles, and the JVM keeps what they stand for, rows included, until Python lets them go.
        self._carried += carried
        if self._carried > _COLLECT_AFTER:
            self._carried = 0
            gc.collect()
