"""The command line as it is typed: in processes of their own, which can be sent signals and given disks."""

import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import IO

from msgspec.structs import asdict

import deltamirror
from deltamirror.config import Secret, StorageSettings

COMMAND = (sys.executable, "-m", "deltamirror.cli")
NOTHING: Mapping[str, str] = MappingProxyType({})
_LONGEST = 300
_APART = Path("/usr/bin/unshare")


def environment(settings: Mapping[str, str] = NOTHING) -> dict[str, str]:
    """The environment of a command: without the settings of whoever runs the tests, but with these."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DELTAMIRROR_")}
    return {**inherited, "PYTHONPATH": str(Path(deltamirror.__file__).parent.parent), **settings}


def variables(storage: StorageSettings) -> dict[str, str]:
    """The settings of a store as variables of the environment."""
    shown = {name: value for name, value in asdict(storage).items() if value != getattr(StorageSettings(), name)}
    return {f"DELTAMIRROR_STORAGE__{name.upper()}": _text(value) for name, value in shown.items()}


def _text(value: object) -> str:
    match value:
        case Secret():
            return value.reveal()
        case bool():
            return str(value).lower()
        case _:
            return str(value)


def typed(
    *arguments: str, folder: Path, stdin: str = "", settings: Mapping[str, str] = NOTHING
) -> subprocess.CompletedProcess[str]:
    """What a command says, and how it ends."""
    return _run([*COMMAND, *arguments], folder, stdin=stdin, settings=settings)


def typed_on_a_terminal(*arguments: str, folder: Path, columns: int, program: Sequence[str] = COMMAND) -> str:
    """What a command shows on a terminal of this width, without its colours; it has to succeed."""
    shown = typed_in_colour(*arguments, folder=folder, columns=columns, program=program)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)


def typed_in_colour(
    *arguments: str,
    folder: Path,
    columns: int,
    settings: Mapping[str, str] = NOTHING,
    program: Sequence[str] = COMMAND,
) -> str:
    """What a command shows on a terminal of this width, with its colours; it has to succeed."""
    ours, theirs = pty.openpty()
    known = environment({"TERM": "xterm", "COLUMNS": str(columns), **settings})
    with subprocess.Popen([*program, *arguments], cwd=folder, env=known, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = _all_of(ours)
    if process.returncode:
        raise AssertionError(f"{arguments}: exit {process.returncode}\n{shown}")
    return shown


def _all_of(terminal: int) -> str:
    shown = b""
    try:
        while read := os.read(terminal, 65536):
            shown += read
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(terminal)
    return shown.decode().replace("\r\n", "\n")


def can_mount() -> bool:
    """Whether a process may have a disk of its own: as root, or where the kernel lets users."""
    return _APART.exists() and subprocess.run(_apart("mount -t tmpfs tmpfs /mnt"), check=False).returncode == 0


def typed_on_a_disk(
    *arguments: str, folder: Path, mounted: Path, options: str, settings: Mapping[str, str] = NOTHING
) -> subprocess.CompletedProcess[str]:
    """A command with a small disk at ``mounted``, which nobody else sees, and which is gone with the command."""
    mount = shlex.join(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(mounted)])
    script = f"{mount} && exec {shlex.join([*COMMAND, *arguments])}"
    return _run(_apart(script), folder, settings=settings)


def can_lose_power() -> bool:
    """Whether a process may be somebody who is not root, where the kernel lets users."""
    return _APART.exists() and subprocess.run([str(_APART), "--user", "true"], check=False).returncode == 0


def typed_without_power(
    *arguments: str, folder: Path, settings: Mapping[str, str] = NOTHING
) -> subprocess.CompletedProcess[str]:
    """A command of somebody who is not root, whoever runs the tests: what forbids itself to its owner is forbidden."""
    return _run([str(_APART), "--user", *COMMAND, *arguments], folder, settings=settings)


def _apart(script: str) -> list[str]:
    return [str(_APART), "--map-root-user", "--mount", "sh", "-c", script]


def _run(
    command: list[str], folder: Path, *, stdin: str = "", settings: Mapping[str, str] = NOTHING
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env=environment(settings),
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=_LONGEST,
    )


def without_jvm(stderr: str) -> str:
    """Standard error but for the line with which the JVM itself begins, before Spark has a say."""
    return stderr.replace("WARNING: Using incubator modules: jdk.incubator.vector\n", "")


class Service:
    """A ``deltamirror mirror --follow``, or ``reconcile --follow``, that runs."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.started = self.line()
        """What it said when it was ready for signals."""

    @property
    def url(self) -> str:
        """Where it listens, as it said."""
        found = re.search(r"http://[^/ ]+", self.started)
        if found is None:
            raise AssertionError(f"it does not say where it listens: {self.started}")
        return found[0]

    def line(self) -> str:
        """The next line of its standard error; nothing behind it is taken from the pipe."""
        return _stream(self.process.stderr).readline().decode()

    def told(self, how: signal.Signals) -> str:
        """Send a signal, and wait for the line that it is answered with."""
        self.process.send_signal(how)
        return self.line()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
        """Send a signal, and wait: exit status, standard output, standard error."""
        self.process.send_signal(how)
        said, complained = self.process.communicate(timeout=_LONGEST)
        return self.process.returncode, said.decode(), complained.decode()


@contextmanager
def following(
    *arguments: str,
    folder: Path,
    settings: Mapping[str, str] = NOTHING,
    command: str = "mirror",
    program: Sequence[str] = COMMAND,
) -> Iterator[Service]:
    """A service, or another command that follows, which is killed at the end if nobody stopped it."""
    with running(command, "--follow", *arguments, folder=folder, settings=settings, program=program) as service:
        yield service


@contextmanager
def running(
    *arguments: str, folder: Path, settings: Mapping[str, str] = NOTHING, program: Sequence[str] = COMMAND
) -> Iterator[Service]:
    """A command that runs until it is stopped, and is killed at the end if nobody did that."""
    with subprocess.Popen(
        [*program, *arguments],
        cwd=folder,
        env=environment(settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,  # what a buffer had taken from the pipe, communicate() would not see
    ) as process:
        try:
            yield Service(process)
        finally:
            process.kill()


def _stream(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise ValueError("the process has no such stream")
    return stream
