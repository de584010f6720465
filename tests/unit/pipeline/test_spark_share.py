"""Where work runs: on Spark by default, once it is large; in this process where the mirror runs there."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from deltamirror.config import LiveSettings, Settings, StorageSettings
from deltamirror.pipeline.run import compaction, opening
from deltamirror.pipeline.run.inspection import LocalInspector
from deltamirror.pipeline.run.log_reading import LocalHarvester
from deltamirror.pipeline.run.opening import open_harvester, open_inspector
from deltamirror.pipeline.run.slices import LogSlice
from deltamirror.pipeline.run.spark_share import is_large_data, is_large_log
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.store import ETag, Meta

pytestmark = pytest.mark.requirement("R114")

MIB = 1024 * 1024
ADDRESS = StoreAddress.of("/lake/t", StorageSettings())
ON_SPARK = Settings()
LOCAL = replace(ON_SPARK, mirror=replace(ON_SPARK.mirror, runner="local"))


@pytest.mark.parametrize(
    ("num_bytes", "num_objects", "is_large"),
    [(0, 0, False), (64 * MIB - 1, 4_999, False), (64 * MIB, 1, True), (1, 5_000, True)],
)
def test_a_log_is_large_by_its_bytes_or_its_objects(num_bytes: int, num_objects: int, *, is_large: bool) -> None:
    assert is_large_log(num_bytes=num_bytes, num_objects=num_objects) is is_large


def test_data_is_large_from_four_gibibytes_on() -> None:
    assert not is_large_data(num_bytes=4096 * MIB - 1)
    assert is_large_data(num_bytes=4096 * MIB)


def test_the_mirror_runs_on_spark_unless_told_otherwise() -> None:
    assert ON_SPARK.mirror.runner == "spark"


@dataclass
class Places:
    """Notes where slices are read."""

    read: list[str] = field(default_factory=list)

    def reader(self, place: str) -> Any:
        def read(slices: Iterator[LogSlice]) -> Iterator[list[Any]]:
            self.read.append(f"{place}: {sum(1 for _ in slices)}")
            yield []

        return SimpleNamespace(read=read, close=lambda: self.read.append(f"{place} is closed"))


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> Places:
    found = Places()
    spark = SimpleNamespace(
        SparkHarvester=lambda _: found.reader("Spark"), SparkCompactor=lambda *_, **__: "Spark", SparkInspector=dict
    )
    for module in (opening, compaction):
        monkeypatch.setattr(module, "spark_module", lambda _: spark)
    monkeypatch.setattr(opening, "LocalHarvester", lambda _: found.reader("here"))
    return found


def slices(num_bytes: int, *, commits: int = 1, count: int = 4) -> Iterator[LogSlice]:
    meta = Meta("", 1, 0, ETag(""))
    for number in range(count):
        yield LogSlice(table_id=1, address=ADDRESS, version=number, commits=(meta,) * commits, num_bytes=num_bytes)


@pytest.mark.parametrize(
    ("settings", "runner", "num_bytes", "commits", "place"),
    [
        (ON_SPARK, None, 17 * MIB, 1, "Spark"),
        (ON_SPARK, None, 1, 1_250, "Spark"),
        (ON_SPARK, None, 15 * MIB, 1_249, "here"),
        (ON_SPARK, "local", 17 * MIB, 1, "here"),
        (ON_SPARK, "spark", 1, 1, "Spark"),
        (LOCAL, None, 17 * MIB, 1, "here"),
        (LOCAL, "spark", 1, 1, "Spark"),
    ],
)
def test_large_logs_are_imported_on_spark(
    places: Places, settings: Settings, runner: str | None, num_bytes: int, commits: int, place: str
) -> None:
    harvester = open_harvester(settings, runner=runner)
    list(harvester.read(slices(num_bytes, commits=commits)))
    harvester.close()
    assert places.read[0] == f"{place}: 4"
    assert f"{place} is closed" in places.read[1:] or place == "here"


def test_an_empty_log_starts_no_spark(places: Places) -> None:
    list(open_harvester(ON_SPARK, runner=None).read(iter(())))
    assert places.read == ["here: 0"]


@pytest.mark.parametrize(
    ("settings", "runner", "num_bytes", "is_on_spark"),
    [
        (ON_SPARK, None, 4096 * MIB, True),
        (ON_SPARK, None, 4096 * MIB - 2, False),
        (ON_SPARK, "spark", 1, True),
        (ON_SPARK, "local", 4096 * MIB, False),
        (LOCAL, None, 4096 * MIB, False),
        (LOCAL, "spark", 1, True),
    ],
)
@pytest.mark.usefixtures("places")
def test_much_data_is_optimized_on_spark(
    settings: Settings, runner: str | None, num_bytes: int, *, is_on_spark: bool
) -> None:
    bins: Any = [SimpleNamespace(num_bytes=num_bytes // 2)] * 2
    place: object = compaction.open_compactor(settings, bins, runner=runner)
    assert (place == "Spark") is is_on_spark


@pytest.mark.usefixtures("places")
def test_a_service_on_spark_maintains_tables_there_whatever_their_size() -> None:
    def place(settings: Settings) -> object:
        return compaction.compactor_beside(None, settings, before_bin=lambda: None)  # type: ignore[arg-type]

    assert place(ON_SPARK) == "Spark"
    assert isinstance(place(LOCAL), compaction.LocalCompactor)


def test_comparisons_go_to_the_runner_that_is_named() -> None:
    assert type(open_inspector(LiveSettings.of(ON_SPARK), runner="local")) is LocalInspector
    on_spark = open_inspector(LiveSettings.of(ON_SPARK), runner="spark")
    assert type(on_spark).__name__ == "SparkInspector"
    on_spark.close()


def test_without_spark_settings_import_in_this_process() -> None:
    assert isinstance(open_harvester(LOCAL, runner=None), LocalHarvester)
