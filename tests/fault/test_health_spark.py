"""A Spark that ends under an idle service is told, and started again before anybody needs it: two starts of a JVM."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.interfaces.commands import following, typed
from tests.support.monitoring.health import asked, until_part

pytestmark = [pytest.mark.requirement("R64"), pytest.mark.spark, pytest.mark.slow, pytest.mark.elsewhere]


def processes_below(parent: int) -> Iterator[int]:
    for task in Path(f"/proc/{parent}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child
            yield from processes_below(child)


def jvm_of(service: int) -> int:
    return next(each for each in processes_below(service) if Path(f"/proc/{each}/comm").read_text() == "java\n")


def test_a_spark_that_ended_is_told_and_started_again(tmp_path: Path) -> None:
    typed("init", folder=tmp_path)
    with following("--master", "local[1]", "--listen", "0", folder=tmp_path) as service:
        until_part(service.url, "spark", "ok")
        os.kill(jvm_of(service.process.pid), signal.SIGKILL)
        answer = until_part(service.url, "spark", "failed")
        assert (answer.status, asked(service.url, "/healthz").status) == (503, 200)
        assert answer.part("spark")["reason"] == "Spark has ended"
        assert answer.part("spark")["advice"] == "the mirror starts it again"
        assert {state for name, state in answer.states().items() if name != "spark"} == {"ok"}
        assert until_part(service.url, "spark", "ok").status == 200
        assert service.stop()[0] == 0
