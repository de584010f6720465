"""Processes of the soak test, which are killed, stopped and started again."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from deltamirror import Table
from deltamirror.config import StorageSettings
from deltamirror.storage.open import store_at
from tests.support.interfaces.commands import COMMAND, environment

_ROOT = Path(__file__).parents[2]
QUICK = {
    "DELTAMIRROR_MIRROR__RUNNER": "local",
    "DELTAMIRROR_MIRROR__POLL": "0.2",
    "DELTAMIRROR_MIRROR__LEASE": "4",
    "DELTAMIRROR_MIRROR__RETRY_BASE": "0.2",
    "DELTAMIRROR_MIRROR__RETRY_MAX": "3",
    "DELTAMIRROR_MIRROR__RETRY_PERMANENT": "5",
    "DELTAMIRROR_CHECKPOINT__LEASE": "6",
    "DELTAMIRROR_BREAKER__PAUSE": "2",
    "DELTAMIRROR_RECONCILE__INTERVAL": "10",
    "DELTAMIRROR_STORAGE__TIMEOUT": "3",
    "DELTAMIRROR_STORAGE__TRANSFER_TIMEOUT": "3",
    "DELTAMIRROR_METRICS__REFRESH": "0",
    "DELTAMIRROR_ALERTS__INTERVAL": "1",
    "DELTAMIRROR_ALERTS__COOLDOWN": "0",
    "DELTAMIRROR_ALERTS__TIMEOUT": "5",
    "DELTAMIRROR_SLO__LAG_WARNING": "8",
}
"""Settings of services that never wait for long."""


@dataclass
class Member:
    """A program that is to run all the time."""

    name: str
    command: Sequence[str]
    settings: Mapping[str, str]
    folder: Path
    process: subprocess.Popen[bytes] | None = None
    wakes_at: float | None = None
    is_dismissed: bool = False
    """Whether it was asked to end, and is not to be started again."""

    def start(self) -> None:
        """Begin, or begin again."""
        own = environment({**self.settings, "PYTHONPATH": f"{_ROOT / 'src'}:{_ROOT}"})
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command, cwd=_ROOT, env=own, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self) -> None:
        """kill -9, with the processes that it started, such as a JVM."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.wakes_at = None

    def suspend(self, seconds: float) -> None:
        """Let it stand still."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGSTOP)
            self.wakes_at = time.monotonic() + seconds

    def wake(self) -> None:
        """Let it go on."""
        if self.process is not None and self.wakes_at is not None:
            self.process.send_signal(signal.SIGCONT)
        self.wakes_at = None

    def end(self, how: signal.Signals, *, seconds: float) -> int:
        """Ask it to end for good; its exit status."""
        self.wake()
        self.is_dismissed = True
        if self.process is None:
            return 0
        self.process.send_signal(how)
        return self.process.wait(seconds)

    @property
    def log(self) -> str:
        """The last words."""
        return (self.folder / f"{self.name}.log").read_text(errors="replace")[-3_000:]


@dataclass
class Crowd:
    """Writers and services."""

    folder: Path
    settings: Mapping[str, str]
    members: list[Member] = field(default_factory=list)

    @property
    def stop_file(self) -> Path:
        """Writers end once it is there."""
        return self.folder / "stop"

    def add_writer(self, name: str, tables: Sequence[str]) -> None:
        """Somebody who commits."""
        arguments = [name, str(self.folder / f"{name}.journal"), str(self.stop_file), *tables]
        self.add(name, [sys.executable, "-m", "tests.soak.writer", *arguments])

    def add_service(self, name: str, *arguments: str) -> Member:
        """Somebody who publishes."""
        return self.add(name, [*COMMAND, "mirror", "--follow", *arguments])

    def add(self, name: str, command: Sequence[str]) -> Member:
        """Any other program."""
        member = Member(name, command, self.settings, self.folder)
        member.start()
        self.members.append(member)
        return member

    def one(self, lots: random.Random) -> Member:
        """Anybody."""
        return lots.choice(self.members)

    def look_after(self) -> None:
        """Wake whoever has stood still for long enough, and start whoever has ended."""
        for member in self.members:
            if member.wakes_at is not None and time.monotonic() >= member.wakes_at:
                member.wake()
            if not member.is_dismissed and (member.process is None or member.process.poll() is not None):
                member.start()

    def of(self, prefix: str) -> list[Member]:
        """Those whose names begin so."""
        return [member for member in self.members if member.name.startswith(prefix)]

    def kill_all(self) -> None:
        """At the end, whatever it was."""
        for member in self.members:
            member.kill()


def check_log(table: Table, committed: Mapping[str, bytes], direct: StorageSettings) -> None:
    """The log has the commits of the database, bit for bit, and no others."""
    store = store_at(table.location, direct)
    listed = [meta.key.removeprefix("_delta_log/") for meta in store.list("_delta_log")]
    commits = {name: store.read(f"_delta_log/{name}") for name in listed if name.endswith(".json")}
    assert {name: found and found.data for name, found in commits.items()} == committed
