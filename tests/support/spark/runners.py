"""Every runner, for the suite that all of them pass: in-process, and on Spark in the three ways to have it.

Each Spark starts once a session, with a driver in a process of its own. Executors find the S3 server's keys and the
PostgreSQL catalog in their environment, as they do in production.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from deltamirror import Catalog
from deltamirror.config import Settings
from deltamirror.errors import DeltaMirrorError
from deltamirror.pipeline.run.local.runner import InProcessRunner
from deltamirror.pipeline.run.log_reading import LocalHarvester
from deltamirror.pipeline.run.slices import LogSlice
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.store import Store
from deltamirror.work import ExpectedObject, ObjectDifference, Outcome, Unit
from tests.support.servers.seaweed_server import SeaweedServer
from tests.support.spark.cluster import started_cluster
from tests.support.spark.commands import Command, asked, result_of
from tests.support.spark.connect import ConnectServer, started_connect
from tests.support.spark.programs import spark_environment
from tests.support.spark.runner_driver import Harvest, harvested, packed, unpacked
from tests.support.suite.inventory import record
from tests.support.suite.worker import Worker

T = TypeVar("T")
R = TypeVar("R")

CANARY = "canary-7d1f"
"""A secret that the drivers and executors have in their settings, and that nobody may find elsewhere."""

_SPARK = [pytest.mark.spark, pytest.mark.slow, pytest.mark.xdist_group("spark")]
RUNNERS = {
    "in-process": "in_process_rig",
    "spark-local": "spark_local",
    "spark-standalone": "spark_standalone",
    "spark-connect": "spark_connect",
}


class Rig(Protocol):
    """A runner at work. ``fetches``: its executors have the database of the PostgreSQL lake; otherwise units carry."""

    def run_at_once(self, jobs: Sequence[Sequence[Unit]], *, fetches: bool = False) -> list[list[Outcome]]:
        """The outcomes of jobs that run at the same time; raises what one of them raised."""

    def run(self, units: Sequence[Unit], *, fetches: bool = False) -> list[Outcome]:
        """The outcomes of one job."""

    def harvest(self, slices: Sequence[LogSlice]) -> Harvest:
        """The parts of slices of a log, and the error that ended it, if one did."""


@dataclass(frozen=True)
class SparkRig:
    """The runner of a driver in another process."""

    driver: Worker
    events: Path
    """Where Spark keeps its event log, if it does."""

    def run_at_once(self, jobs: Sequence[Sequence[Unit]], *, fetches: bool = False) -> list[list[Outcome]]:
        """The outcomes of jobs that run at the same time; raises what one of them raised."""
        answer = self.driver.ask({"jobs": [packed(list(units)) for units in jobs], "fetches": fetches})
        return [_raised(unpacked(text)) for text in answer]

    def run(self, units: Sequence[Unit], *, fetches: bool = False) -> list[Outcome]:
        """The outcomes of one job."""
        return self.run_at_once([units], fetches=fetches)[0]

    def harvest(self, slices: Sequence[LogSlice]) -> Harvest:
        """The parts of slices of a log, and the error that ended it, if one did."""
        [text] = self.driver.ask({"slices": packed(list(slices))})
        found: Harvest = unpacked(text)
        return found

    def run_command(self, command: Command) -> Any:
        """What comes of a command for Spark."""
        [text] = self.driver.ask(asked(command))
        return result_of(text)

    def kill_jvm(self) -> None:
        """Let the driver go on without its JVM."""
        self.driver.ask({"kill": "JVM"})

    def differences(self, address: StoreAddress, expected: Sequence[ExpectedObject]) -> list[ObjectDifference]:
        """What of these objects is not as it should be."""
        [text] = self.driver.ask({"expected": packed((address, list(expected)))})
        found: list[ObjectDifference] = unpacked(text)
        return found

    def examined(
        self, address: StoreAddress, examine: Callable[[Store, T], Iterable[R]], items: Sequence[T]
    ) -> Iterator[R]:
        """What a function of a module finds for each item in a store."""
        [text] = self.driver.ask({"examined": packed((address, examine, list(items)))})
        found: list[R] = unpacked(text)
        return iter(found)

    def event_log(self) -> str:
        """What the Spark that runs has written down of all that happened so far."""
        self.driver.ask({"wait": "events"})
        logs = [file for file in self.events.rglob("*") if file.is_file() and "events" in file.name]
        return max(logs, key=lambda log: log.stat().st_mtime_ns).read_text()

    def jobs(self) -> int:
        """How many jobs Spark has begun, by its event log."""
        return self.event_log().count('"SparkListenerJobStart"')


@dataclass(frozen=True)
class InProcessRig:
    """The runner of this process."""

    settings: Settings
    catalog: Catalog

    def run_at_once(self, jobs: Sequence[Sequence[Unit]], *, fetches: bool = False) -> list[list[Outcome]]:
        """The outcomes of jobs that run at the same time."""
        results: dict[int, list[Outcome]] = {}

        def run(number: int, units: Sequence[Unit]) -> None:
            results[number] = self.run(units, fetches=fetches)

        threads = [threading.Thread(target=run, args=job) for job in enumerate(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [results[number] for number in range(len(jobs))]

    def run(self, units: Sequence[Unit], *, fetches: bool = False) -> list[Outcome]:
        """The outcomes of one job."""
        runner = InProcessRunner(self.catalog.database if fetches else None, self.settings)
        return [outcome for some in runner.run(units) for outcome in some]

    def harvest(self, slices: Sequence[LogSlice]) -> Harvest:
        """The parts of slices of a log, and the error that ended it, if one did."""
        return harvested(LocalHarvester(self.settings), slices)


def _raised(result: Any) -> list[Outcome]:
    if isinstance(result, DeltaMirrorError):
        raise result
    outcomes: list[Outcome] = result
    return outcomes


@pytest.fixture(scope="session")
def executor_environment(seaweed_server: SeaweedServer, shared_postgres_url: str) -> Mapping[str, str]:
    """What an operator sets on the machines of a cluster."""
    storage = seaweed_server.settings()
    assert storage.access_key_id is not None
    assert storage.secret_access_key is not None
    return {
        "DELTAMIRROR_CATALOG__URL": shared_postgres_url,
        "DELTAMIRROR_STORAGE__ACCESS_KEY_ID": storage.access_key_id,
        "DELTAMIRROR_STORAGE__SECRET_ACCESS_KEY": storage.secret_access_key.reveal(),
        "DELTAMIRROR_STORAGE__AZURE_KEY": CANARY,
    }


@pytest.fixture(scope="session")
def in_process_rig(seaweed_server: SeaweedServer, shared_postgres_url: str) -> Iterator[Rig]:
    """Threads of this process."""
    with Catalog(shared_postgres_url) as catalog:
        yield InProcessRig(Settings(storage=seaweed_server.settings()), catalog)


@contextmanager
def started_driver(folder: Path, master: str, environment: Mapping[str, str]) -> Iterator[SparkRig]:
    """A driver for a master; what Spark itself is told comes from Spark's own configuration."""
    (folder / "events").mkdir()
    (folder / "conf").mkdir()
    own = {
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{folder / 'events'}",
        "spark.eventLog.enabled": "true",
        "spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"],
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
    }
    (folder / "conf" / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in own.items()))
    settings = {"DELTAMIRROR_SPARK__MASTER": master, "SPARK_CONF_DIR": str(folder / "conf")}
    worker = Worker("tests.support.spark.runner_driver", folder, environment={**environment, **settings})
    record("runner", f"Spark at {master.partition('://')[0]}")
    try:
        yield SparkRig(worker, folder / "events")
    finally:
        worker.close()


