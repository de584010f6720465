"""The runner, the harvester and the inspector that the settings name."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from importlib import import_module
from itertools import chain
from types import ModuleType

from deltamirror.config import LiveSettings, Settings
from deltamirror.errors import MissingExtra
from deltamirror.pipeline.run.inspection import Inspector, LocalInspector
from deltamirror.pipeline.run.local.runner import InProcessRunner
from deltamirror.pipeline.run.log_reading import Harvester, LocalHarvester
from deltamirror.pipeline.run.runner import Runner
from deltamirror.pipeline.run.slices import LogSlice, Part
from deltamirror.pipeline.run.spark_share import is_large_log
from deltamirror.storage.calls import StoreCalls
from deltamirror.txnlog.database.access import Database


def open_runner(settings: LiveSettings, database: Database, calls: StoreCalls) -> Runner:
    """Spark, or threads of this process. Spark starts when it is first used."""
    if settings.current.mirror.runner == "local":
        return InProcessRunner(database, settings, calls)
    runner: Runner = spark_module("runner").SparkRunner(settings, database, calls)
    return runner


def open_harvester(settings: Settings, *, runner: str | None) -> Harvester:
    """Spark, or this process; without a ``runner`` that says which, that of the mirror, and Spark for large logs."""
    if runner == "spark":
        harvester: Harvester = spark_module("harvester").SparkHarvester(settings)
        return harvester
    is_local = runner == "local" or settings.mirror.runner == "local"
    return LocalHarvester(settings) if is_local else _HarvesterBySize(settings)


def open_inspector(settings: LiveSettings, *, runner: str, calls: StoreCalls | None = None) -> Inspector:
    """This process, or Spark for logs that are large; that starts when it is first used."""
    if runner == "local":
        return LocalInspector(settings, calls=calls)
    inspector: Inspector = spark_module("inspector").SparkInspector(settings, calls)
    return inspector


class _HarvesterBySize:
    """Reads small logs in this process, and large ones on Spark."""

    def __init__(self, settings: Settings) -> None:
        self._here: Harvester = LocalHarvester(settings)
        self._spark: Harvester | None = None
        self._settings = settings

    def read(self, slices: Iterable[LogSlice]) -> Generator[list[Part]]:
        """By the reader that suits the size of the log: Spark for large ones."""
        first, rest = _begun(iter(slices))
        return (self._on_spark() if _is_large(first) else self._here).read(chain(first, rest))

    def close(self) -> None:
        """Stop Spark, if it was started."""
        if self._spark is not None:
            self._spark.close()

    def _on_spark(self) -> Harvester:
        if self._spark is None:
            self._spark = open_harvester(self._settings, runner="spark")
        return self._spark


def _begun(slices: Iterator[LogSlice]) -> tuple[list[LogSlice], Iterator[LogSlice]]:
    """The first slices, so many that they would be large, and the others."""
    first: list[LogSlice] = []
    for work in slices:
        first.append(work)
        if _is_large(first):
            break
    return first, slices


def _is_large(slices: Sequence[LogSlice]) -> bool:
    num_objects = sum(len(work.commits) for work in slices)
    return is_large_log(num_bytes=sum(work.num_bytes for work in slices), num_objects=num_objects)


def spark_module(name: str) -> ModuleType:
    """A module that needs pyspark; MissingExtra where that is not installed."""
    try:
        return import_module(f"deltamirror.pipeline.run.spark.{name}")
    except ImportError as error:
        raise MissingExtra(
            f"this runs on Spark, which is not installed: {error.name}",
            hint="pip install 'deltamirror[spark]', or do without it: set mirror.runner to local, or --runner local",
            extra="spark",
        ) from error
