"""DuckDB: one process at a time opens the file; inside it, one writer at a time."""

import logging
import re
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, cast

import duckdb
import pyarrow as pa
from sqlalchemy import (
    URL,
    BigInteger,
    Boolean,
    Connection,
    Dialect,
    Integer,
    LargeBinary,
    Table,
    create_engine,
    event,
    func,
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
    PermissionDenied,
    Transient,
    Unavailable,
)
from deltamirror.txnlog.database.access import Columns, Database, Row
from deltamirror.txnlog.database.engines.file_uses import FileUses
from deltamirror.txnlog.database.engines.queue import FileQueue

_log = logging.getLogger(__name__)

_LOCKED = "Could not set lock"
_CLOSING = "Unique file handle conflict"
_HOLDER = re.compile(r"held in (.+) \(PID (\d+)\)")
# A service lets go of the file for `mirror.poll` seconds: often enough to meet that.
_PAUSE = 0.02

# Where the file of a database says that it is one.
_MAGIC = slice(8, 12)

# Below this, prepared single inserts are faster than handing Arrow data to the engine.
_ARROW_FROM = 20


class DuckdbDatabase(Database):
    """A catalog in a DuckDB file."""

    name: ClassVar[str] = "duckdb"
    rows_together = None

    def __init__(self, url: URL, settings: CatalogSettings) -> None:
        self.path = url.database or ""
        self.file = None if self.path == ":memory:" else Path(self.path)
        _require_own_format(self.file)
        # Under a name, all threads have one database in memory; each would have its own.
        named = url if self.file else url.set(database=f":memory:{uuid.uuid4().hex}")
        super().__init__(create_engine(named), settings)
        self._patience = _Patience(settings.busy_timeout)
        event.listen(self.engine, "do_connect", self._connected)
        self._queue = FileQueue(self.path, timeout=settings.busy_timeout)
        self._mutex = threading.Lock()
        # DuckDB does not take it well that one thread opens a file while another closes it.
        self._uses = FileUses(self)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one state of the database."""
        with self._uses, super().read() as connection:
            yield connection

    def glance(self, statement: ClauseElement, values: Mapping[str, Any]) -> list[Row]:
        """What one query returns at this moment."""
        with self._uses:
            return super().glance(statement, values)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Queue for the database: concurrent updates of one row fail in DuckDB instead of waiting."""
        if self.file is None:
            with self._mutex:
                yield
            return
        with self._uses:
            # The file first: who has it open may be in the queue, and would wait for us.
            with self.translated():
                self.engine.raw_connection().close()
            with self._queue.turn():
                yield

    def let_go(self) -> bool:
        """Close the file, unless it is in use."""
        return self._uses.close()

    @contextmanager
    def patience(self, seconds: float) -> Iterator[None]:
        """Wait no longer than this for the process that has the file open."""
        usual, self._patience.seconds = self._patience.seconds, seconds
        try:
            yield
        finally:
            self._patience.seconds = usual

    def _connected(self, dialect: Dialect, _: object, arguments: Sequence[Any], options: dict[str, Any]) -> Any:
        """A connection, once no other process has the file open, and no other thread of this one is closing it."""
        self._uses.open()
        deadline, is_waiting = time.monotonic() + self._patience.seconds, False
        while True:
            try:
                return dialect.connect(*arguments, **options)
            except (duckdb.IOException, duckdb.BinderException) as error:
                if not any(sign in str(error) for sign in (_LOCKED, _CLOSING)) or time.monotonic() >= deadline:
                    raise
                if not is_waiting and _LOCKED in str(error):
                    _log.info("waiting for %s, which %s has open", self.path, _holder(str(error)))
                    is_waiting = True
            time.sleep(_PAUSE)

    def json_member(self, column: ColumnElement[str], name: str) -> ColumnElement[str]:
        """By ``json_extract_string``, with a JSON pointer."""
        pointer = "/" + name.replace("~", "~0").replace("/", "~1")
        return func.json_extract_string(column, pointer)

    def fetch_arrow(
        self,
        connection: Connection,
        query: Select[Any],
        schema: pa.Schema,
        values: Mapping[str, Any] | None = None,
    ) -> pa.Table:
        """Arrow data as the engine makes it."""
        driver = cast("Any", connection.connection.driver_connection)
        statement = self.rendered(query) if values is None else self.with_values(query, values)
        return driver.execute(*statement).to_arrow_table().cast(schema)

    def insert_many(self, driver: PoolProxiedConnection, table: Table, rows: Sequence[Row]) -> None:
        """Insert a few rows one by one, many rows as Arrow data."""
        engine = cast("Any", driver.driver_connection)
        marks = ", ".join("?" * len(table.columns))
        if len(rows) < _ARROW_FROM:
            for row in rows:
                engine.execute(f"INSERT INTO {table.name} VALUES ({marks})", row)  # noqa: S608 - our own table name
            return
        names = [column.name for column in table.columns]
        _insert_arrow(engine, table, dict(zip(names, zip(*rows, strict=True), strict=True)))

    def insert_columns(self, driver: PoolProxiedConnection, table: Table, columns: Columns, *, by: str) -> None:
        """Insert them as Arrow data, as they are: columns are scanned, and have no index."""
        _insert_arrow(driver.driver_connection, table, columns)

    def driver_errors(self) -> tuple[type[Exception], ...]:
        """The exceptions of the duckdb module, and what it raises for text without a UTF-8 form."""
        return (duckdb.Error, RuntimeError)

    def translate(self, error: BaseException) -> DeltaMirrorError:
        """Decide by DuckDB's exception class, and by its text where one class means several things."""
        text = str(error)
        described = f"DuckDB database {self.path}: {text}"
        if _LOCKED in text:
            return Unavailable(
                f"the DuckDB database {self.path} is open in {_holder(text)}, also after {self._patience.seconds:g} s",
                hint="DuckDB serves one process at a time: stop the other one, or use PostgreSQL or SQLite",
            )
        if isinstance(error, duckdb.CatalogException) and "does not exist" in text:
            return CatalogMismatch(f"{self.path} holds no deltamirror catalog", hint="run `deltamirror init`")
        if isinstance(error, duckdb.ConstraintException) or "onflict" in text.partition("\n")[0]:
            return Transient(described, hint="try again")
        if "No space left" in text or isinstance(error, duckdb.OutOfMemoryException):
            return CapacityExceeded(described, hint="free some space; nothing of this transaction was kept")
        if "read-only" in text or "Permission denied" in text:
            return PermissionDenied(described, hint="the catalog's file and folder must be writable")
        if isinstance(error, duckdb.TransactionException):
            return Transient(described, hint="try again")
        if "not a valid DuckDB database file" in text:
            return CatalogMismatch(described, hint="the file is no DuckDB database: check the catalog URL")
        if "Unable to cast Python instance of type <class 'str'>" in text:
            return InvalidInput("the database cannot hold this text", hint="text is UTF-8")
        if "Corrupt database file" in text:
            return CatalogMismatch(described, hint="the file is damaged: restore it from a backup")
        if isinstance(error, duckdb.ConversionException) or "integer too large" in text:
            return InvalidInput(described, hint="a number is larger than the log can hold")
        if isinstance(error, duckdb.IOException):
            return Unavailable(described, hint="check the path and the disk")
        return Internal(described)


