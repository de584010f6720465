"""The threads that use the file of a database: it is closed only where there are none, and before each fork.

A child must not inherit an open file: the locks on it stay with the parent, but SQLite and DuckDB take them for the
child's own, even for a connection that the child opens. Its commits would be lost, or wait for a thread that is not
there.
"""

import threading
from typing import Final

from deltamirror.errors import CatalogMismatch
from deltamirror.txnlog.database.access import Database, file_identity
from deltamirror.txnlog.database.forks import BeforeFork, watch

_OF_PARENTS: Final[set[tuple[int, int] | None]] = set()
"""Files that were open when this process, or one that it descends from, was forked."""


class FileUses(BeforeFork):
    """The uses of a database's file, a ``with`` block each. A database in memory is never closed: it would be lost."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._begin()
        if database.file is not None:
            watch(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._number = self._opened = 0
        self._opened_before_fork = -1

    def __enter__(self) -> None:
        with self._lock:
            self._number += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._number -= 1

    def open(self) -> None:
        """Say that a connection is about to be opened. Refuses a file that is the parent's."""
        file = self._database.file
        if _OF_PARENTS and file is not None and file_identity(file) in _OF_PARENTS:
            raise CatalogMismatch(
                f"this process was forked while a thread of its parent used the database {file}, and cannot open it",
                hint="fork while no thread uses the catalog, start processes by spawn, or use PostgreSQL",
            )
        with self._lock:
            self._opened += 1

    def close(self) -> bool:
        """Close the file, unless it is in use; whether that was done."""
        with self._lock:
            if self._database.file is None or self._number:
                return False
            self._database.close()
            return True

    def before_fork(self) -> None:
        """Close the file, if possible. Another thread may open it again before the fork."""
        opened = self._opened
        if self.close():
            self._opened_before_fork = opened

    def in_child(self) -> None:
        """Remember a file that was open: it is the parent's for good."""
        if self._opened != self._opened_before_fork and self._database.file is not None:
            _OF_PARENTS.add(file_identity(self._database.file))
        self._begin()
        self._database.forget()
