"""The guide about monitoring, followed to the letter: a service, a real Prometheus and a real Alertmanager.

Its commands run as they stand, in a copy of ``deploy/``; but for ports, which are free ones, and for times:
scrapes come twice a second, and a lag of a second is late.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.interfaces.commands import environment
from tests.support.mirrors.local import until
from tests.support.monitoring.dashboards import DEPLOY, queries
from tests.support.monitoring.prometheus import Prometheus
from tests.support.servers.debian import installed
from tests.support.servers.ports import held_port

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "monitoring.md"
PORTS = ("9180", "9182", "9090", "9093")
FASTER = {"15s": "500ms", "> 60": "> 1", "group_wait: 10s": "group_wait: 1s"}
SETTINGS = {
    "DELTAMIRROR_CHECKPOINT__INTERVAL": "2",
    "DELTAMIRROR_LOG__LEVEL": "error",
    "DELTAMIRROR_METRICS__REFRESH": "0.2",
}
COMMITS = 4
pytestmark = pytest.mark.slow
WRITER = """
import sys
from deltamirror import Catalog
{served}
with Catalog("sqlite:///deltamirror.db") as catalog:
    for number, _ in enumerate(sys.stdin):
        catalog.table("orders").alter(properties={{"number": str(number)}})
        print(number, flush=True)
server.shutdown()
"""
ZERO = " or vector(0)"
QUIET = {
    "Alerts that fire",
    "Circuits not closed",
    "Deliveries",
    "Differences that reconciliation found",
    "Settings",
    "Settings refused",
}
"""No circuit opens, no log differs, no edit is made, and no channel is set up here; alerts have a test of their own."""
VARIABLES = {"$job": ".+", "$table": ".+", "$__rate_interval": "1m", "$__range": "1h"}


def section(title: str) -> str:
    return GUIDE.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def script_of(title: str) -> list[str]:
    """The commands of a section, a block each."""
    return re.findall(r"^```sh\n(.*?)^```", section(title), re.MULTILINE | re.DOTALL)


@dataclass
class Rig:
    """A folder in which the guide is followed."""

    folder: Path
    ports: dict[str, str]
    group: int | None = None

    def run(self, script: str) -> str:
        """Run commands of the guide; what they leave in the background goes on until the end."""
        file = self.folder / "output"
        with file.open("w") as output:
            process = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", self.placed(script)],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=self.group or 0,
            )
            self.group = self.group or process.pid
            status = process.wait(300)
        assert status == 0, f"{script}\n{file.read_text()}\n{self.logs()}"
        return file.read_text()

    @property
    def environment(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return {**environment(SETTINGS), "PATH": path}

    def placed(self, text: str) -> str:
        """A text with the ports of this rig."""
        return re.sub("|".join(PORTS), lambda found: self.ports[found[0]], text)

    def logs(self) -> str:
        return "\n".join(f"{log.name}:\n{log.read_text()[-2000:]}" for log in self.folder.glob("*.log"))

    @property
    def prometheus(self) -> Prometheus:
        return Prometheus(f"http://127.0.0.1:{self.ports['9090']}")

    def close(self) -> None:
        if self.group is not None:
            for how in (signal.SIGTERM, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    os.killpg(self.group, how)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """What stands at the end of the set-up, with a writer that has committed."""
    installed("prometheus", package="prometheus")
    installed("amtool", package="prometheus-alertmanager")
    folder = tmp_path_factory.mktemp("monitoring")
    with ExitStack() as stack:
        ports = {port: str(stack.enter_context(held_port())) for port in PORTS}
        found = Rig(folder, ports)
        stack.callback(found.close)
        shutil.copytree(DEPLOY, folder / "deploy")
        for file in (folder / "deploy").rglob("*.yml"):
            text = file.read_text().replace("targets: []", 'targets: ["localhost:9182"]')
            for slow, fast in FASTER.items():
                text = text.replace(slow, fast)
            file.write_text(found.placed(text))
        started, *later = script_of("Set-up, step by step")
        found.run(started)
        stack.enter_context(writing(found))
        for block in later[:-1]:
            found.run(block)
        found.prometheus.until('deltamirror_mirror_lag_seconds{table="orders"}')
        found.run(later[-1])
        yield found


@contextmanager
def writing(rig: Rig) -> Iterator[None]:
    """A program that serves its metrics as the guide says, after it has committed more than a checkpoint needs."""
    [served] = re.findall(r"^```python\n(.*?)^```", section("Metrics of writers"), re.MULTILINE | re.DOTALL)
    program = WRITER.format(served=rig.placed(served))
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=rig.folder,
        env=rig.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(COMMITS):
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"{number}\n"
        try:
            yield
        finally:
            process.stdin.close()


@pytest.mark.requirement("R61")
@pytest.mark.requirement("R99")
def test_an_alert_fires_while_the_store_is_blocked_and_resolves_after_it(rig: Rig) -> None:
    block, look, make_way = script_of("Let an alert fire")
    firing = 'ALERTS{alertname="DeltamirrorLag", alertstate="firing", table="orders"}'
    assert not rig.prometheus.query(firing)
    rig.run(block)
    rig.prometheus.until(firing)
    [alert] = rig.prometheus.alerts("DeltamirrorLag")
    assert (alert["severity"], alert["command"]) == ("warning", "deltamirror status orders")
    told_alertmanager(rig, look, lambda told: "DeltamirrorLag" in told)
    seen = rig.run(look)
    assert 'alertname="DeltamirrorLag"' in seen
    assert "move away what is in the place of the table's folder" in seen
    rig.run(make_way)
    rig.prometheus.until(firing, holds=lambda found: not found)
    told_alertmanager(rig, look, lambda told: "DeltamirrorLag" not in told)


def told_alertmanager(rig: Rig, look: str, holds: Callable[[str], bool]) -> None:
    """Wait until Alertmanager knows so."""
    [ask] = [line for line in look.splitlines() if line.startswith("amtool")]
    until(lambda: holds(rig.run(ask)))


@pytest.mark.requirement("R60")
def test_every_query_of_the_dashboard_returns_data(rig: Rig) -> None:
    """Without the zero that stands in for events that did not happen yet, unless they do not happen here."""
    block, _, make_way = script_of("Let an alert fire")
    if not rig.prometheus.query("deltamirror_failures_total"):
        rig.run(block)
        rig.prometheus.until("deltamirror_failures_total")
        rig.run(make_way)
    for title, query in queries():
        asked = re.sub("|".join(map(re.escape, VARIABLES)), lambda found: VARIABLES[found[0]], query)
        assert "$" not in asked, title
        rig.prometheus.until(asked if title in QUIET else asked.removesuffix(ZERO))
