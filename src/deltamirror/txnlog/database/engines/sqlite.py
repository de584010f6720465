"""SQLite: one writer at a time, in any process; write-ahead log, synced at every commit."""

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar

from sqlalchemy import URL, Connection, Table, create_engine, event, func, select
from sqlalchemy.pool import PoolProxiedConnection, StaticPool
from sqlalchemy.sql import ColumnElement
from sqlalchemy.sql.elements import ClauseElement

from deltamirror.config import CatalogSettings
from deltamirror.errors import (
    CapacityExceeded,
    CatalogMismatch,
    DeltaMirrorError,
    Internal,
    PermissionDenied,
    Transient,
    Unavailable,
)
from deltamirror.steps import Step
from deltamirror.txnlog.database.access import (
    Columns,
    Database,
    Row,
    Session,
    file_identity,
    in_order,
    replaced,
    used_columns,
)
from deltamirror.txnlog.database.appends.group_commit import GroupCommit
from deltamirror.txnlog.database.appends.in_sqlite import append_small
from deltamirror.txnlog.database.appends.small_append import Answer, SmallAppend
from deltamirror.txnlog.database.engines.file_uses import FileUses
from deltamirror.txnlog.database.engines.queue import FileQueue
from deltamirror.txnlog.database.forks import keep

# Rows in one INSERT: as many as are left, in few different statements, since a connection remembers those. Each hands
# the interpreter over, and has to wait until another thread gives it back. SQLite takes 32,766 values in a statement.
_ROWS_TOGETHER = (1_000, 100, 1)


class SqliteDatabase(Database):
    """A catalog in a SQLite file."""

    name: ClassVar[str] = "sqlite"
    too_long = (sqlite3.DataError,)

    def __init__(self, url: URL, settings: CatalogSettings) -> None:
        self.path = url.database or ""
        self._is_memory = self.path == ":memory:"
        # One connection for all threads: each would have a database of its own.
        shared = {"poolclass": StaticPool} if self._is_memory else {}
        # A connection is used by one thread at a time, but not always by the same: stages are written by their own.
        arguments = {"timeout": settings.busy_timeout, "check_same_thread": False}
        super().__init__(create_engine(url, connect_args=arguments, **shared), settings)
        self.file = None if self._is_memory else Path(self.path)
        self._log = Path(f"{self.path}-wal")
        self._queue = FileQueue(self.path, timeout=settings.busy_timeout)
        self._turn = threading.Lock()
        # In memory, all threads share a connection, and the lock that keeps them apart.
        self.takes_small_appends = not self._is_memory
        self._appends = GroupCommit(self._append_all)
        # One writes at a time: a pool's care for its connection would cost a tenth of a small commit.
        self._idle: list[PoolProxiedConnection] = []
        self._uses = FileUses(self)
        event.listen(self.engine, "do_connect", lambda *_: self._uses.open())
        event.listen(self.engine, "connect", _configure)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Queue for the file: SQLite itself lets waiting writers starve."""
        with self._turn if self._is_memory else self._queue.turn():
            yield

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """In memory, threads share one connection and so its transaction: they take turns at reading, too.

        Begun on the driver's connection, for the same reason as those that write.
        """
        with self._turn if self._is_memory else self._uses:
            self.require_present()
            with self.translated(), closing(self.engine.raw_connection()) as driver:
                driver.cursor().execute("BEGIN")
                try:
                    yield Connection(self.engine, driver)
                finally:
                    driver.rollback()

    def glance(self, statement: ClauseElement, values: Mapping[str, Any]) -> list[Row]:
        """In memory, as soon as no thread is in the transaction of the connection that they share."""
        with self._turn if self._is_memory else self._uses:
            return super().glance(statement, values)

    @contextmanager
    def begun(self, step: Step) -> Iterator[Session]:
        """Begin on the driver's connection: SQLAlchemy's own way takes a good part of a small commit."""
        with self._uses:
            driver = self._idle.pop() if self._idle else self.engine.raw_connection()
            try:
                driver.cursor().execute("BEGIN IMMEDIATE")
                self._require_same_log(driver)
                yield Session(self, driver, None)
                with step:
                    self.commit_by(driver.commit)
                self._require_same_log(driver)
            except BaseException:
                driver.close()  # which rolls back
                raise
            self._idle.append(driver)

    def close(self) -> None:
        """Give back all connections. The next use opens others."""
        while self._idle:
            self._idle.pop().close()
        super().close()

    def forget(self) -> None:
        """Leave all connections to the process that this one was forked from. The next use opens others."""
        keep(self._idle)
        self._idle = []
        super().forget()

    def append(self, append: SmallAppend) -> Answer:
        """All appends that wait go together: SQLite has one writer at a time, whichever tables it writes."""
        return self._appends.append(0, append)

    def _append_all(self, appends: Sequence[SmallAppend]) -> list[Answer]:
        with self.write(Step.APPEND) as session:
            return [append_small(session, each) for each in appends]

    def _require_same_log(self, driver: PoolProxiedConnection) -> None:
        """Refuse a write-ahead log that is not the one which the connection has open: others would not see its content.

        As long as a connection is open, SQLite does not remove the file.
        """
        if not self._is_memory:
            identity = file_identity(self._log)
            if driver.info.setdefault("log", identity) != identity:
                raise replaced(self._log)

    def json_member(self, column: ColumnElement[str], name: str) -> ColumnElement[str]:
        """By ``json_extract``; names that cannot be quoted inside of its path are looked up."""
        if '"' in name or "\\" in name:
            members = func.json_each(column).table_valued("key", "value")
            return select(members.c.value).where(members.c.key == name).scalar_subquery()
        return func.json_extract(column, f'$."{name}"')

    def insert_many(self, driver: PoolProxiedConnection, table: Table, rows: Sequence[Row]) -> None:
        """Insert a few rows one by one, many with one statement: each hands the interpreter over to other threads."""
        if len(rows) < _ROWS_TOGETHER[-2]:
            marks = ", ".join("?" * len(table.columns))
            driver.cursor().executemany(f"INSERT INTO {table.name} VALUES ({marks})", rows)  # noqa: S608 - our own name
            return
        names = used_columns(table, rows)
        _insert(driver, table, names, (row[: len(names)] for row in rows), number=len(rows))

    def insert_columns(self, driver: PoolProxiedConnection, table: Table, columns: Columns, *, by: str) -> None:
        """The same."""
        rows = in_order(list(zip(*columns.values(), strict=True)), columns[by])
        _insert(driver, table, list(columns), iter(rows), number=len(rows))

    def driver_errors(self) -> tuple[type[Exception], ...]:
        """The exceptions of the sqlite3 module."""
        return (sqlite3.Error,)

    def translate(self, error: BaseException) -> DeltaMirrorError:
        """Decide by SQLite's result code."""
        name = str(getattr(error, "sqlite_errorname", ""))
        text = f"SQLite database {self.path}: {error}"
        for prefix, (cls, hint) in _BY_RESULT_CODE.items():
            if name.startswith(prefix):
                return cls(text, hint=hint)
        if "no such table" in str(error):
            return CatalogMismatch(f"{self.path} holds no deltamirror catalog", hint="run `deltamirror init`")
        return Internal(text)


