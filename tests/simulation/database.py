"""The database of a schedule: SQLite in memory, by the schedule's clock, in which every transaction is a step."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeVar

from sqlalchemy import Connection, event, make_url
from sqlalchemy.sql import ClauseElement

from deltamirror.config import CatalogSettings
from deltamirror.errors import CommitUnknown
from deltamirror.steps import Step
from deltamirror.txnlog.database.access import Row, Session
from deltamirror.txnlog.database.engines.sqlite import SqliteDatabase
from tests.simulation.threads import ScheduledLock

T = TypeVar("T")

_URL: Final = "sqlite:///:memory:"
_JULIAN_EPOCH: Final = 2440587.5
_DAY: Final = 86_400.0


class Surroundings(Protocol):
    """What happens around a database."""

    def wall(self) -> float:
        """The time of day."""

    def ask_database(self, what: str) -> None:
        """Before each transaction: a step, and perhaps an error."""

    def loses_reply_of_commit(self) -> bool:
        """Whether nobody hears of what was committed."""

    def committed(self) -> None:
        """After each transaction that may have changed something."""


class ScheduledDatabase(SqliteDatabase):
    """One connection to one database in memory, for all processes of a schedule."""

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(make_url(_URL), CatalogSettings(url=_URL))
        self._surroundings = surroundings
        event.listen(self.engine, "connect", self._set_clock)

    @property
    def driver(self) -> sqlite3.Connection:
        """The connection, for whoever looks on."""
        borrowed: Any = self.engine.raw_connection()
        found: sqlite3.Connection = borrowed.driver_connection
        borrowed.close()
        return found

    def begin(self, contents: sqlite3.Connection, turn: ScheduledLock) -> None:
        """Begin anew, with other contents."""
        self._turn: Any = turn
        contents.backup(self.driver)

    @contextmanager
    def write(self, step: Step = Step.WHOLE_OPERATION, *, creating: bool = False) -> Iterator[Session]:
        """A step."""
        self._surroundings.ask_database("write")
        try:
            with super().write(step, creating=creating) as session:
                yield session
        finally:
            self._surroundings.committed()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A step."""
        self._surroundings.ask_database("read")
        with super().read() as connection:
            yield connection

    def glance(self, statement: ClauseElement, values: Mapping[str, Any]) -> list[Row]:
        """A step."""
        self._surroundings.ask_database("glance")
        return super().glance(statement, values)

    def commit_by(self, commit: Callable[[], T]) -> T:
        """As a server in another place does: its reply may be lost."""
        done = super().commit_by(commit)
        if self._surroundings.loses_reply_of_commit():
            raise CommitUnknown("the reply of COMMIT was lost")
        return done

    def close(self) -> None:
        """It stays open: its contents would be gone, and other processes have it, too."""

    def _set_clock(self, connection: sqlite3.Connection, _: object) -> None:
        connection.create_function("julianday", 1, lambda _: self._surroundings.wall() / _DAY + _JULIAN_EPOCH)