class _Patience(threading.local):
    """How long a thread waits for the file."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


def _holder(text: str) -> str:
    """The process that has the file open, as DuckDB names it."""
    found = _HOLDER.search(text)
    return f"another process ({Path(found[1]).name}, PID {found[2]})" if found else "another process"


def _insert_arrow(engine: Any, table: Table, columns: Columns) -> None:
    engine.register("dl_incoming", _arrow(table, columns))
    try:
        names = ", ".join(columns)
        engine.execute(f"INSERT INTO {table.name} ({names}) SELECT * FROM dl_incoming")  # noqa: S608 - our own names
    finally:
        engine.unregister("dl_incoming")


def _arrow(table: Table, columns: Columns) -> pa.Table:
    return pa.table({name: pa.array(values, _arrow_type(table.c[name].type)) for name, values in columns.items()})


def _arrow_type(kind: object) -> pa.DataType:
    if isinstance(kind, BigInteger):
        return pa.int64()
    if isinstance(kind, Integer):
        return pa.int32()
    if isinstance(kind, Boolean):
        return pa.bool_()
    return pa.binary() if isinstance(kind, LargeBinary) else pa.string()


def _head(file: Path) -> bytes:
    with file.open("rb") as stream:
        return stream.read(_MAGIC.stop)


def _require_own_format(file: Path | None) -> None:
    """DuckDB opens what others wrote as views on it, in memory: a catalog would be gone with its process."""
    try:
        head = b"" if file is None else _head(file)
    except OSError:  # nothing there, or nothing that can be read: DuckDB makes it, or says why not
        return
    if head and head[_MAGIC] != b"DUCK":
        raise CatalogMismatch(f"{file} is no DuckDB database", hint="check the catalog URL: sqlite:// or duckdb://?")
