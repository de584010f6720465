"""A disk that never answers: pipes stand for files of a dead mount; who opens one waits in a system call.

As a program: the command line with such a disk.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from unittest import mock

from deltamirror.cli import main
from deltamirror.storage import files

COMMAND = (sys.executable, __file__)


@contextmanager
def dead(*paths: Path) -> Iterator[None]:
    """Files that hang whoever reads them, until the end of the block."""
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    try:
        with _pipes_are_opened():
            yield
    finally:
        for path in paths:
            with suppress(OSError):  # nobody waits for it
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
            path.unlink()


@contextmanager
def _pipes_are_opened() -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(files, "require_openable"))
        stack.enter_context(mock.patch.object(files, "_without_following", os.open))
        yield


if __name__ == "__main__":
    with _pipes_are_opened():
        main()
