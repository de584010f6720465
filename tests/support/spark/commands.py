"""What tests ask the driver of a Spark to do with tables of a catalog; a command travels pickled, and runs there."""

import io
import os
import pickle
import random
import runpy
import signal
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias
from unittest.mock import patch

import msgspec
import pyarrow as pa
from msgspec.structs import replace
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

import deltamirror
from deltamirror import Catalog, Insert, Update
from deltamirror.config import RowsSettings, Settings, StorageSettings, load
from deltamirror.errors import DeltaMirrorError
from deltamirror.rows.spark import SparkRows
from deltamirror.rows.spark_batches import batches_by_rows
from deltamirror.rows.spark_merging import LargeMerge


class Command(Protocol):
    """Something to do with a session."""

    def run(self, session: SparkSession) -> object:
        """Do it; the answer."""


Result: TypeAlias = Any
"""The answer of a command, or an error of ours. An error of Spark is its text."""


@dataclass(frozen=True, slots=True)
class BatchRows:
    """How many rows the largest batch has that executors get of a statement, in a session with settings of its own."""

    statement: str
    settings: Mapping[str, str] = field(default_factory=dict)

    def run(self, session: SparkSession) -> int:
        """Count them; the session has to have no other settings afterwards."""
        for name, value in self.settings.items():
            session.conf.set(name, value)
        before, rows = _arrow_settings(session), SparkRows.of(session.sql(self.statement))
        try:
            with batches_by_rows(session):
                found = rows.frame.mapInArrow(_counted, "count long").toArrow().column(0).to_pylist()
            assert _arrow_settings(session) == before
        finally:
            for name in self.settings:
                session.conf.unset(name)
        return max(map(int, found))


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameWrite:
    """Statements of SQL, whose rows one transaction writes to tables; those in ``overwrites`` are replaced.

    ``appends`` has options of tables that are appended to.

    ``is_saved``: by ``df.write`` instead, table by table. The answer is the versions of the tables.
    """

    catalog: str
    frames: Mapping[str, str]
    overwrites: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    appends: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    is_saved: bool = False
    storage: StorageSettings | None = None
    """How a store is reached; the driver has the keys."""
    killed_attempts: int = 0
    """How many attempts of the tasks with rows lose a Python process when they have computed them."""

    def run(self, session: SparkSession) -> dict[str, int]:
        """Write the rows."""
        if self.is_saved:
            return self._saved(session)
        with Catalog(self.catalog, settings=self._settings()) as catalog, catalog.transaction() as tx:
            for table, statement in self.frames.items():
                frame = _stumbling(session.sql(statement), self.killed_attempts)
                if (options := self.overwrites.get(table)) is not None:
                    tx.overwrite(table, frame, **options)
                else:
                    tx.append(table, frame, **self.appends.get(table, {}))
        return dict(tx.result.versions)

    def _saved(self, session: SparkSession) -> dict[str, int]:
        deltamirror.spark.register(session)
        for table, statement in self.frames.items():
            mode = "overwrite" if table in self.overwrites else "append"
            options = self.overwrites.get(table) or self.appends.get(table, {})
            writer = session.sql(statement).write.format("deltamirror").option("catalog", self.catalog)
            writer.options(**options).mode(mode).save(table)
        with Catalog(self.catalog) as catalog:
            return {table: catalog.table(table).info().head for table in self.frames}

    def _settings(self) -> Settings:
        settings = load(environment=os.environ).settings
        if self.storage is None:
            return settings
        own = settings.storage
        keys = {"access_key_id": own.access_key_id, "secret_access_key": own.secret_access_key}
        return msgspec.structs.replace(settings, storage=msgspec.structs.replace(self.storage, **keys))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSave:
    """The rows of a statement, which Delta Lake itself puts in the place of those of a table of its own."""

    location: str
    statement: str
    options: Mapping[str, str]
    partition_by: Sequence[str] = ()

    def run(self, session: SparkSession) -> None:
        """Write the rows."""
        writer = session.sql(self.statement).write.format("delta").options(**self.options).mode("overwrite")
        (writer.partitionBy(*self.partition_by) if self.partition_by else writer).save(self.location)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameLoad:
    """Rows of a table, read by ``spark.read``; the answer is the rows."""

    catalog: str
    table: str
    options: Mapping[str, str] = field(default_factory=dict)
    where: str = "true"

    def run(self, session: SparkSession) -> pa.Table:
        """Read the rows."""
        deltamirror.spark.register(session)
        reader = session.read.format("deltamirror").option("catalog", self.catalog).options(**self.options)
        return reader.load(self.table).where(self.where).toArrow()


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameOf:
    """Rows of a table by ``Table.to_spark``; the answer is the rows, and whether Python tasks have read some."""

    catalog: str
    table: str
    columns: Sequence[str] | None = None
    where: str | None = None
    version: int | None = None
    storage: StorageSettings = field(default_factory=StorageSettings)

    def run(self, session: SparkSession) -> tuple[pa.Table, bool]:
        """Read the rows."""
        with Catalog(self.catalog, settings=Settings(storage=self.storage)) as catalog:
            frame = catalog.table(self.table).to_spark(session, self.columns, self.where, version=self.version)
            plan = io.StringIO()
            with redirect_stdout(plan):
                frame.explain()
            return frame.toArrow(), "MapInArrow" in plan.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """Rows of a table updated, deleted and merged by executors, in this order; the answer is the version."""

    catalog: str
    table: str
    update: tuple[Mapping[str, str], str]
    delete: str
    source: str
    """A statement of SQL, whose rows are merged by ``id``: those that match are replaced, the others come."""

    def run(self, session: SparkSession) -> int:
        """Change the rows."""
        with Catalog(self.catalog) as catalog:
            table = catalog.table(self.table)
            table.update(*self.update, spark=session)
            table.delete(self.delete, spark=session)
            table.merge(session.sql(self.source), ["id"], matched=Update(), not_matched=Insert())
            return table.info().head


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeMerges:
    """Rows merged into tables that Spark joins, however few they are; the answer is the versions."""

    catalog: str
    merges: Mapping[str, Mapping[str, Any]]
    """By the table: the arguments of ``Table.merge``, with a statement of SQL as the source."""
    loses: Literal["nothing", "cache", "blocks"] = "nothing"
    """What Spark loses before rows are inserted: all that is cached, or all that executors keep. Rows that are computed
    again come in another order."""

    def run(self, session: SparkSession) -> dict[str, int]:
        """Merge them."""
        settings = replace(Settings(), rows=RowsSettings(memory=1))
        with Catalog(self.catalog, settings=settings) as catalog, self._losing(session):
            for name, given in self.merges.items():
                source = session.sql(given["source"])
                if self.loses != "nothing":
                    source = source.mapInArrow(_shuffled, source.schema)
                catalog.table(name).merge(**{**given, "source": source})
            return {name: catalog.table(name).info().head for name in self.merges}

    @contextmanager
    def _losing(self, session: SparkSession) -> Iterator[None]:
        original = LargeMerge._inserts

        def lose(merge: LargeMerge, matching: DataFrame) -> Any:
            if self.loses == "cache":
                session.catalog.clearCache()
            elif self.loses == "blocks":
                context = session.sparkContext
                blocks = context._jvm.org.apache.spark.SparkEnv.get().blockManager()  # type: ignore[union-attr]
                for number in dict(context._jsc.getPersistentRDDs()):
                    blocks.removeRdd(number)
            return original(merge, matching)

        with patch.object(LargeMerge, "_inserts", lose):
            yield


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRun:
    """The files of a folder as a stream, a batch a file, each written to two tables by one transaction.

    The query ends with the files that are there; before, if batch ``fails_at`` fails, ``before`` or ``after`` it is
    committed. The answer is whether it failed.
    """

    catalog: str
    folder: str
    checkpoint: str
    fails_at: int | None = None
    fails: str = "after"

    def run(self, session: SparkSession) -> bool:
        """Run the query to its end."""
        schema = session.read.parquet(self.folder).schema
        files = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(self.folder)
        query = files.writeStream.foreachBatch(self._write).option("checkpointLocation", self.checkpoint)
        try:
            query.trigger(availableNow=True).start().awaitTermination()
        except PySparkException:
            return True
        return False

    def _write(self, batch: DataFrame, number: int) -> None:
        with Catalog(self.catalog) as catalog:
            with catalog.transaction() as tx:
                for table in ("bronze", "silver"):
                    tx.set_transaction(table, "stream", number)
                tx.append("bronze", batch)
                tx.append("silver", batch.where("id % 2 = 0"))
                if (number, "before") == (self.fails_at, self.fails):
                    raise RuntimeError("the batch fails before its commit")
            if number == self.fails_at:
                raise RuntimeError("the batch fails after its commit")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCopy:
    """A table as a stream, written to another one, up to what is there."""

    catalog: str
    tables: tuple[str, str]
    checkpoint: str

    def run(self, session: SparkSession) -> None:
        """Run the query to its end. Spark gives a Python process ten seconds to start: on a busy machine, try again."""
        deltamirror.spark.register(session)
        while True:
            try:
                self._writer(session).trigger(availableNow=True).start().awaitTermination()
            except PySparkException as error:
                if "failed to connect back" not in str(error):
                    raise
            else:
                return

    def _writer(self, session: SparkSession) -> DataStreamWriter:
        source, sink = self.tables
        rows = session.readStream.format("deltamirror").option("catalog", self.catalog)
        writer = rows.load(source).writeStream.format("deltamirror").option("catalog", self.catalog)
        return writer.options(txnAppId="copy", checkpointLocation=self.checkpoint, path=sink)


