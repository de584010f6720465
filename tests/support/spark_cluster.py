"""A standalone cluster: a master and two workers with a core each."""

import json
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.support.ports import held_port
from tests.support.spark_programs import SparkProgram

__all__ = ["WORKERS", "started_cluster"]

WORKERS = 2


@contextmanager
def started_cluster(folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """The address of a master whose workers have this environment, and hand it on to their executors."""
    with ExitStack() as programs:
        port, page, *pages = (programs.enter_context(held_port()) for _ in range(2 + WORKERS))
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
        for number, own_page in enumerate(pages, 1):
            size = ["--cores", "1", "--memory", "1g", "--host", "127.0.0.1", "--webui-port", str(own_page)]
            work = ["--work-dir", str(folder / f"work{number}")]
            worker = ["org.apache.spark.deploy.worker.Worker", *size, *work, master]
            run(f"worker{number}", *worker, workers=number, environment=environment)
        yield master


def _workers(page: int) -> int:
    """How many workers the master knows; -1 while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as answer:
            state: dict[str, Any] = json.load(answer)
    except (OSError, ValueError):  # a page that is not whole yet
        return -1
    return int(state["aliveworkers"])
