"""A helper process that answers requests: one JSON object a line, on standard input and output.

A program becomes a worker by calling :func:`serve`; a test talks to it through :class:`Worker`. What the program or its
libraries print goes to a log file, never between the answers.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

_ROOT = Path(__file__).parents[3]
_LOG_TAIL = 8_000


class RequestFailed(Exception):
    """The worker could not do what it was asked; the message is its own."""


class WorkerDied(Exception):
    """The worker ended, or never started; the message holds its log."""


class Worker:
    """A program in a process of its own that knows only what a request tells it."""

    def __init__(self, module: str, folder: Path, *, environment: Mapping[str, str] | None = None) -> None:
        self._log = folder / "worker.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": f"{_ROOT}/src:{_ROOT}", "TZ": "UTC", **(environment or {})},
                # Ctrl-C reaches the tests; the worker ends when its input does.
                start_new_session=True,
            )
        self.name: str = self._read()["name"]

    def ask(self, request: Mapping[str, object]) -> Any:
        """The answer to one request; raises RequestFailed with the worker's words."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._died() from None
        answer = self._read()
        if "error" in answer:
            raise RequestFailed(answer["error"])
        return answer["result"]

    def close(self) -> None:
        """End the worker."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._died()
        return json.loads(line)

    def _died(self) -> WorkerDied:
        self.close()
        status = self._process.returncode
        log = self._log.read_text(errors="replace")[-_LOG_TAIL:]
        return WorkerDied(f"the worker ended with status {status}. Its log:\n{log}")


def take_stdout() -> TextIO:
    """Keep standard output for the answers alone: whatever else prints, a JVM too, prints to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


def serve(out: TextIO, name: str, answer: Callable[[dict[str, Any]], object]) -> None:
    """Say one's name, then answer requests until the input ends; ``out`` comes from :func:`take_stdout`."""
    _write(out, {"name": name})
    for line in sys.stdin:
        _write(out, _answer(answer, json.loads(line)))


def _answer(answer: Callable[[dict[str, Any]], object], request: dict[str, Any]) -> dict[str, object]:
    try:
        return {"result": answer(request)}
    except Exception as error:  # noqa: BLE001  the test that asked is told, whatever it is
        return {"error": f"{type(error).__name__}: {error}"}


def _write(out: TextIO, message: object) -> None:
    out.write(json.dumps(message, default=str) + "\n")
    out.flush()
