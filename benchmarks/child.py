"""Measurements run in processes of their own, so that none inherits memory, caches or connections of another."""

import importlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

T = TypeVar("T")

_ROOT = Path(__file__).parent.parent


class ChildFailed(Exception):
    """A measurement ended with an error; the message holds what it printed."""


def call(function: Callable[..., Any], **arguments: Any) -> Any:
    """The result of a module's function, called in a fresh process; arguments and result are JSON."""
    name = f"{function.__module__}:{function.__qualname__}"
    command = [sys.executable, "-m", "benchmarks.child", name]
    paths = [str(_ROOT), str(_ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        command,
        input=json.dumps(arguments),
        capture_output=True,
        text=True,
        check=False,
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    if done.returncode != 0:
        raise ChildFailed(f"{name} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def seconds_of(work: Callable[[T], object], subject: T) -> float:
    """How long some work on a subject takes."""
    begin = time.perf_counter()
    work(subject)
    return time.perf_counter() - begin


def memory_now() -> float:
    """MiB that this process holds; the peak is counted from here on."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def memory_peak() -> float:
    """MiB that this process held at most. (``getrusage`` would count what its parent held when it was forked.)"""
    return _status("VmHWM")


class OwnMemory:
    """What this process holds of its own at most within a block, in MiB. Pages of mapped files are the system's."""

    peak = 0.0

    def __enter__(self) -> Self:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.01):
            self.peak = max(self.peak, _status("RssAnon"))


def _status(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


def _main() -> None:
    module, _, name = sys.argv[1].partition(":")
    function = getattr(importlib.import_module(module), name)
    print(json.dumps(function(**json.load(sys.stdin))), flush=True)
    os._exit(0)  # some libraries abort when the interpreter ends


if __name__ == "__main__":
    _main()
