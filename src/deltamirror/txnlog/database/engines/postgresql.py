"""PostgreSQL: many writers, row locks, COPY for bulk rows."""

import re
import threading
import typing
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, ClassVar

import psycopg
from sqlalchemy import (
    JSON,
    URL,
    BigInteger,
    Boolean,
    Connection,
    Integer,
    LargeBinary,
    Table,
    Text,
    bindparam,
    cast,
    create_engine,
    func,
    literal_column,
    select,
    text,
    true,
)
from sqlalchemy.pool import PoolProxiedConnection
from sqlalchemy.sql import ClauseElement, ColumnElement, Select

from deltamirror.config import CatalogSettings
from deltamirror.errors import (
    CapacityExceeded,
    CatalogMismatch,
    DeltaMirrorError,
    Internal,
    InvalidInput,
    InvalidSettings,
    PermissionDenied,
    Transient,
    Unavailable,
)
from deltamirror.steps import Step
from deltamirror.txnlog.database.access import CatalogLocks, Columns, Database, Row, Session, in_order, used_columns
from deltamirror.txnlog.database.appends.group_commit import GroupCommit
from deltamirror.txnlog.database.appends.in_postgresql import APPEND, document
from deltamirror.txnlog.database.appends.small_append import Answer, SmallAppend
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.engines.copying import binary_copy, encoded_rows, sent_columns
from deltamirror.txnlog.database.engines.notices import NOTIFY, Listeners, Sender
from deltamirror.txnlog.database.engines.sessions import Sessions
from deltamirror.txnlog.database.forks import AtFork, keep, watch
from deltamirror.txnlog.database.schema_version import STORED_SCHEMA, require_schema
from deltamirror.txnlog.database.statements import HEAD

# Threads of one process that may hold a connection beyond the pool's own.
_OVERFLOW = 30


