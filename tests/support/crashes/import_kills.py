"""``deltamirror import`` in processes that kill themselves (kill -9) before a chosen step: a worker that forks them.

The worker has imported everything and never touches a database itself, so that a fork of it is quick and safe.
"""

import os
import signal
from pathlib import Path
from typing import Any

from deltamirror.cli import cli
from deltamirror.deltalog import checkpoint_pieces
from deltamirror.pipeline.run import slices
from deltamirror.steps import Moment, Observer, Step, observed
from tests.support.crashes.forking import import_everything
from tests.support.crashes.fuses import Fuse, arm_database
from tests.support.suite.worker import serve, take_stdout

ROWS = 3
"""Of a piece of a checkpoint, and of a transaction: so that a small table takes many."""


def _type(request: dict[str, Any]) -> None:
    """Do what the command does, with the steps counted; what it says goes to a file."""
    said = os.open(request["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1)
    os.dup2(said, 2)
    os.environ["DELTAMIRROR_CATALOG__URL"] = request["url"]
    arm_database(Fuse(request["kill_before"]), commits_only=request["commits_only"])
    try:
        with observed(_noting(request["passed"])):
            cli.main(["import", request["location"], "--name", "t", "--runner", "local"], prog_name="deltamirror")
    except SystemExit as end:
        os._exit(int(end.code or 0))


def _noting(file: str) -> Observer:
    """Write down every point that is passed, so that it is known after a death."""
    passed = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

    def note(moment: Moment, step: Step) -> None:
        os.write(passed, f"{moment} {step}\n".encode())

    return note


def answer(request: dict[str, Any]) -> dict[str, object]:
    """Fork; the child imports, and may die of it."""
    child = os.fork()
    if child == 0:
        try:
            _type(request)
        finally:
            os._exit(70)
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    said, passed = (Path(request[name]).read_text() for name in ("said", "passed"))
    exits = None if killed else os.waitstatus_to_exitcode(status)
    return {"killed": killed, "exits": exits, "said": said, "passed": passed.splitlines()}


if __name__ == "__main__":
    checkpoint_pieces._MOST_ROWS = slices._MOST_ROWS = ROWS  # type: ignore[misc]
    import_everything()
    serve(take_stdout(), "importing processes", answer)
