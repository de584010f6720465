"""Programs of Spark itself, from the pip package, each a JVM of its own on loopback.

A program that does not come up is an error of the tests that asked for it, with its log in the message.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_START_TIMEOUT_SECONDS = 180
_LOG_TAIL = 8_000


class SparkProgram:
    """One program, which can be killed and started again by a test."""

    def __init__(self, command: Sequence[str], *, log: Path, environment: Mapping[str, str]) -> None:
        self._command = [str(Path(sys.executable).with_name(command[0])), *command[1:]]
        self._log = log
        self._environment = {**os.environ, **spark_environment(), **environment}
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def start(self, is_up: Callable[[], bool]) -> None:
        """Start the program and wait until it is up."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._log.parent,
                env=self._environment,
                start_new_session=True,
            )
        self._guard = _guard(self._process.pid)
        deadline = time.monotonic() + _START_TIMEOUT_SECONDS
        while not is_up():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"{self._command[1]} did not start:\n{self._log.read_text()[-_LOG_TAIL:]}")
            time.sleep(0.1)

    def kill(self) -> None:
        """End the program at once, with the executors that it started."""
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.kill()
            self._guard.wait()
            self._guard.stdin.close()
            self._guard = None
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    @classmethod
    @contextmanager
    def running(
        cls, command: Sequence[str], is_up: Callable[[], bool], *, log: Path, environment: Mapping[str, str]
    ) -> Iterator["SparkProgram"]:
        """A program that is up, killed at the end."""
        program = cls(command, log=log, environment=environment)
        try:
            program.start(is_up)
            yield program
        finally:
            program.kill()


def spark_environment() -> dict[str, str]:
    """What all programs of Spark need, drivers included: this Python, and no other network than loopback."""
    assert shutil.which("java"), "there is no Java"
    return {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


def answers(port: int) -> bool:
    """Whether somebody listens on a port."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _guard(leader: int) -> subprocess.Popen[bytes]:
    """A process that ends a program and its children when this one is killed: its input ends then, and never before."""
    command = ["sh", "-c", 'read -r _; kill -KILL "-$1"', "guard", str(leader)]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True)
