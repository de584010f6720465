"""The time of a Spark job is measured: without what is done with its rows."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from deltamirror.config import Settings
from deltamirror.pipeline.run.spark import jobs as jobs_module
from deltamirror.pipeline.run.spark.jobs import SparkJobs
from deltamirror.telemetry.stopwatch import Stopwatch
from tests.support.monitoring.scraping import value


class Frame:
    """Hands back the rows that it was made of, after a minute."""

    sparkSession = SimpleNamespace(sparkContext=object())  # noqa: N815  pyspark's name

    def __init__(self, rows: pa.Table, clock: list[float]) -> None:
        self._rows, self._clock = rows, clock

    def coalesce(self, _: int) -> "Frame":
        return self

    def mapInArrow(self, *_: object) -> "Frame":  # noqa: N802  pyspark's name
        return self

    def toArrow(self) -> pa.Table:  # noqa: N802  pyspark's name
        self._clock[0] += 60
        return self._rows


def test_the_time_of_a_job_is_measured_and_not_that_of_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    session: Any = SimpleNamespace(createDataFrame=lambda rows: Frame(rows, clock))
    monkeypatch.setattr(jobs_module, "slots_of", lambda _: 2)
    monkeypatch.setattr(jobs_module, "Stopwatch", lambda: Stopwatch(lambda: clock[0]))
    before = value("deltamirror_spark_job_seconds_count"), value("deltamirror_spark_job_seconds_sum")
    for _ in SparkJobs(Settings(), session=session).job(pa.table({"item": [b"a", b"b"]}), iter, "item binary"):
        clock[0] += 1_000
    after = value("deltamirror_spark_job_seconds_count"), value("deltamirror_spark_job_seconds_sum")
    assert (after[0] - before[0], after[1] - before[1]) == (1, 60)
