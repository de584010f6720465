"""Writing the rows of bins again on Spark: a bin is a row of one job, and executors write its files."""

from collections.abc import Sequence

from pyspark.sql import SparkSession

from deltamirror.config import Settings
from deltamirror.delta.actions import Add
from deltamirror.errors import DeltaMirrorError
from deltamirror.executors.access import executor_store, explained
from deltamirror.pipeline.run.spark.jobs import SparkJobs
from deltamirror.pipeline.run.spark.mapping import mapped
from deltamirror.rows.compaction import Bin, compacted
from deltamirror.rows.scanning import TableFiles
from deltamirror.rows.spark import TaskRows, collected
from deltamirror.storage.open import Stores


class SparkCompactor:
    """Writes on the Spark that the process works with, and on the one that the settings name where there is none.

    ``jobs`` that are handed in are used instead, and stay the caller's.
    """

    def __init__(self, settings: Settings, *, jobs: SparkJobs | None = None) -> None:
        self._is_given = jobs is not None
        self._jobs = jobs or SparkJobs(settings, session=SparkSession.getActiveSession())
        self._stores = Stores.with_keys(settings)

    def run(self, bins: Sequence[Bin]) -> Sequence[Sequence[Add]]:
        """One job. An error is an answer, too: so the driver knows which files the other tasks have written."""
        if not bins:
            return []
        answers = list(mapped(self._jobs, _written, list(enumerate(bins))))
        layout, address = bins[0].order.layout, bins[0].address
        collected(answers, layout, address, self._stores.at(address))
        return [each.adds for each in sorted(answers, key=lambda answer: answer.task)]

    def close(self) -> None:
        """Stop Spark, if it was started for this."""
        if not self._is_given:
            self._jobs.close()
        self._stores.close()


def _written(numbered: tuple[int, Bin]) -> list[TaskRows]:
    """The part that runs on executors."""
    number, each = numbered
    try:
        store, opener = executor_store(each.address), TableFiles.of_executor(each.address)
        return [TaskRows(number, compacted(each, store, opener))]
    except DeltaMirrorError as error:
        return [TaskRows(number, error=explained(error))]
