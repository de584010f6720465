"""Comparing the objects of large logs on Spark: executors read and hash, what differs comes back."""

from collections.abc import Iterator, Sequence
from typing import Final

from deltamirror.batches import batched
from deltamirror.config import LiveSettings, Settings
from deltamirror.deltalog.comparison import difference
from deltamirror.executors.access import executor_store
from deltamirror.pipeline.run.inspection import LocalInspector
from deltamirror.pipeline.run.spark.jobs import SparkJobs
from deltamirror.pipeline.run.spark.mapping import mapped
from deltamirror.storage.calls import StoreCalls
from deltamirror.storage.open import StoreAddress
from deltamirror.work import ExpectedObject, ObjectDifference

__all__ = ["SparkInspector", "differing"]

_MANY: Final = 2_000
_LARGE_BYTES: Final = 64 * 1024 * 1024
"""Fewer objects are read before Spark has started."""

_OBJECTS_A_ROW: Final = 100


class SparkInspector(LocalInspector):
    """Compares on the Spark that the settings name; few objects in this process."""

    def __init__(self, settings: Settings | LiveSettings, calls: StoreCalls | None = None) -> None:
        super().__init__(settings, calls=calls)
        self._jobs = SparkJobs(settings)

    def differences(self, address: StoreAddress, expected: Sequence[ExpectedObject]) -> Iterator[ObjectDifference]:
        """What is not as it should be, by one job."""
        is_large = len(expected) >= _MANY or sum(each.num_bytes for each in expected) >= _LARGE_BYTES
        return self._by_job(address, expected) if is_large else super().differences(address, expected)

    def close(self) -> None:
        """Stop Spark."""
        super().close()
        self._jobs.close()

    def _by_job(self, address: StoreAddress, expected: Sequence[ExpectedObject]) -> Iterator[ObjectDifference]:
        some = [(address, objects) for objects in batched(expected, _OBJECTS_A_ROW)]
        return mapped(self._jobs, differing, some)


def differing(some: tuple[StoreAddress, Sequence[ExpectedObject]]) -> Iterator[ObjectDifference]:
    """What is not as it should be among some objects of a store: the part that runs on executors."""
    address, expected = some
    store = executor_store(address)
    return (found for each in expected if (found := difference(store, each)) is not None)
