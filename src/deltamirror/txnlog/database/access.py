"""The boundary to the database: transactions, raw statements, bulk rows, errors.

``Database`` is what the three engines share; each engine overrides the little that differs. The
commit path runs statements that were compiled once, on the driver's own cursor; everything else
goes through SQLAlchemy. Both are the same connection and the same transaction.
"""

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, TypeVar, cast

from sqlalchemy import Connection, Engine, Executable, Result, Table, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolExhausted
from sqlalchemy.pool import PoolProxiedConnection
from sqlalchemy.sql import ClauseElement, ColumnElement, Select

from deltamirror.config import CatalogSettings, scrub, secret_pieces
from deltamirror.errors import CatalogMismatch, CommitUnknown, DeltaMirrorError, InvalidInput, Unavailable
from deltamirror.steps import Step
from deltamirror.txnlog.database.appends.small_append import Answer, SmallAppend
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.forks import keep
from deltamirror.txnlog.database.schema_version import STORED_SCHEMA, require_schema
from deltamirror.txnlog.database.statements import HEAD

if TYPE_CHECKING:
    import pyarrow as pa

Row: TypeAlias = tuple[Any, ...]
Columns: TypeAlias = Mapping[str, Sequence[Any]]
"""Values for columns of a table, by their names, as many for each; a column that is not named is null."""
T = TypeVar("T")

_ROWS_AT_ONCE = 20_000
_STORED = select(STORED_SCHEMA)
_HEAD_AND_CLOCK = HEAD.add_columns(CLOCK, STORED_SCHEMA)
_compiled: Final[dict[tuple[str, ClauseElement], tuple[str, list[str] | None]]] = {}
"""The statements of modules, by the name of an engine; all databases of a kind share them."""


@dataclass(frozen=True, slots=True)
class CatalogLocks:
    """Statements that take locks until the transaction ends; ``None`` where none is needed."""

    migrations: Executable | None = None
    tables: Executable | None = None
    claims: Executable | None = None


class Session:
    """One transaction on one connection."""

    def __init__(self, database: "Database", driver: PoolProxiedConnection, connection: Connection | None) -> None:
        self._database = database
        self.driver = driver
        self._connection = connection
        self._cursor = driver.cursor()

    @property
    def connection(self) -> Connection:
        """The connection as SQLAlchemy sees it; made on demand, since the commit path needs none."""
        if self._connection is None:
            self._connection = Connection(self._database.engine, self.driver)
        return self._connection

    def execute(self, statement: Executable, values: Any = None) -> Result[Any]:
        """Run a statement through SQLAlchemy."""
        return self.connection.execute(statement, values)

    def locking(self, query: Select[Any]) -> Select[Any]:
        """The query that also keeps others from changing the rows that it finds, until the transaction ends."""
        return self._database.locking(query)

    def run(self, statement: ClauseElement, values: Mapping[str, Any]) -> None:
        """Run a statement on the driver's cursor, without SQLAlchemy's share of the cost."""
        self._cursor.execute(*self._database.with_values(statement, values))

    def rows(self, statement: ClauseElement, values: Mapping[str, Any]) -> list[Row]:
        """Run a statement on the driver's cursor and fetch what it returns."""
        self.run(statement, values)
        return list(self._cursor.fetchall())

    def lock_migrations(self) -> None:
        """Keep others from changing the schema until the transaction ends."""
        self._lock(self._database.lock_statements().migrations)

    def lock_tables(self) -> None:
        """Keep others from creating or dropping tables until the transaction ends."""
        self._lock(self._database.lock_statements().tables)
        self._require_schema()

    def lock_claims(self) -> None:
        """Keep others from claiming leases until the transaction ends."""
        self._lock(self._database.lock_statements().claims)
        self._require_schema()

    def _lock(self, statement: Executable | None) -> None:
        if statement is not None:
            self.execute(statement)

    def _require_schema(self) -> None:
        require_schema(self.execute(_STORED).scalar())

    def insert_many(self, table: Table, rows: Sequence[Row]) -> None:
        """Insert complete rows (a value for each column, in order) by the engine's fast road."""
        if rows:
            self._database.insert_many(self.driver, table, rows)

    def insert_columns(self, table: Table, columns: Columns, *, by: str) -> None:
        """Insert many rows that are there as columns, in the order of one of them if the engine has an index on it."""
        if columns[by]:
            self._database.insert_columns(self.driver, table, columns, by=by)