@dataclass(frozen=True, slots=True)
class ExampleRun:
    """A program of ``examples/``, with the session in the place of its own; the answer is that of its ``main``."""

    program: str
    arguments: tuple[str, ...]

    def run(self, session: SparkSession) -> object:
        """Run it."""
        return runpy.run_path(self.program)["main"](session, *self.arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptimize:
    """Puts the small files of a table together, or orders its rows, by the executors of the session."""

    catalog: str
    table: str
    zorder_by: Sequence[str] = ()

    def run(self, session: SparkSession) -> dict[str, int] | None:
        """The version that it has; None if there was nothing to do."""
        with Catalog(self.catalog) as catalog:
            done = catalog.table(self.table).optimize(zorder_by=self.zorder_by, runner="spark")
            return None if done is None else dict(done.versions)


def asked(command: Command) -> dict[str, object]:
    """The request for a driver."""
    return {"command": b64encode(pickle.dumps(command)).decode()}


def result_of(answer: str) -> Result:
    """What came of it."""
    return pickle.loads(b64decode(answer))  # noqa: S301  a process of our own wrote it


def run_command(session: SparkSession, request: dict[str, Any]) -> str:
    """Do what a request asks."""
    command: Command = pickle.loads(b64decode(request["command"]))  # noqa: S301  a process of our own wrote it
    try:
        result: object = command.run(session)
    except DeltaMirrorError as error:
        result = error
    except PySparkException as error:
        result = str(error)
    return b64encode(pickle.dumps(result)).decode()


def _arrow_settings(session: SparkSession) -> dict[str, str]:
    return {name: value for name, value in session.conf.getAll.items() if "arrow" in name}


def _shuffled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = pa.Table.from_batches(list(batches))
    order = random.sample(range(len(rows)), len(rows))
    yield from rows.take(pa.array(order, pa.int64())).to_batches()


def _counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from (pa.record_batch([pa.array([each.num_rows])], names=["count"]) for each in batches)


def _stumbling(frame: DataFrame, attempts: int) -> DataFrame:
    if not attempts:
        return frame

    def killed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:  # travels by value: executors lack us
        rows = 0
        for batch in batches:
            rows += batch.num_rows
            yield batch
        context = TaskContext.get()
        if rows and context is not None and context.attemptNumber() < attempts:
            os.kill(os.getpid(), signal.SIGKILL)

    numbered = frame.toDF(*(str(number) for number in range(len(frame.columns))))
    return numbered.mapInArrow(killed, numbered.schema).toDF(*frame.columns)
