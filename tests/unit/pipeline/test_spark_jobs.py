"""Jobs on Spark: their time is measured, and a Spark of our own stays warm between them."""

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from deltamirror.config import Settings
from deltamirror.pipeline.run.spark import jobs as jobs_module
from deltamirror.pipeline.run.spark.jobs import SparkJobs
from deltamirror.pipeline.run.spark.runner import SparkRunner
from deltamirror.telemetry.stopwatch import Stopwatch
from tests.support.monitoring.scraping import value


class Context:
    """Hands back the items that it was given, after a minute."""

    def __init__(self, clock: list[float]) -> None:
        self._items, self._clock = list[bytes](), clock
        self.jobs = 0

    def parallelize(self, items: list[bytes], _: int) -> "Context":
        self._items = items
        return self

    def mapPartitions(self, _: object) -> "Context":  # noqa: N802  pyspark's name
        return self

    def collect(self) -> list[bytes]:
        self._clock[0] += 60
        self.jobs += 1
        return self._items


def test_the_time_of_a_job_is_measured_and_not_that_of_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    session: Any = SimpleNamespace(sparkContext=Context(clock))
    monkeypatch.setattr(jobs_module, "slots_of", lambda _: 2)
    monkeypatch.setattr(jobs_module, "Stopwatch", lambda: Stopwatch(lambda: clock[0]))
    before = value("deltamirror_spark_job_seconds_count"), value("deltamirror_spark_job_seconds_sum")
    for _ in SparkJobs(Settings(), session=session).job([b"a", b"b"], iter):
        clock[0] += 1_000
    after = value("deltamirror_spark_job_seconds_count"), value("deltamirror_spark_job_seconds_sum")
    assert (after[0] - before[0], after[1] - before[1]) == (1, 60)


@pytest.mark.parametrize(
    ("master", "given", "warmed"), [("local[2]", False, 1), ("local[2]", True, 0), ("spark://a:1", False, 0)]
)
def test_a_spark_of_our_own_that_idles_runs_a_job_without_units_before_it_ends_its_processes(
    monkeypatch: pytest.MonkeyPatch, *, master: str, given: bool, warmed: int
) -> None:
    clock, settings = [0.0], Settings()
    context = Context(clock)
    session: Any = SimpleNamespace(sparkContext=context)
    monkeypatch.setattr(jobs_module, "slots_of", lambda _: 2)
    monkeypatch.setattr(jobs_module, "start_session", lambda *_, **__: session)
    monkeypatch.setattr(jobs_module, "require_server", lambda _: None)
    monkeypatch.setattr(jobs_module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    runner = SparkRunner(
        replace(settings, spark=replace(settings.spark, master=master)), session=session if given else None
    )
    assert not runner.keep_warm()  # Spark has not started
    for _ in runner.job([b"a"], iter):
        pass
    begun = context.jobs
    clock[0] += 49
    assert not runner.keep_warm()
    clock[0] += 2
    assert [runner.keep_warm(), runner.keep_warm()] == [bool(warmed), False]
    assert context.jobs - begun == warmed
