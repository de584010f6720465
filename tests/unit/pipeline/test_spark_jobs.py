"""The time of a Spark job is measured: without what is done with its answers."""

from types import SimpleNamespace
from typing import Any

import pytest

from deltamirror.config import Settings
from deltamirror.pipeline.run.spark import jobs as jobs_module
from deltamirror.pipeline.run.spark.jobs import SparkJobs
from deltamirror.telemetry.stopwatch import Stopwatch
from tests.support.monitoring.scraping import value


class Context:
    """Hands back the items that it was given, after a minute."""

    def __init__(self, clock: list[float]) -> None:
        self._items, self._clock = list[bytes](), clock

    def parallelize(self, items: list[bytes], _: int) -> "Context":
        self._items = items
        return self

    def mapPartitions(self, _: object) -> "Context":  # noqa: N802  pyspark's name
        return self

    def collect(self) -> list[bytes]:
        self._clock[0] += 60
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