class PostgresqlDatabase(Database, AtFork):
    """A catalog in a PostgreSQL database."""

    name: ClassVar[str] = "postgresql"
    takes_small_appends = True
    too_long = (psycopg.errors.ProgramLimitExceeded,)

    def __init__(self, url: URL, settings: CatalogSettings) -> None:
        _require_known_parameters(url)
        limits = {"lock_timeout": settings.busy_timeout, "statement_timeout": settings.transaction_timeout}
        self._idle_limit = int(settings.busy_timeout * 1000)
        driver = url.set(drivername="postgresql+psycopg")
        # Parameters of the URL go before our own.
        ours = {"connect_timeout": "10", "application_name": "deltamirror", **_PATIENCE}
        arguments = {name: value for name, value in ours.items() if name not in url.query}
        if given := url.normalized_query.get("options"):
            arguments["options"] = " ".join(given)
        # A connection that idled over a restart of the server is noticed before it is used.
        opening = {"creator": self._open_for_pool, "max_overflow": _OVERFLOW, "pool_pre_ping": True}
        super().__init__(create_engine(driver, **opening), settings)
        _, parameters = self.engine.dialect.create_connect_args(driver)
        milliseconds = {name: str(int(seconds * 1000)) for name, seconds in limits.items()}
        self._new_sessions = partial(Sessions, {**parameters, **arguments}, milliseconds)
        self._appends = GroupCommit(self._append_all)
        self._begin()
        watch(self)

    def _begin(self) -> None:
        self._sessions = self._new_sessions()
        # Connections for appends, always in autocommit: a pool's care for one costs as much as a small commit.
        self._idle: deque[psycopg.Connection[Any]] = deque()
        self._sender = Sender(self._notify)
        self._listeners = Listeners(lambda: self._sessions.open(autocommit=True), self._notify)

    def in_child(self) -> None:
        """Open sessions of its own: two processes on one would each get answers of the other."""
        self.forget()

    def forget(self) -> None:
        """Leave all connections to the process that this one was forked from. The next use opens others."""
        keep(self._idle, self._listeners)
        self._begin()
        super().forget()

    def close(self) -> None:
        """Give back all connections. The next use opens others."""
        super().close()
        self._close_idle()
        self._listeners.close()

    def announce(self) -> bool:
        """Notify, outside of any transaction that does other work: PostgreSQL commits those that notify one by one."""
        return self._sender.send()

    def wait_for_commits(self, seconds: float, stop: threading.Event) -> None:
        """Listen."""
        self._listeners.wait(seconds, stop)

    def _notify(self) -> None:
        connection = self._connection()
        try:
            connection.execute(NOTIFY)
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)

    def snapshot_options(self) -> dict[str, Any]:
        """Read one state for the whole transaction."""
        return {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}

    @contextmanager
    def attempt(self, connection: Connection) -> Iterator[None]:
        """By a savepoint: a statement that fails is the end of a transaction."""
        cursor = connection.connection.cursor()
        cursor.execute(_SAVEPOINT)
        try:
            yield
        except psycopg.Error:
            cursor.execute(f"ROLLBACK TO {_SAVEPOINT}")
            raise

    def lock_head(self, session: Session, table_id: int) -> list[Row]:
        """Lock the row first; a clock in the same statement would be read before the wait.

        A process that stands still with the lock, since it is suspended or cut off, loses it.
        """
        heads = session.rows(_LOCKED_HEAD, {"table_id": table_id})
        [[clock, schema, _]] = session.rows(_TIME_AND_LIMIT, {"idle_limit": str(self._idle_limit)})
        require_schema(schema)
        return [(*head, clock) for head in heads]

    def append(self, append: SmallAppend) -> Answer:
        """In groups by table: writers of other tables go on, whatever holds the head of this one."""
        return self._appends.append(append.table_id, append)

    def _append_all(self, appends: Sequence[SmallAppend]) -> list[Answer]:
        """Call the function ``dl_append`` for each; the one statement is a transaction of its own."""
        statement, _ = self.compiled(APPEND)
        values = {"appends": document(appends)}
        connection = self._connection()
        try:
            with Step.APPEND:
                rows = self.commit_by(lambda: connection.execute(statement, values).fetchall())
        except BaseException:
            connection.close()
            self._close_idle()  # whatever broke this one may have broken the others
            raise
        self._idle.append(connection)
        if not rows:
            raise self._other_schema()
        done = {commit_id: (version, time) for commit_id, outcome, version, time in rows if outcome == "committed"}
        return [done.get(append.commit_id) for append in appends]

    def _other_schema(self) -> DeltaMirrorError:
        """Why ``dl_append`` was not called: the catalog is of another release's schema, or was a moment ago."""
        [[stored]] = self.glance(_SCHEMA, {})
        require_schema(stored)
        return Transient("the catalog's schema is being changed", hint="try again")

    def glance(self, statement: ClauseElement, values: Mapping[str, Any]) -> list[Row]:
        """One round trip, on a connection in autocommit; on another one where the first broke while it idled."""
        text, _ = self.compiled(statement)
        try:
            idle = self._idle.pop()
        except IndexError:
            return self._look_on(self._open(), text, values)
        try:
            return self._look_on(idle, text, values)
        except Unavailable as error:
            if not self.is_lost_reply(error):
                raise
        return self._look_on(self._open(), text, values)

    def _look_on(self, connection: "psycopg.Connection[Any]", text: str, values: Mapping[str, Any]) -> list[Row]:
        try:
            with self.translated():
                found: list[Row] = connection.execute(text, values).fetchall()
        except BaseException:
            connection.close()
            self._close_idle()
            raise
        self._idle.append(connection)
        return found

    def _connection(self) -> "psycopg.Connection[Any]":
        try:
            return self._idle.pop()
        except IndexError:
            return self._open()

    def _open(self) -> "psycopg.Connection[Any]":
        with self.translated():
            return self._sessions.open(autocommit=True)

    def _open_for_pool(self) -> "psycopg.Connection[Any]":
        """One that idles, if it still answers: to open another takes longer than a small query."""
        with suppress(IndexError, psycopg.Error):
            idle = self._idle.pop()
            try:
                idle.execute(_PING)
                idle.autocommit = False
            except BaseException:
                idle.close()
                raise
            return idle
        return self._sessions.open(autocommit=False)

    def _close_idle(self) -> None:
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().close()

    def locking(self, query: Select[Any]) -> Select[Any]:
        """The query that locks its rows, in its order."""
        return query.with_for_update()

    def lock_statements(self) -> CatalogLocks:
        """Readers and commits go on. Before the first migration there is no table that could be locked."""
        return CatalogLocks(
            migrations=text("SELECT pg_advisory_xact_lock(hashtext('deltamirror migrations'))"),
            tables=text("LOCK TABLE dl_tables IN SHARE ROW EXCLUSIVE MODE"),
            # One claims after the other, so that each sees what is left. One that is cut off meanwhile stops no other.
            claims=text(
                "SELECT set_config('idle_in_transaction_session_timeout', '10000', true),"
                " pg_advisory_xact_lock(hashtext('deltamirror claims'))"
            ),
        )

    def json_member(self, column: ColumnElement[str], name: str) -> ColumnElement[str]:
        """As JSON, which PostgreSQL reads only if no text in it holds a NUL: something else stands in for it."""
        readable = func.replace(column, "\\u0000", "\\uFFFD")
        return func.json_extract_path_text(cast(readable, JSON), name)

    def insert_many(self, driver: PoolProxiedConnection, table: Table, rows: Sequence[Row]) -> None:
        """Insert by binary COPY."""
        server = typing.cast("psycopg.Connection[Any]", driver.driver_connection)
        names = used_columns(table, rows)
        with server.cursor().copy(f"COPY {table.name} ({', '.join(names)}) FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types([_copy_type(table.c[name].type) for name in names])
            for row in rows:
                copy.write_row(row[: len(names)])

    def insert_columns(self, driver: PoolProxiedConnection, table: Table, columns: Columns, *, by: str) -> None:
        """Insert by binary COPY of bytes that are made a column at a time."""
        server = typing.cast("psycopg.Connection[Any]", driver.driver_connection)
        types = {name: _copy_type(table.c[name].type) for name in columns}
        names = ", ".join(sent_columns(types, columns))
        rows = in_order(encoded_rows(types, columns, encoding=server.info.encoding), columns[by])
        with server.cursor().copy(f"COPY {table.name} ({names}) FROM STDIN (FORMAT BINARY)") as copy:
            for data in binary_copy(rows):
                copy.write(data)

    def driver_errors(self) -> tuple[type[Exception], ...]:
        """The exceptions of psycopg."""
        return (psycopg.Error,)

    def is_lost_reply(self, error: DeltaMirrorError) -> bool:
        """A connection that broke says nothing about the commit; an error that the server reports does."""
        cause = error.__cause__ or error.__context__
        state = getattr(getattr(cause, "orig", cause), "sqlstate", None) or ""
        return isinstance(error, Unavailable) and state[:3] in _CONNECTION_LOST

    def translate(self, error: BaseException) -> DeltaMirrorError:
        """Decide by SQLSTATE, longest known prefix first."""
        state, broken = getattr(error, "sqlstate", None) or "", error.__context__
        if isinstance(error, psycopg.ProgrammingError) and not state and isinstance(broken, psycopg.OperationalError):
            # SQLAlchemy touches a connection once more after it broke while it was tried.
            return self.translate(broken)
        described = f"PostgreSQL: {_first_line(error)}"
        for length in (5, 2):
            if found := _BY_SQLSTATE.get(state[:length]):
                cls, hint = found
                return cls(described, hint=hint)
        for pattern, state in _REFUSED.items():
            if re.search(pattern, described):
                cls, hint = _BY_SQLSTATE[state]
                return cls(described, hint=hint)
        if isinstance(error, psycopg.DataError):
            return InvalidInput(described, hint=_BY_SQLSTATE["22"][1])
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return Unavailable(described, hint="check that the server runs and that the catalog URL is right")
        return Internal(described)


# A connection that the server refuses comes without SQLSTATE.
_REFUSED = {
    r"authentication failed|no password supplied|no pg_hba.conf entry|role \".*\" does not exist": "28",
    r"database \".*\" does not exist": "3D000",
    r"unsupported startup parameter": "pooler",
    r"too many clients already|too many connections|remaining connection slots are reserved": "53300",
    r"the database system is (starting up|shutting down|in recovery mode|not accepting connections)": "57",
}
_CONNECTION_LOST = ("", "080", "57P")
_PING = "SELECT 1"
_SAVEPOINT = "SAVEPOINT deltamirror_attempt"
_LOCKED_HEAD = HEAD.with_for_update()
_SCHEMA = select(STORED_SCHEMA)
_IDLE_LIMIT: ColumnElement[str] = literal_column("'idle_in_transaction_session_timeout'")
_SET_LIMIT = func.set_config(_IDLE_LIMIT, bindparam("idle_limit", type_=Text), true())
_TIME_AND_LIMIT = select(CLOCK, STORED_SCHEMA, _SET_LIMIT)
# A server that says nothing any more is given up, as one that closed the connection.
_PATIENCE = {"keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3", "tcp_user_timeout": "60000"}

_BY_SQLSTATE: dict[str, tuple[type[DeltaMirrorError], str]] = {
    "08": (Unavailable, "the connection to the server broke; try again"),
    "22": (InvalidInput, "PostgreSQL cannot store this: its text holds no NUL, for one"),
    "23": (Transient, "try again"),
    "25006": (Unavailable, "the server is a standby: connect to the primary (?target_session_attrs=read-write)"),
    "28": (PermissionDenied, "check user and password of the catalog URL"),
    "3D000": (CatalogMismatch, "the database does not exist: create it, or check the catalog URL"),
    "40": (Transient, "try again"),
    "42501": (PermissionDenied, "grant the user the rights to the dl_ tables"),
    "42P01": (CatalogMismatch, "run `deltamirror init`"),
    "42883": (CatalogMismatch, "run `deltamirror init`"),
    "53300": (Unavailable, "the server has no connection left: try again, or raise its max_connections"),
    "53": (CapacityExceeded, "free some space; nothing of this transaction was kept"),
    "54": (CapacityExceeded, "a token, or the name of an application or domain, is longer than PostgreSQL can index"),
    "55P03": (Unavailable, "another writer holds the table; try again or raise catalog.busy_timeout"),
    "25P03": (Unavailable, "this process stood still with a table locked, and others went on; try again"),
    "57014": (Unavailable, "the statement took longer than catalog.transaction_timeout"),
    "57": (Unavailable, "the server is going down or starting; try again"),
    "pooler": (CatalogMismatch, "the pooler takes no such parameter: connect to PostgreSQL, or use ALTER ROLE … SET"),
    "58": (Unavailable, "the server has trouble with its disk"),
}


def _require_known_parameters(url: URL) -> None:
    """Refuse a parameter that libpq does not know, by its number: its name may be the end of a password."""
    known = {option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()}
    for number, name in enumerate(url.query, start=1):
        if name not in known:
            raise InvalidSettings(
                f"the catalog is in PostgreSQL, and parameter {number} of its address is none of PostgreSQL's; "
                "a `&` within a value is written %26",
                hint="see the connection parameters of libpq, as `sslmode` or `application_name`",
                key="catalog.url",
            )


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


def _copy_type(kind: object) -> str:
    if isinstance(kind, BigInteger):
        return "int8"
    if isinstance(kind, Integer):
        return "int4"
    if isinstance(kind, Boolean):
        return "bool"
    return "bytea" if isinstance(kind, LargeBinary) else "text"
