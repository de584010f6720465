"""A line in front of a database file, for engines that let waiting writers starve, or fail.

One lock on a file beside it serves all processes, and all that opened the database in one process.
"""

import errno
import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from deltamirror.errors import PermissionDenied, Unavailable

# A lock on a file lives as long as any process has the file open that took it, so a forked child closes its copies.
_OPEN_HERE: set[int] = set()


def _close_in_child() -> None:
    while _OPEN_HERE:
        with suppress(OSError):
            os.close(_OPEN_HERE.pop())


os.register_at_fork(after_in_child=_close_in_child)


class FileQueue:
    """Writers of one database file, one at a time, in the order in which they came."""

    def __init__(self, database: str, *, timeout: float) -> None:
        self._database = database
        self._timeout = timeout

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for one's turn, and keep it."""
        descriptor, process = self._open(), os.getpid()
        try:
            self._acquire(descriptor)
            yield
        finally:
            if os.getpid() == process:  # in a child that was forked inside of a turn, the turn is its parent's
                # Closing is not enough: a process that was forked meanwhile may have the file open, too.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
                _close(descriptor)

    def _open(self) -> int:
        try:
            descriptor = os.open(f"{self._database}-queue", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except PermissionError as error:
            raise PermissionDenied(
                f"cannot write to the folder of the database {self._database}",
                hint="the catalog's folder must be writable",
            ) from error
        except OSError as error:
            kind = PermissionDenied if error.errno == errno.EROFS else Unavailable
            raise kind(f"cannot open the database {self._database}: {error.strerror}", hint="check the path") from error
        _OPEN_HERE.add(descriptor)
        return descriptor

    def _acquire(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not _Waiter(descriptor).wait(self._timeout):
                raise Unavailable(
                    f"the database {self._database}: another process has been writing for {self._timeout:g} s",
                    hint="find the process that holds the database, or raise catalog.busy_timeout",
                ) from None


class _Waiter:
    """Waits for a lock with a time limit, which a blocking ``flock`` (it alone queues fairly) does not know.

    A thread waits. Left behind when the time is over, it gives the lock back as soon as it gets it.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = os.dup(descriptor)
        _OPEN_HERE.add(self._descriptor)
        self._deciding = threading.Lock()
        self._has_lock = self._is_left = False

    def wait(self, seconds: float) -> bool:
        """Whether the lock was got within the time."""
        thread = threading.Thread(target=self._wait, daemon=True)
        thread.start()
        thread.join(seconds)
        with self._deciding:
            self._is_left = not self._has_lock
        return self._has_lock

    def _wait(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            with self._deciding:
                self._has_lock = not self._is_left
                if self._is_left:
                    # Closing is not enough where a child that was forked meanwhile has the file open.
                    fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        finally:
            _close(self._descriptor)


def _close(descriptor: int) -> None:
    _OPEN_HERE.discard(descriptor)
    os.close(descriptor)
