"""Stock Delta Lake jobs that commit through ``deltamirror serve``, in the session that tests share."""

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from deltamirror.spark.logstore import LOG_STORE
from tests.support.readers.rows import row_texts


def job_settings(server: str, token: str, locations: str, retry_seconds: int = 60) -> dict[str, str]:
    """The settings of a session whose tables below ``locations`` are asked for at a server."""
    names = {"server": server, "token": token, "locations": locations, "retry.seconds": str(retry_seconds)}
    return {f"deltamirror.{name}": value for name, value in names.items()}


@contextmanager
def configured(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of a session, for the time of a block."""
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            session.conf.unset(name)


@dataclass(frozen=True, slots=True)
class StockJob:
    """Statements of SQL; the answer is the rows of the last one."""

    settings: Mapping[str, str]
    statements: Sequence[str]

    def run(self, session: SparkSession) -> list[dict[str, Any]]:
        """Run them one after the other."""
        rows: list[dict[str, Any]] = []
        with configured(session, self.settings):
            for statement in self.statements:
                rows = [row.asDict() for row in session.sql(statement).collect()]
        return rows


@dataclass(frozen=True, slots=True)
class StreamedTable:
    """The rows of one Delta table, streamed into another one."""

    settings: Mapping[str, str]
    source: str
    sink: str
    checkpoint: str

    def run(self, session: SparkSession) -> None:
        """Run the query to the end of what is there."""
        with configured(session, self.settings):
            stream = session.readStream.format("delta").load(self.source).writeStream.format("delta")
            query = stream.option("checkpointLocation", self.checkpoint).trigger(availableNow=True)
            query.start(self.sink).awaitTermination()


@dataclass(frozen=True, slots=True)
class LogStoreWrite:
    """One call of the LogStore; the answer is empty, or the class and the message of the exception."""

    settings: Mapping[str, str]
    path: str
    lines: Sequence[str]
    overwrites: bool = False

    def run(self, session: SparkSession) -> str:
        """Write the file."""
        return _Jvm(session, self.settings).write(self.path, self.lines, overwrites=self.overwrites)


@dataclass(frozen=True, slots=True)
class LogStoreRead:
    """The lines that the LogStore reads of a file."""

    settings: Mapping[str, str]
    path: str

    def run(self, session: SparkSession) -> list[str]:
        """Read the file."""
        return _Jvm(session, self.settings).lines(self.path)


@dataclass(frozen=True, slots=True)
class LogStoreListing:
    """The names that the LogStore lists, from a path on."""

    settings: Mapping[str, str]
    path: str

    def run(self, session: SparkSession) -> list[str]:
        """List the folder."""
        return _Jvm(session, self.settings).names(self.path)


@dataclass(frozen=True, slots=True)
class LogStoreRace:
    """Drivers that commit to one log at once, each a LogStore of its own; every commit is sent until it has a version.

    The answer is the versions that each of them got.
    """

    settings: Mapping[str, str]
    folder: str
    commits: Sequence[Sequence[str]]
    """For each driver, the lines of its commits."""

    def run(self, session: SparkSession) -> list[list[int]]:
        """Let them race."""
        with ThreadPoolExecutor(len(self.commits)) as pool:
            return list(pool.map(lambda lines: self._driver(_Jvm(session, self.settings), lines), self.commits))

    def _driver(self, jvm: "_Jvm", commits: Sequence[str]) -> list[int]:
        versions, version = [], 1
        for line in commits:
            while told := jvm.write(f"{self.folder}/{version:020}.json", [line]):
                assert told.startswith("java.nio.file.FileAlreadyExistsException"), told
                listed = jvm.names(f"{self.folder}/{version:020}.json")
                version = 1 + max(int(name[:20]) for name in listed if name.endswith(".json") and name[0] != ".")
            versions.append(version)
        return versions


class _Jvm:
    """A LogStore as Delta Lake makes it."""

    def __init__(self, session: SparkSession, settings: Mapping[str, str]) -> None:
        self._jvm = cast("Any", session._jvm)  # its classes are found by name at run time
        gateway = cast("Any", session.sparkContext._gateway)
        self._configuration = session._jsparkSession.sessionState().newHadoopConf()
        for name, value in settings.items():
            self._configuration.set(name, value)
        of_class = self._jvm.org.apache.spark.util.Utils.classForName(LOG_STORE, True, False)
        [constructor] = of_class.getConstructors()
        arguments = gateway.new_array(self._jvm.Object, 1)
        arguments[0] = self._configuration
        self._store = constructor.newInstance(arguments)

    def write(self, path: str, lines: Sequence[str], *, overwrites: bool = False) -> str:
        given = self._jvm.java.util.ArrayList()
        for line in lines:
            given.add(line)
        try:
            self._store.write(self._path(path), given.iterator(), overwrites, self._configuration)
        except Py4JJavaError as error:
            return str(error.java_exception.toString())
        return ""

    def lines(self, path: str) -> list[str]:
        return [str(line) for line in _each(self._store.read(self._path(path), self._configuration))]

    def names(self, path: str) -> list[str]:
        found = self._store.listFrom(self._path(path), self._configuration)
        return [str(each.getPath().getName()) for each in _each(found)]

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)


def _each(iterator: Any) -> Iterator[Any]:
    while iterator.hasNext():
        yield iterator.next()


@dataclass(frozen=True, slots=True)
class TwinOutcome:
    """The rows of a table after statements, and the class of the error that refused them, empty if none did."""

    refusal: str
    rows: list[str]
    message: str = field(default="", compare=False)

    def shown(self, other: "TwinOutcome") -> str:
        """The part that another one does not have."""
        own = [row for row in self.rows if row not in other.rows]
        return f"{self.message or 'taken'}, {len(self.rows)} rows, of which only here: {own}"


@dataclass(frozen=True, slots=True)
class TwinJob:
    """The same statements for tables in several folders, which take the place of ``$folder``; an outcome for each."""

    settings: Mapping[str, str]
    folders: Sequence[str]
    statements: Sequence[str]
    query: str
    columns: Sequence[str]
    """Those of the query that are the outcome."""
    is_streamed: bool = False
    """Whether ``feed`` is streamed into ``copy`` before the query."""

    def run(self, session: SparkSession) -> list[TwinOutcome]:
        """Run them for one folder after the other."""
        with configured(session, self.settings):
            return [self._side(session, folder) for folder in self.folders]

    def _side(self, session: SparkSession, folder: str) -> TwinOutcome:
        refusal = message = ""
        left = iter(self.statements)
        try:
            for statement in left:
                session.sql(statement.replace("$folder", folder)).collect()
            if self.is_streamed:
                StreamedTable({}, f"{folder}/feed", f"{folder}/copy", f"{folder}/checkpoint").run(session)
        except (PySparkException, Py4JJavaError) as error:
            refusal, message = _error_class(error), str(error)[:2_000]
            for statement in left:
                if statement.startswith(("SET ", "RESET ")):
                    session.sql(statement)  # else a setting would outlive the operation that it is for
        try:
            found = session.sql(self.query.replace("$folder", folder)).select(*self.columns).toArrow()
        except (PySparkException, Py4JJavaError) as error:
            return TwinOutcome(f"{refusal} {_error_class(error)}", [], f"{message} {str(error)[:2_000]}")
        return TwinOutcome(refusal, row_texts(found.to_pylist()), message)


def _error_class(error: PySparkException | Py4JJavaError) -> str:
    """The name that Spark gives to an error, such as ``[DELTA_TABLE_NOT_FOUND]``."""
    found = re.search(r"\[([A-Z0-9_.]{5,})\]", str(error))
    return type(error).__name__ if found is None else found[1]
