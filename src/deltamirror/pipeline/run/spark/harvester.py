"""Reading the slices of a log on Spark: executors read and decode, the driver stores what they made of it."""

from collections.abc import Generator, Iterable, Iterator
from operator import attrgetter
from typing import Final

from deltamirror.batches import packed
from deltamirror.config import Settings
from deltamirror.executors.access import executor_store
from deltamirror.pipeline.run.log_reading import LocalHarvester, ahead
from deltamirror.pipeline.run.slices import LogSlice, Part, batches_of, read_slice
from deltamirror.pipeline.run.spark.jobs import SparkJobs
from deltamirror.pipeline.run.spark.mapping import mapped

_WINDOW_BYTES: Final = 16 * 1024 * 1024
"""What one job brings back: the JVM holds it several times over."""


class SparkHarvester:
    """Reads on the Spark that the settings name. A slice that is too large for a job is read by this process."""

    def __init__(self, settings: Settings) -> None:
        self._jobs = SparkJobs(settings)
        self._here = LocalHarvester(settings)

    def read(self, slices: Iterable[LogSlice]) -> Generator[list[Part]]:
        """A job for some megabytes of slices; while its parts are stored, the next one runs."""
        return ahead(lambda: self._batches(slices), most=2)

    def close(self) -> None:
        """Stop Spark."""
        self._jobs.close()

    def _batches(self, slices: Iterable[LogSlice]) -> Iterator[list[Part]]:
        for window in packed(slices, attrgetter("num_bytes"), _WINDOW_BYTES):
            if window[0].num_bytes > _WINDOW_BYTES:
                yield from self._here.read(window)
            else:
                yield from batches_of(mapped(self._jobs, _parts, window))


def _parts(work: LogSlice) -> Iterator[Part]:
    return read_slice(work, executor_store(work.address))