@pytest.fixture(scope="session")
def spark_local(
    tmp_path_factory: pytest.TempPathFactory, executor_environment: Mapping[str, str]
) -> Iterator[SparkRig]:
    """A Spark of the driver's own: its executors inherit its environment."""
    with started_driver(tmp_path_factory.mktemp("local"), "local[*]", executor_environment) as rig:
        yield rig


@pytest.fixture(scope="session")
def spark_standalone(
    tmp_path_factory: pytest.TempPathFactory, executor_environment: Mapping[str, str]
) -> Iterator[SparkRig]:
    """A cluster: the driver has no keys and no catalog, its workers have."""
    folder = tmp_path_factory.mktemp("cluster")
    with (
        started_cluster(folder, executor_environment) as master,
        started_driver(tmp_path_factory.mktemp("driver"), master, spark_environment()) as rig,
    ):
        yield rig


@pytest.fixture(scope="session")
def connect_server(
    tmp_path_factory: pytest.TempPathFactory, executor_environment: Mapping[str, str]
) -> Iterator[ConnectServer]:
    """A Spark Connect server: its executors have the keys and the catalog."""
    with started_connect(tmp_path_factory.mktemp("connect"), executor_environment) as server:
        yield server


@pytest.fixture(scope="session")
def spark_connect(tmp_path_factory: pytest.TempPathFactory, connect_server: ConnectServer) -> Iterator[SparkRig]:
    """The driver of a Spark Connect server: a client without Java, keys or catalog."""
    with started_driver(tmp_path_factory.mktemp("client"), connect_server.url, {"JAVA_HOME": "/nowhere"}) as rig:
        yield rig


@pytest.fixture(params=[pytest.param(name, marks=[] if name == "in-process" else _SPARK) for name in RUNNERS], ids=str)
def any_rig(request: pytest.FixtureRequest) -> Rig:
    """Each runner in turn."""
    rig: Rig = request.getfixturevalue(RUNNERS[request.param])
    return rig
