"""Comparing the objects of large logs on Spark: executors read and hash, what differs comes back."""

import pickle
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

import pyarrow as pa

from deltamirror.config import Settings
from deltamirror.errors import DeltaMirrorError
from deltamirror.mirror.comparison import difference
from deltamirror.pipeline.inspection import LocalInspector
from deltamirror.pipeline.spark.runner import SparkRunner
from deltamirror.storage.open import StoreAddress, open_store
from deltamirror.storage.store import Store
from deltamirror.work import Difference, ExpectedObject

__all__ = ["SparkInspector", "compare_rows"]

_MANY: Final = 2_000
_LARGE_BYTES: Final = 64 * 1024 * 1024
"""Fewer objects are read before Spark has started."""

_OBJECTS_A_ROW: Final = 100


class SparkInspector(LocalInspector):
    """Compares on the Spark that the settings name; few objects in this process."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._runner = SparkRunner(settings)

    def differences(self, address: StoreAddress, expected: Sequence[ExpectedObject]) -> Iterator[Difference]:
        """What is not as it should be, by one job."""
        is_large = len(expected) >= _MANY or sum(each.num_bytes for each in expected) >= _LARGE_BYTES
        return self._by_job(address, expected) if is_large else super().differences(address, expected)

    def close(self) -> None:
        """Stop Spark."""
        super().close()
        self._runner.close()

    def _by_job(self, address: StoreAddress, expected: Sequence[ExpectedObject]) -> Iterator[Difference]:
        some = [expected[start : start + _OBJECTS_A_ROW] for start in range(0, len(expected), _OBJECTS_A_ROW)]
        rows = [pa.array([pickle.dumps((number, address, each))], pa.binary()) for number, each in enumerate(some)]
        table = pa.Table.from_batches([pa.record_batch([row], names=["objects"]) for row in rows])
        found = [pickle.loads(each) for each in self._runner.job(table, compare_rows, "differences binary")]  # noqa: S301  our own executors wrote it
        for _, differences in sorted(found, key=lambda each: each[0]):
            if isinstance(differences, DeltaMirrorError):
                raise differences
            yield from differences


def compare_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The part that runs on executors: expected objects in, what differs out, or what went wrong."""
    for batch in batches:
        for row in batch.column(0):
            number, address, expected = pickle.loads(row.as_buffer())  # noqa: S301  our own driver wrote it
            made = pa.array([pickle.dumps((number, _differences(address, expected)))], pa.binary())
            yield pa.record_batch([made], names=["differences"])


def _differences(address: StoreAddress, expected: Sequence[ExpectedObject]) -> list[Difference] | DeltaMirrorError:
    try:
        store = _store(address)
        return [found for each in expected if (found := difference(store, each)) is not None]
    except DeltaMirrorError as error:
        return error


@lru_cache(maxsize=64)
def _store(address: StoreAddress) -> Store:
    """With the credentials of the executor; Spark uses a worker process for many tasks."""
    return open_store(address)
