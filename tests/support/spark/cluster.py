"""A standalone cluster: a master and a worker with two cores."""

import json
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.support.servers.ports import held_port
from tests.support.spark.programs import SparkProgram


@contextmanager
def started_cluster(folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """The address of a master whose worker has this environment, and hands it on to its executors."""
    with ExitStack() as programs:
        port, page, own_page = (programs.enter_context(held_port()) for _ in range(3))
        master = f"spark://127.0.0.1:{port}"

        def run(name: str, *arguments: str, workers: int, environment: Mapping[str, str]) -> None:
            log = folder / f"{name}.log"
            running = SparkProgram.running(
                ["spark-class", *arguments], lambda: _workers(page) >= workers, log=log, environment=environment
            )
            programs.enter_context(running)

        place = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page)]
        quiet = {"SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false"}  # its port is the same for everybody
        run("master", "org.apache.spark.deploy.master.Master", *place, workers=0, environment=quiet)
        size = ["--cores", "2", "--memory", "1g", "--host", "127.0.0.1", "--webui-port", str(own_page)]
        worker = ["org.apache.spark.deploy.worker.Worker", *size, "--work-dir", str(folder / "work"), master]
        run("worker", *worker, workers=1, environment=environment)
        yield master


def _workers(page: int) -> int:
    """How many workers the master knows; -1 while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as answer:
            state: dict[str, Any] = json.load(answer)
    except (OSError, ValueError):  # a page that is not whole yet
        return -1
    return int(state["aliveworkers"])
