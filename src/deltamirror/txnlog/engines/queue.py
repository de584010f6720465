"""A line in front of a database file, for engines that let waiting writers starve, or fail.

One lock on a file beside it serves all processes, and all that opened the database in one process.
"""

import errno
import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from deltamirror.errors import PermissionDenied, Unavailable

__all__ = ["FileQueue"]


class FileQueue:
    """Writers of one database file, one at a time, in the order in which they came."""

    def __init__(self, database: str, *, timeout: float) -> None:
        self._database = database
        self._timeout = timeout

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for one's turn, and keep it."""
        descriptor = self._open()
        try:
            self._acquire(descriptor)
            yield
        finally:
            # Closing is not enough: a process that was forked meanwhile has the file open, too.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def _open(self) -> int:
        try:
            return os.open(f"{self._database}-queue", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except PermissionError as error:
            raise PermissionDenied(
                f"cannot write to the folder of the database {self._database}",
                hint="the catalog's folder must be writable",
            ) from error
        except OSError as error:
            kind = PermissionDenied if error.errno == errno.EROFS else Unavailable
            raise kind(f"cannot open the database {self._database}: {error.strerror}", hint="check the path") from error

    def _acquire(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._wait(descriptor)

    def _wait(self, descriptor: int) -> None:
        # A blocking flock queues fairly but knows no time limit: wait for it in a thread that we can leave behind.
        own = os.dup(descriptor)

        def wait() -> None:
            try:
                fcntl.flock(own, fcntl.LOCK_EX)
            finally:
                os.close(own)

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        thread.join(self._timeout)
        if thread.is_alive():
            raise Unavailable(
                f"the database {self._database}: somebody else has been writing for {self._timeout:g} s",
                hint="find the process that holds the database, or raise catalog.busy_timeout",
            )
