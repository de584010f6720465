"""A SQLite catalog whose clock a test moves."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import event

from deltamirror import Catalog

_JULIAN_EPOCH: Final = 2440587.5
_DAY: Final = 86_400.0


class VirtualClock:
    """The time that the database tells, in seconds since the epoch."""

    def __init__(self, now: float = 1_790_000_000.0) -> None:
        self.now = now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def install(self, connection: sqlite3.Connection, _: object = None) -> None:
        """Let a connection go by this clock."""
        connection.create_function("julianday", 1, lambda _: self.now / _DAY + _JULIAN_EPOCH)


@contextmanager
def clocked(url: str) -> Iterator[tuple[Catalog, VirtualClock]]:
    """The catalog in a SQLite file, by a clock of the test's own."""
    clock = VirtualClock()
    with Catalog(url) as catalog:
        event.listen(catalog.database.engine, "connect", clock.install)
        catalog.database.close()  # connections that are open go by the usual clock
        yield catalog, clock
