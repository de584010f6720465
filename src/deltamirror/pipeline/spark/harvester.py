"""Reading the slices of a log on Spark: executors read and decode, the driver stores what they made of it."""

import pickle
from collections.abc import Generator, Iterable, Iterator
from functools import lru_cache
from typing import Final

import pyarrow as pa

from deltamirror.config import Settings
from deltamirror.errors import DeltaMirrorError
from deltamirror.pipeline.harvest import LocalHarvester, ahead
from deltamirror.pipeline.slices import LogSlice, Part, batches_of, read_slice
from deltamirror.pipeline.spark.runner import SparkRunner
from deltamirror.storage.open import StoreAddress, open_store
from deltamirror.storage.store import Store

__all__ = ["SparkHarvester", "read_rows"]

_WINDOW_BYTES: Final = 16 * 1024 * 1024
"""What one job brings back: the JVM holds it several times over."""


class SparkHarvester:
    """Reads on the Spark that the settings name. A slice that is too large for a job is read by this process."""

    def __init__(self, settings: Settings) -> None:
        self._runner = SparkRunner(settings)
        self._here = LocalHarvester(settings.storage)

    def read(self, slices: Iterable[LogSlice]) -> Generator[list[Part]]:
        """A job for some megabytes of slices; while its parts are stored, the next one runs."""
        return ahead(lambda: self._batches(slices), most=2)

    def close(self) -> None:
        """Stop Spark."""
        self._runner.close()

    def _batches(self, slices: Iterable[LogSlice]) -> Iterator[list[Part]]:
        for window in _windows(slices):
            if window[0].num_bytes > _WINDOW_BYTES:
                yield from self._here.read(window)
            else:
                yield from batches_of(self._by_one_job(window))

    def _by_one_job(self, window: list[LogSlice]) -> Iterator[Part]:
        rows = [pa.array([pickle.dumps((number, work))], pa.binary()) for number, work in enumerate(window)]
        table = pa.Table.from_batches([pa.record_batch([row], names=["slice"]) for row in rows])
        found = [pickle.loads(each) for each in self._runner.job(table, read_rows, "parts binary")]  # noqa: S301  our own executors wrote it
        for _, parts in sorted(found, key=lambda each: each[0]):
            if isinstance(parts, DeltaMirrorError):
                raise parts
            yield from parts


def read_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The part that runs on executors: slices in, their parts out, or what is wrong with one."""
    for batch in batches:
        for row in batch.column(0):
            number, work = pickle.loads(row.as_buffer())  # noqa: S301  our own driver wrote it
            made = pa.array([pickle.dumps((number, _parts(work)))], pa.binary())
            yield pa.record_batch([made], names=["parts"])


def _parts(work: LogSlice) -> list[Part] | DeltaMirrorError:
    try:
        return list(read_slice(work, _store(work.address)))
    except DeltaMirrorError as error:
        return error


@lru_cache(maxsize=64)
def _store(address: StoreAddress) -> Store:
    """With the credentials of the executor; Spark uses a worker process for many tasks."""
    return open_store(address)


def _windows(slices: Iterable[LogSlice]) -> Iterator[list[LogSlice]]:
    window: list[LogSlice] = []
    size = 0
    for work in slices:
        if window and size + work.num_bytes > _WINDOW_BYTES:
            yield window
            window, size = [], 0
        window.append(work)
        size += work.num_bytes
    if window:
        yield window
