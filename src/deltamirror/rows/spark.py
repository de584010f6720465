"""Rows on executors: those of a DataFrame are written where they are, and those of files are changed there.

The driver gets the adds of the files that tasks have written.

One job, without a shuffle unless the table wants one: each task writes files of its own, one or more for each partition
that its rows are of, as Delta Lake on Spark does. A task hands its adds over when it is done, or the error that ended
it: that is no failure to Spark, which would do a bad row again and again, and would not tell which files the other
tasks have written.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any, Final, Self

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from deltamirror.delta.actions import Add, Cdc
from deltamirror.delta.paths import decode_path
from deltamirror.delta.properties import is_enabled
from deltamirror.delta.schema import parse_schema
from deltamirror.delta.schema.arrow import to_arrow
from deltamirror.errors import DeltaMirrorError, InvalidInput
from deltamirror.executors.access import executor_store, explained
from deltamirror.executors.failures import translated_query
from deltamirror.rows.changes import Rewritten
from deltamirror.rows.discarding import discarded_on_failure
from deltamirror.rows.layout import Layout
from deltamirror.rows.rewriting import Rewriting
from deltamirror.rows.scanning import TableFiles, file_groups
from deltamirror.rows.sources import LargeRows
from deltamirror.rows.spark_batches import batches_by_rows
from deltamirror.rows.writing import RowFiles, RowOrder, WrittenRows
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.location import is_of_one_machine
from deltamirror.storage.store import Store

ANSWERS: Final = "answer binary"
"""What tasks tell, as a column of Spark."""
ROW_ID: Final = "id"
_SIZES: Final = "count long, bytes long"
_FILES: Final = (attrgetter("adds"), attrgetter("changes"))
_OPTIMISED: Final = "delta.autoOptimize.optimizeWrite"


@dataclass(frozen=True, slots=True)
class TaskRows:
    """The files that a task of a job has written, or the error that ended it."""

    task: int
    adds: Sequence[Add] = ()
    error: DeltaMirrorError | None = None
    changes: Sequence[Cdc] = ()
    """Files of change data."""


@dataclass(frozen=True, slots=True)
class SparkRows:
    """A DataFrame, which Spark computes once, when it is written."""

    frame: DataFrame
    schema: pa.Schema
    """Its columns, as Spark has analysed them."""

    @classmethod
    def of(cls, frame: DataFrame) -> Self:
        """The rows of a DataFrame; InvalidInput if Spark finds it wrong, or if it is a stream."""
        with translated_query("analyse the DataFrame"):
            columns, is_stream = parse_schema(frame.schema.json()), frame.isStreaming
        if is_stream:
            hint = "write its batches: df.writeStream.foreachBatch(…); docs/guides/rows.md shows how"
            raise InvalidInput("the DataFrame is a stream, which has no end", hint=hint)
        if not columns.fields:
            raise InvalidInput("the DataFrame has no columns", hint="select those that the table has")
        return cls(frame, to_arrow(columns))

    def read(self, most: int) -> pa.RecordBatchReader | LargeRows:
        """The rows, which are computed once: in this process, unless they are of more bytes than that."""
        with translated_query("compute the DataFrame"):
            cached = self._numbered().persist()
            try:
                sizes = cached.mapInArrow(_sizes, _SIZES).toArrow().to_pylist()
                if sum(each["bytes"] for each in sizes) <= most:
                    return cached.toArrow().rename_columns(self.schema.names).to_reader()
                # Rows that a checkpoint loses are an error; those of a cache are computed again, in another order.
                kept = cached.selectExpr("*", f"monotonically_increasing_id() AS {ROW_ID}").localCheckpoint()
                return LargeRows(kept, self.schema, sum(each["count"] for each in sizes))
            finally:
                with suppress(Exception):  # the session may have ended, and the rows with it
                    cached.unpersist()

    def write(self, order: RowOrder, address: StoreAddress, store: Store) -> Sequence[Add]:
        """Write the rows by one job. If a task fails, the files of the others are deleted again."""
        return collected(self._answers(order, address), order.layout, address, store).adds

    def _answers(self, order: RowOrder, address: StoreAddress) -> list[TaskRows]:
        task = partial(write_task, order, address, tuple(self.schema.names))
        with (
            translated_query(f"write the rows of table {order.layout.table!r}"),
            batches_by_rows(self.frame.sparkSession),
        ):
            answers = self._rebalanced(order.layout).mapInArrow(task, ANSWERS).toArrow().column(0)
        return answered(answers)

    def _numbered(self) -> DataFrame:
        """Columns go by number: Spark looks them up by their names, and takes a dot in one for a field of a struct."""
        return self.frame.toDF(*(str(number) for number in range(len(self.schema))))

    def _rebalanced(self, layout: Layout) -> DataFrame:
        """The rows, in tasks that are rebalanced by partitions where the table wants that."""
        numbered = self._numbered()
        if not is_enabled(layout.metadata, _OPTIMISED):
            return numbered
        partitions = {each.name.lower() for each in layout.partition_fields}
        numbers = [str(number) for number, name in enumerate(self.schema.names) if name.lower() in partitions]
        return numbered.hint("rebalance", *(numbered[each] for each in numbers))


def _sizes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"count": [batch.num_rows], "bytes": [batch.nbytes]})


def write_task(
    order: RowOrder, address: StoreAddress, names: Sequence[str], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The part that runs on executors: the rows of one task in, what it has written out."""
    yield told(written_by_task(order, address, names, batches))


