"""The driver of a Spark as a worker: it has the runner, and runs what tests hand it.

One process has one Spark; the tests talk to several. Its settings are those of its environment.
"""

import os
import pickle
import signal
import threading
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace
from pyspark import SparkContext

from deltamirror.config import Settings, load
from deltamirror.errors import DeltaMirrorError
from deltamirror.pipeline.run.log_reading import Harvester
from deltamirror.pipeline.run.runner import Runner
from deltamirror.pipeline.run.slices import LogSlice, Part
from deltamirror.pipeline.run.spark import runner as runner_module
from deltamirror.pipeline.run.spark.harvester import SparkHarvester
from deltamirror.pipeline.run.spark.inspector import SparkInspector
from deltamirror.pipeline.run.spark.runner import SparkRunner
from tests.support.spark.commands import run_command
from tests.support.suite.worker import serve, take_stdout

Harvest: TypeAlias = tuple[list[Part], DeltaMirrorError | None]


def packed(value: object) -> str:
    """A value as text."""
    return b64encode(pickle.dumps(value)).decode()


def unpacked(text: str) -> Any:
    """The value of a text."""
    return pickle.loads(b64decode(text))  # noqa: S301  a process of our own wrote it


def harvested(harvester: Harvester, slices: Sequence[LogSlice]) -> Harvest:
    """The parts that slices come to, and the error that ended it, if one did."""
    parts: list[Part] = []
    try:
        for batch in harvester.read(slices):
            parts += batch
    except DeltaMirrorError as error:
        return parts, error
    return parts, None


def _runner(settings: Settings, lines: str) -> SparkRunner:
    patched: Any = runner_module
    patched._TOGETHER = 3_600.0  # what a job gets done in a second depends on the machine
    return SparkRunner(replace(settings, spark=replace(settings.spark, lines=lines)))


class Driver:
    """Answers ``{"jobs": [units, …], "fetches": …}`` with the outcomes of each job, all of them run at once.

    Answers ``{"slices": slices}`` with what they come to: the parts that were read, and what ended that. Answers
    ``{"expected": (address, objects)}`` with what of these objects is not as it should be.
    ``{"command": …}`` is of ``spark_commands``. ``{"kill": "JVM"}`` ends the driver's own, as the kernel does
    when memory is short. ``{"wait": "events"}`` waits for the event log, which Spark writes in a thread of its own.
    """

    def __init__(self) -> None:
        settings = load(environment=os.environ).settings
        self._runners = {fetches: _runner(settings, "fetched" if fetches else "carried") for fetches in (False, True)}
        self._harvester = SparkHarvester(settings)
        self._inspector = SparkInspector(settings)

    def answer(self, request: dict[str, Any]) -> list[str]:
        """What came of each job: its outcomes, or the error that it raised."""
        if "kill" in request:
            gateway: Any = SparkContext._gateway
            os.kill(gateway.proc.pid, signal.SIGKILL)
            return []
        if "wait" in request:
            context: Any = SparkContext._active_spark_context
            context._jsc.sc().listenerBus().waitUntilEmpty()
            return []
        if "command" in request:
            return [run_command(self._runners[False]._started(), request)]
        if "slices" in request:
            return [packed(harvested(self._harvester, unpacked(request["slices"])))]
        if "expected" in request:
            return [packed(list(self._inspector.differences(*unpacked(request["expected"]))))]
        if "examined" in request:
            return [packed(list(self._inspector.examined(*unpacked(request["examined"]))))]
        runner, jobs = self._runners[request["fetches"]], [unpacked(text) for text in request["jobs"]]
        results: list[object] = [None] * len(jobs)
        threads = [threading.Thread(target=_run, args=(runner, results, *job)) for job in enumerate(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [packed(result) for result in results]

    def close(self) -> None:
        """Stop Spark."""
        self._inspector.close()
        self._harvester.close()
        for runner in self._runners.values():
            runner.close()


def _run(runner: Runner, results: list[object], number: int, units: Any) -> None:
    try:
        results[number] = [outcome for some in runner.run(units) for outcome in some]
    except DeltaMirrorError as error:
        results[number] = error


if __name__ == "__main__":
    # Before the JVM starts and inherits standard output.
    answers = take_stdout()
    driver = Driver()
    serve(answers, "driver", driver.answer)
    driver.close()