def _insert(
    driver: PoolProxiedConnection, table: Table, names: Sequence[str], rows: Iterator[Row], *, number: int
) -> None:
    cursor, row_of_marks = driver.cursor(), "(" + ", ".join("?" * len(names)) + ")"
    for together in _ROWS_TOGETHER:
        marks = ", ".join([row_of_marks] * together)
        insert = f"INSERT INTO {table.name} ({', '.join(names)}) VALUES {marks}"  # noqa: S608 - our own names
        for _ in range(number // together):
            cursor.execute(insert, list(chain.from_iterable(islice(rows, together))))
        number %= together


_BY_RESULT_CODE: dict[str, tuple[type[DeltaMirrorError], str]] = {
    "SQLITE_BUSY": (Unavailable, "another process holds the database; try again or raise catalog.busy_timeout"),
    "SQLITE_LOCKED": (Unavailable, "another connection holds the table; try again"),
    "SQLITE_READONLY": (PermissionDenied, "the catalog's file and folder must be writable"),
    "SQLITE_PERM": (PermissionDenied, "the catalog's file and folder must be writable"),
    "SQLITE_AUTH": (PermissionDenied, "the catalog's file and folder must be writable"),
    "SQLITE_FULL": (CapacityExceeded, "free some space; nothing of this transaction was kept"),
    "SQLITE_IOERR": (Unavailable, "check the disk: is it full, or failing? Nothing of this transaction was kept"),
    "SQLITE_CANTOPEN": (Unavailable, "check that the folder exists and can be read"),
    "SQLITE_NOTADB": (CatalogMismatch, "the file is no SQLite database: check the catalog URL"),
    "SQLITE_CORRUPT": (CatalogMismatch, "the file is damaged: restore it from a backup"),
    "SQLITE_CONSTRAINT": (Transient, "try again"),
}


def _configure(connection: sqlite3.Connection, _: Any) -> None:
    connection.isolation_level = None
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