class Database(ABC):
    """A catalog's database."""

    name: ClassVar[str]
    file: Path | None = None
    """The file that the database is, if it is one. The first that is found there is the catalog's for good."""
    takes_small_appends: bool = False
    """Whether ``append`` does anything."""
    rows_together: ClassVar[int | None] = 50_000
    """How many rows a query should ask for that ``fetch_arrow`` runs; None: any number."""
    too_long: ClassVar[tuple[type[Exception], ...]] = ()
    """What the driver raises for a text that is too long for the database."""

    def __init__(self, engine: Engine, settings: CatalogSettings) -> None:
        self.engine = engine
        self._secrets = secret_pieces(settings.url)
        self._identity: tuple[int, int] | None = None

    def compiled(self, statement: ClauseElement) -> tuple[str, list[str] | None]:
        """The driver's text of a statement, and the order of its values (None: by name)."""
        found = _compiled.get((self.name, statement))
        if found is None:
            compiled = statement.compile(dialect=self.engine.dialect)
            positions = getattr(compiled, "positiontup", None)
            found = _compiled[self.name, statement] = (str(compiled), positions)
        return found

    def with_values(self, statement: ClauseElement, values: Mapping[str, Any]) -> tuple[str, Any]:
        """The driver's text of one of the statements of modules, and its values as the driver takes them."""
        text, order = self.compiled(statement)
        return text, values if order is None else [values[name] for name in order]

    @contextmanager
    def write(self, step: Step = Step.WHOLE_OPERATION, *, creating: bool = False) -> Iterator[Session]:
        """A transaction that may write. Commits at the end, or rolls back and raises one of our errors.

        ``step`` names its COMMIT among those of a longer operation. ``creating`` lets a database come into being that
        is not there.
        """
        if not creating:
            self.require_present()
        with self.exclusive():
            if not creating:  # again: the file may have been replaced while we waited
                self.require_present()
            with self.translated(), self.begun(step) as session:
                yield session
            # What went into a file that is no longer the catalog's must not be acknowledged.
            self.require_present()

    @contextmanager
    def begun(self, step: Step) -> Iterator[Session]:
        """A transaction, to be committed if all goes well: this step."""
        with self.engine.connect() as connection:
            transaction = connection.begin()
            try:
                yield Session(self, connection.connection, connection)
            except BaseException:
                transaction.rollback()
                raise
            with step:
                self.commit_by(transaction.commit)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one state of the database, whatever others commit meanwhile."""
        self.require_present()
        with self.translated(), self.engine.connect() as fresh:
            connection = fresh.execution_options(**self.snapshot_options())
            with connection.begin():
                yield connection

    def glance(self, statement: ClauseElement, values: Mapping[str, Any]) -> list[Row]:
        """What one query returns at this moment, by the shortest way: for questions that are asked very often."""
        self.require_present()
        with self.translated(), closing(self.engine.raw_connection()) as driver:
            cursor = driver.cursor()
            cursor.execute(*self.with_values(statement, values))
            return list(cursor.fetchall())

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """What has to be held for as long as a transaction writes; nothing where rows are locked."""
        yield

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turn the errors of driver and SQLAlchemy into ours; this is the one place that knows them."""
        foreign: tuple[type[Exception], ...] = (SQLAlchemyError, OverflowError, UnicodeError, *self.driver_errors())
        try:
            yield
        except DeltaMirrorError:
            raise
        except foreign as error:
            raise self._without_secrets(self._translated(error)) from self._cause(error)

    def _translated(self, error: Exception) -> DeltaMirrorError:
        match error:
            case PoolExhausted():
                message = f"all connections to the database are in use: {error}"
                return Unavailable(message, hint="use fewer threads at once, or try again")
            case OverflowError() | UnicodeError():
                # Drivers leave it to Python to turn numbers into 64 bits and text into UTF-8.
                message = f"the database cannot hold this: {error}"
                return InvalidInput(message, hint="numbers have 64 bits, text is UTF-8")
            case DBAPIError():
                return self.translate(error.orig or error)
            case _:
                return self.translate(error)

    def _without_secrets(self, error: DeltaMirrorError) -> DeltaMirrorError:
        """The text of a driver may hold any piece of the URL: the server names a host, a parameter, a file."""
        error.message, error.hint = scrub(error.message, self._secrets), scrub(error.hint, self._secrets)
        return error

    def _cause(self, error: Exception) -> Exception | None:
        """The error of the driver, for the traceback, unless it tells a secret."""
        text = f"{error} {error!r}"
        return error if scrub(text, self._secrets) == text else None

    def close(self) -> None:
        """Give back all connections. The next use opens others."""
        self.engine.dispose()

    def forget(self) -> None:
        """Leave all connections to the process that this one was forked from. The next use opens others."""
        keep(self.engine.pool)
        self.engine.dispose(close=False)

    def let_go(self) -> bool:
        """Let others in until the next use, where one process at a time can have the database open; whether we did."""
        return False

    @contextmanager
    def patience(self, seconds: float) -> Iterator[None]:
        """Wait, in this thread, no longer than this for another process to let us in."""
        yield

    def require_present(self) -> None:
        """Refuse a file that is not there (opening it would make an empty one), or that replaced the one we know."""
        if self.file is None:
            return
        identity = file_identity(self.file)
        if identity is None:
            raise CatalogMismatch(f"there is no catalog at {self.file}", hint="run `deltamirror init`")
        if self._identity is None:
            self._identity = identity
        if self._identity != identity:
            raise replaced(self.file)

    def snapshot_options(self) -> dict[str, Any]:
        """Execution options under which a transaction reads one state."""
        return {}

    def lock_head(self, session: Session, table_id: int) -> list[Row]:
        """The head of a table, locked until the transaction ends, and the time once it is."""
        rows = session.rows(_HEAD_AND_CLOCK, {"table_id": table_id})
        for row in rows:
            require_schema(row[-1])
        return [row[:-1] for row in rows]

    def append(self, append: SmallAppend) -> Answer:
        """A small append that the database decides by itself, in one transaction with those of other threads."""
        return None

    def announce(self) -> bool:
        """Tell those who wait for commits that there are some; whether that was done. They look by themselves, too."""
        return False

    def wait_for_commits(self, seconds: float, stop: threading.Event) -> None:
        """Wait until there may be commits that were not there before, for so long at most, or until ``stop``."""
        stop.wait(seconds)

    def locking(self, query: Select[Any]) -> Select[Any]:
        """The query that locks its rows; the query itself where one writer is alone."""
        return query

    def lock_statements(self) -> CatalogLocks:
        """What keeps others from changing the same things at once; nothing where one writer is alone."""
        return CatalogLocks()

    def look(self, connection: Connection, statement: ClauseElement, values: Mapping[str, Any]) -> list[Row]:
        """What one of the statements of modules returns within a transaction."""
        return list(self._executed(connection, statement, values).fetchall())

    def fetch_arrow(
        self,
        connection: Connection,
        query: Select[Any],
        schema: "pa.Schema",
        values: Mapping[str, Any] | None = None,
    ) -> "pa.Table":
        """The result of a query as Arrow data; with ``values``, it is one of the statements of modules.

        The result is held in memory more than once: ``rows_together`` says for how many rows to ask.
        """
        columns = import_module("deltamirror.txnlog.database.text_columns")  # with a library that most work needs not
        joined = (columns.joined_columns if values is None else columns.joined_once)(query, schema)
        try:
            with self.attempt(connection):
                cursor = self._executed(connection, joined, values)
                found = columns.arrow_columns(cursor.fetchone(), schema)
        except self.too_long:
            found = None
        return self._fetch_rows(connection, query, schema, values) if found is None else found

    def _fetch_rows(
        self, connection: Connection, query: Select[Any], schema: "pa.Schema", values: Mapping[str, Any] | None
    ) -> "pa.Table":
        """Row by row, whatever values there are."""
        cursor = self._executed(connection, query, values)
        arrow_rows = import_module("deltamirror.txnlog.database.arrow_rows")
        batches = iter(lambda: cursor.fetchmany(_ROWS_AT_ONCE), [])
        return cast("pa.Table", arrow_rows.arrow_table(batches, schema))

    @contextmanager
    def attempt(self, connection: Connection) -> Iterator[None]:
        """Go on with the transaction where what is tried fails."""
        yield

    def _executed(self, connection: Connection, statement: ClauseElement, values: Mapping[str, Any] | None) -> Any:
        cursor = connection.connection.cursor()
        cursor.execute(*(self.rendered(statement) if values is None else self.with_values(statement, values)))
        return cursor

    def rendered(self, query: ClauseElement) -> tuple[str, Any]:
        """The driver's text of a query and its values, lists of values spelled out."""
        compiled = query.compile(dialect=self.engine.dialect, compile_kwargs={"render_postcompile": True})
        positions = getattr(compiled, "positiontup", None)
        return str(compiled), compiled.params if positions is None else [compiled.params[name] for name in positions]

    @abstractmethod
    def json_member(self, column: ColumnElement[str], name: str) -> ColumnElement[str]:
        """A member of a JSON object that is kept as text, as text."""

    @abstractmethod
    def insert_many(self, driver: PoolProxiedConnection, table: Table, rows: Sequence[Row]) -> None:
        """Insert complete rows by the fastest way that the driver has."""

    @abstractmethod
    def insert_columns(self, driver: PoolProxiedConnection, table: Table, columns: Columns, *, by: str) -> None:
        """Insert rows that are given as columns by the fastest way that the driver has, in the order of one of them."""

    @abstractmethod
    def driver_errors(self) -> tuple[type[Exception], ...]:
        """The exceptions that the driver raises."""

    @abstractmethod
    def translate(self, error: BaseException) -> DeltaMirrorError:
        """One of our errors for one of the driver's."""

    def is_lost_reply(self, error: DeltaMirrorError) -> bool:
        """Whether this error, raised by COMMIT, leaves open if the transaction took place."""
        return False

    def commit_by(self, commit: Callable[[], T]) -> T:
        """Call what commits; CommitUnknown if that fails in a way that leaves open whether it took place."""
        try:
            with self.translated():
                return commit()
        except DeltaMirrorError as error:
            if self.is_lost_reply(error):
                raise CommitUnknown(f"the reply of COMMIT was lost: {error.message}", hint=error.hint) from error
            raise


def used_columns(table: Table, rows: Sequence[Row]) -> list[str]:
    """The columns up to the last that has a value: sending the nulls after it takes a third of the time of a load."""
    width = len(table.columns)
    while width > 1 and all(row[width - 1] is None for row in rows):
        width -= 1
    return [column.name for column in table.columns][:width]


def in_order(rows: Sequence[T], values: Sequence[int]) -> list[T]:
    """The rows in the order of these values. Made before they are sorted, they are read where memory has them."""
    return [rows[place] for place in sorted(range(len(rows)), key=values.__getitem__)]


def file_identity(file: Path) -> tuple[int, int] | None:
    """What tells a file from another one of its name; None if there is none."""
    try:
        found = os.stat(file)  # noqa: PTH116 - the method of a path costs twice as much, several times a commit
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def replaced(file: Path) -> CatalogMismatch:
    """The error for a file that is not the one which was opened."""
    return CatalogMismatch(
        f"the file {file} was replaced or removed while the catalog was open",
        hint="open the catalog again (restart the process); whatever was being committed is not part of it",
    )
