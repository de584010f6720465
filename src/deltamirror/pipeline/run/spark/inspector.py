"""Comparing the objects of large logs on Spark: executors read and hash, what differs comes back."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from deltamirror.batches import batched
from deltamirror.config import LiveSettings, Settings
from deltamirror.deltalog.comparison import difference
from deltamirror.executors.access import executor_store
from deltamirror.pipeline.run.inspection import LocalInspector, R, T
from deltamirror.pipeline.run.spark.jobs import SparkJobs
from deltamirror.pipeline.run.spark.mapping import mapped
from deltamirror.pipeline.run.spark_share import is_large_log
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.calls import StoreCalls
from deltamirror.storage.store import Store
from deltamirror.work import ExpectedObject, ObjectDifference

_OBJECTS_A_ROW: Final = 100
_MANY_ITEMS: Final = 4
"""Items of other examinations are large."""


class SparkInspector(LocalInspector):
    """Compares on the Spark that the settings name; few objects in this process."""

    def __init__(self, settings: Settings | LiveSettings, calls: StoreCalls | None = None) -> None:
        super().__init__(settings, calls=calls)
        self._jobs = SparkJobs(settings)

    def differences(self, address: StoreAddress, expected: Sequence[ExpectedObject]) -> Iterator[ObjectDifference]:
        """What is not as it should be, by one job."""
        if not is_large_log(num_bytes=sum(each.num_bytes for each in expected), num_objects=len(expected)):
            return super().differences(address, expected)
        return self._by_job(address, differing, list(batched(expected, _OBJECTS_A_ROW)))

    def examined(
        self, address: StoreAddress, examine: Callable[[Store, T], Iterable[R]], items: Sequence[T]
    ) -> Iterator[R]:
        """What a function finds for each item, by one job; in this process where there are few of them."""
        if len(items) < _MANY_ITEMS:
            return super().examined(address, examine, items)
        return self._by_job(address, examine, items)

    def close(self) -> None:
        """Stop Spark."""
        super().close()
        self._jobs.close()

    def _by_job(
        self, address: StoreAddress, examine: Callable[[Store, T], Iterable[R]], items: Sequence[T]
    ) -> Iterator[R]:
        return mapped(self._jobs, partial(in_executor_store, address, examine), items)


def differing(store: Store, expected: Sequence[ExpectedObject]) -> Iterator[ObjectDifference]:
    """What is not as it should be among some objects of a store."""
    return (found for each in expected if (found := difference(store, each)) is not None)


def in_executor_store(address: StoreAddress, examine: Callable[[Store, T], Iterable[R]], item: T) -> Iterable[R]:
    """The part that runs on executors."""
    return examine(executor_store(address), item)
