"""Servers of the tests, and what ends one when the process that started it is killed, and can end nothing any more."""

import os
import shutil
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Self

START_TIMEOUT_SECONDS = 60
ANSWER_TIMEOUT_SECONDS = 60


class ServerGuard:
    """A process beside a server, which kills it and deletes its folder when this one is gone: its input ends then."""

    def __init__(self, server: int, folder: Path) -> None:
        script = 'read -r _; kill -KILL "$1"; sleep 1; rm -rf "$2"'
        quiet = subprocess.DEVNULL
        command = ["sh", "-c", script, "guard", str(server), str(folder)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True
        )

    def dismiss(self) -> None:
        """The server is ended in order."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


@dataclass(kw_only=True)
class GuardedServer(ABC):
    """A server in a folder of its own, which can be stopped and started again by a test."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None
    guard: ServerGuard | None = None
    _names: Iterator[int] = field(default_factory=count)

    @property
    def log(self) -> Path:
        """What the server writes about itself."""
        return self.folder / "server.log"

    @abstractmethod
    def start(self) -> None:
        """Start the server and wait until it is of use."""

    @contextmanager
    def running(self) -> Iterator[Self]:
        """The server runs until the end of the block; then it goes, with its folder."""
        try:
            self.start()
            yield self
        finally:
            self.stop()
            shutil.rmtree(self.folder, ignore_errors=True)

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Stop the server. By default at once: nobody needs its data; SIGTERM may keep them for the next start."""
        if self.guard is not None:
            self.guard.dismiss()
            self.guard = None
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(START_TIMEOUT_SECONDS)
            self.process = None

    def ensure_running(self) -> None:
        """Start the server if it is not running."""
        if self.process is None or self.process.poll() is not None:
            self.start()

    def fresh_name(self) -> str:
        """A name for a bucket or container that nobody has."""
        return f"test-{os.getpid()}-{next(self._names)}"