def written_by_task(
    order: RowOrder, address: StoreAddress, names: Sequence[str], batches: Iterator[pa.RecordBatch]
) -> TaskRows:
    """Write the rows of the task that runs here; Spark may have other names for their columns."""
    task = task_number()
    named = (pa.RecordBatch.from_arrays(batch.columns, names=list(names)) for batch in batches)
    if (first := next(named, None)) is None:
        return TaskRows(task)
    try:
        files = RowFiles(order, executor_store(address), task)
        return TaskRows(task, files.write(first.schema, chain([first], named)))
    except DeltaMirrorError as error:
        return TaskRows(task, error=explained(error))


def collected(found: Iterable[TaskRows], layout: Layout, address: StoreAddress, store: Store) -> WrittenRows:
    """The files of all tasks. If one of them has failed, all files are deleted, and its error is raised."""
    tasks = sorted(found, key=attrgetter("task"))
    adds, changes = ([file for each in tasks for file in files(each)] for files in _FILES)
    written = WrittenRows(layout, store, adds, changes)
    try:
        for each in tasks:
            if each.error is not None:
                raise each.error
        _require_seen(written, address)
    except DeltaMirrorError:
        written.discard()
        raise
    return written


@dataclass(frozen=True, slots=True)
class TaskEdit:
    """What a task made of its files: new ones, or an error, and the report of the change."""

    rows: TaskRows
    rewritten: Rewritten = field(default_factory=Rewritten)
    report: object = None


def edited_by_tasks(
    session: SparkSession,
    rewriting: Rewriting,
    files: Sequence[Mapping[str, Any]],
    address: StoreAddress,
    store: Store,
) -> Rewritten:
    """Change the rows of files by one job, some files a task. If one fails, the files of the others are deleted."""
    layout = rewriting.order.layout
    edits = _edits(session, rewriting, files, address)
    written = collected([each.rows for each in edits], layout, address, store)
    informed = replace(rewriting, change=rewriting.change.learn([each.report for each in edits]))
    with discarded_on_failure([written]):
        inserted = informed.insert(store)
    return together(edits, written, inserted)


def together(edits: Sequence[TaskEdit], written: WrittenRows, inserted: Rewritten) -> Rewritten:
    """What tasks made of files, which are ``written``, and the rows that came beside them."""
    return Rewritten(
        adds=[*written.adds, *inserted.adds],
        changes=[*written.changes, *inserted.changes],
        removed=[path for each in edits for path in each.rewritten.removed],
        counts=sum((each.rewritten.counts for each in edits), inserted.counts),
    )


def _edits(
    session: SparkSession, rewriting: Rewriting, files: Sequence[Mapping[str, Any]], address: StoreAddress
) -> list[TaskEdit]:
    groups = [(bytearray(pickle.dumps(group)),) for group in file_groups(files)]
    if not groups:
        return []
    fresh = replace(rewriting, change=replace(rewriting.change))  # type: ignore[type-var]  # all of them are dataclasses
    task = partial(edit_task, fresh, address)
    with translated_query(f"change the rows of table {rewriting.order.layout.table!r}"):
        frame = session.createDataFrame(groups, "files binary").repartition(len(groups))
        answers = frame.mapInArrow(task, ANSWERS).toArrow().column(0)
    return answered(answers)


def answered(answers: pa.ChunkedArray) -> list[Any]:
    """What tasks told."""
    return [pickle.loads(each.as_buffer()) for each in answers]  # noqa: S301  our own executors wrote it


def edit_task(
    rewriting: Rewriting, address: StoreAddress, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The part that runs on executors: the files of one task in, what became of them out."""
    groups = [pickle.loads(each.as_buffer()) for batch in batches for each in batch.column(0)]  # noqa: S301  our driver's
    if groups:
        found = edited(rewriting, address, list(chain(*groups)))
        yield told(replace(found, report=rewriting.change.report()))


def told(answer: object) -> pa.RecordBatch:
    """What a task tells the driver."""
    return pa.record_batch([pa.array([pickle.dumps(answer)], pa.binary())], names=["answer"])


def edited(rewriting: Rewriting, address: StoreAddress, files: Sequence[Mapping[str, Any]]) -> TaskEdit:
    """Change the rows of files in the task that runs here."""
    opener = TableFiles.of_executor(address)
    return in_task(address, lambda store, task: rewriting.run_task(files, opener, store, task=task))


def in_task(address: StoreAddress, work: Callable[[Store, int], Rewritten]) -> TaskEdit:
    """What work comes to in the task that runs here, which it is told the store and the number of."""
    task = task_number()
    try:
        found = work(executor_store(address), task)
        return TaskEdit(TaskRows(task, found.adds, changes=found.changes), found)
    except DeltaMirrorError as error:
        return TaskEdit(TaskRows(task, error=explained(error)))


def task_number() -> int:
    """The number of the task that runs here, among those of its job."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def _require_seen(written: WrittenRows, address: StoreAddress) -> None:
    """Refuse files on a disk, or in a memory, that executors have and this process does not: no reader finds them."""
    if not is_of_one_machine(address.location):
        return
    files: list[Add | Cdc] = [*written.adds, *written.changes]
    for file in files:
        found = written.store.head(decode_path(file.path))
        if found is None or found.size != file.size:
            raise InvalidInput(
                f"table {written.layout.table!r}: executors have written {file.path}, which is not at "
                f"{address.location} for this process",
                hint="nothing was committed; executors on other machines need a store or a disk that all of them share",
            )
