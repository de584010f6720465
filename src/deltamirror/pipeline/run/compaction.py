"""Writing the rows of bins again: one bin after the other in this process, or all of them on Spark."""

from collections.abc import Callable, Sequence
from typing import Protocol

from deltamirror.config import Settings
from deltamirror.delta.actions import Add
from deltamirror.pipeline.run.opening import spark_module
from deltamirror.pipeline.run.runner import Runner
from deltamirror.pipeline.run.spark_share import is_large_data
from deltamirror.rows.compaction import Bin, compacted
from deltamirror.rows.discarding import discarded_on_failure
from deltamirror.rows.scanning import TableFiles
from deltamirror.rows.writing import WrittenRows
from deltamirror.storage.open import Stores


class Compactor(Protocol):
    """Writes the rows of bins again."""

    def run(self, bins: Sequence[Bin]) -> Sequence[Sequence[Add]]:
        """The new files of each bin. If one of them fails, all new files are deleted again."""

    def close(self) -> None:
        """Let go of everything."""


class LocalCompactor:
    """Writes one bin after the other, with the credentials of its settings.

    ``before_bin`` is called before each of them; what it raises ends the work.
    """

    def __init__(self, settings: Settings, *, before_bin: Callable[[], None] = lambda: None) -> None:
        self._settings, self._stores = settings, Stores.with_keys(settings)
        self._before_bin = before_bin

    def run(self, bins: Sequence[Bin]) -> Sequence[Sequence[Add]]:
        """Arrow reads with several threads; memory holds the rows of one bin, as far as they wait to be written."""
        written: list[WrittenRows] = []
        with discarded_on_failure(written):
            for each in bins:
                self._before_bin()
                written.append(self._compacted(each))
        return [each.adds for each in written]

    def close(self) -> None:
        """Let go of the stores."""
        self._stores.close()

    def _compacted(self, each: Bin) -> WrittenRows:
        store, opener = self._stores.at(each.address), TableFiles(each.address.location, self._settings.storage)
        return WrittenRows(each.order.layout, store, compacted(each, store, opener))


def open_compactor(settings: Settings, bins: Sequence[Bin], *, runner: str | None) -> Compactor:
    """Spark, or this process; without a ``runner`` that says which, Spark for much data, if it is the mirror's."""
    is_large = is_large_data(num_bytes=sum(each.num_bytes for each in bins))
    if runner == "spark" or (runner is None and is_large and settings.mirror.runner == "spark"):
        compactor: Compactor = spark_module("compactor").SparkCompactor(settings)
        return compactor
    return LocalCompactor(settings)


def compactor_beside(runner: Runner, settings: Settings, *, before_bin: Callable[[], None]) -> Compactor:
    """One that works where the runner of a service does: on its Spark, which it leaves running, or in this process."""
    if settings.mirror.runner == "spark":
        compactor: Compactor = spark_module("compactor").SparkCompactor(settings, jobs=runner)
        return compactor
    return LocalCompactor(settings, before_bin=before_bin)
