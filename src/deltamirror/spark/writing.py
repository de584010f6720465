"""Rows that Spark saves to a table: executors write the files, and one commit of the driver names them."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from deltamirror.catalog.catalog import Catalog
from deltamirror.catalog.foundation import changed_foundation, founded_on, unclustered
from deltamirror.catalog.rows import Replacement, replaced_files, replacement_of, row_order, write_description
from deltamirror.delta.actions import Action
from deltamirror.delta.schema import parse_schema
from deltamirror.delta.schema.arrow import to_arrow
from deltamirror.errors import InvalidInput
from deltamirror.executors.access import executor_store
from deltamirror.rows.casting import require_castable
from deltamirror.rows.discarding import discarded_if_refused
from deltamirror.rows.duties import require_writable_rows
from deltamirror.rows.layout import Layout
from deltamirror.rows.spark import TaskRows, collected, written_by_task
from deltamirror.rows.writing import RowOrder, WrittenRows
from deltamirror.spark.options import SourceOptions, with_hint
from deltamirror.storage.address import StoreAddress
from deltamirror.txnlog.commit.request import Committed
from deltamirror.txnlog.tables.reading import Snapshot


@dataclass
class TaskMessage(WriterCommitMessage):
    """What a task has written."""

    rows: TaskRows


Messages: TypeAlias = Sequence[WriterCommitMessage | None]
"""Of all tasks; None of one that did not finish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWrite:
    """How rows of Spark get into one table. It travels to executors, without credentials."""

    options: SourceOptions
    names: tuple[str, ...]
    order: RowOrder
    address: StoreAddress
    version: int
    """The table's, when the write was planned."""
    replaces: Replacement | None
    foundation: tuple[Action, ...] = ()
    """The metadata, protocol and domains that the rows need, where the table has others."""

    @classmethod
    def planned(
        cls, catalog: Catalog, taken: Snapshot, options: SourceOptions, schema: StructType, *, overwrite: bool
    ) -> Self:
        """A write of rows of a schema, beside those that are there or in their place; InvalidInput for other types."""
        source = to_arrow(parse_schema(schema.json()))
        by, replaces = options.partition_by, None
        metadata, protocol = founded_on(
            taken.metadata, taken.protocol, source, merges=options.merges_schema, partition_by=by
        )
        layout = Layout.of(taken.table, metadata, protocol)
        require_writable_rows(layout, rows_checked=False)
        require_castable(source, layout)
        if overwrite:
            replaces = replacement_of(options.replace_where, options.is_dynamic, layout, partition_by=by)
        return cls(
            options=options,
            names=tuple(schema.fieldNames()),
            order=row_order(layout, catalog.settings, replaces),
            address=StoreAddress.of(catalog.table(taken.table).location, catalog.settings.storage),
            version=taken.version,
            replaces=replaces,
            foundation=(
                *changed_foundation(taken, metadata, protocol),
                *(() if by is None else unclustered(taken)),
            ),
        )

    def by_task(self, batches: Iterator[pa.RecordBatch]) -> TaskMessage:
        """The part that runs on executors: the rows of one task."""
        return TaskMessage(written_by_task(self.order, self.address, self.names, batches))

    def collected(self, messages: Messages) -> WrittenRows:
        """The files of all tasks; the error of one of them, if there is one."""
        found = [each.rows for each in messages if isinstance(each, TaskMessage)]
        return collected(found, self.order.layout, self.address, executor_store(self.address))

    def commit(self, catalog: Catalog, written: WrittenRows, app_version: int | None) -> Committed:
        """Commit the files of all tasks; if that is refused, delete them."""
        table, replaces = self.options.table, self.replaces
        with discarded_if_refused([written]), catalog.transaction(**self._described) as tx:
            tx.stage(table, [*self.foundation, *written.adds], read_version=self.version)
            if self.options.app_id is not None and app_version is not None:
                tx.set_transaction(table, self.options.app_id, app_version)
            if replaces is not None:
                boxes = replaces.boxes(written.partitions)
                removes = replaced_files(catalog.table(table).snapshot(self.version), boxes)
                tx.stage(table, removes, read_version=self.version)
                tx.read(table, partitions=boxes, all=boxes is None)
        return tx.result

    @property
    def _described(self) -> dict[str, Any]:
        """How the commit describes itself; one that only adds rows needs no words."""
        merges = self.options.merges_schema
        if self.replaces is None and not merges:
            return {}
        return {"operation": "WRITE", "parameters": write_description(self.replaces, merges_schema=merges)}

    def discard_finished(self, messages: Messages) -> None:
        """Delete the files of the tasks that have finished, where others have not.

        Spark says so after a commit that failed, too, also if its outcome is not known: files may be committed then.
        """
        if None not in messages:
            return
        adds = [add for each in messages if isinstance(each, TaskMessage) for add in each.rows.adds]
        WrittenRows(self.order.layout, executor_store(self.address), adds).discard()


class TableWriter(DataSourceArrowWriter):
    """Writes the rows of a DataFrame to one table."""

    def __init__(self, options: SourceOptions, schema: StructType, *, overwrite: bool) -> None:
        with with_hint(), options.open() as catalog:
            taken = catalog.table(options.table).snapshot()
            self._write = TableWrite.planned(catalog, taken, options, schema, overwrite=overwrite)
            applied = taken.transactions().get(options.app_id or "")
        self._is_applied = applied is not None and applied.version >= (options.app_version or 0)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """The part that runs on executors: the rows of one task."""
        if self._is_applied:
            deque(iterator, maxlen=0)  # Spark has computed them already
        return self._write.by_task(iterator)

    def commit(self, messages: Messages) -> None:
        """Commit the files of all tasks; if that is refused, delete them."""
        with with_hint():
            written, options = self._write.collected(messages), self._write.options
            is_idle = not (written.adds or self._write.replaces or self._write.foundation or options.app_id)
            if self._is_applied or is_idle:
                return
            with options.open() as catalog:
                self._write.commit(catalog, written, options.app_version)

    def abort(self, messages: Messages) -> None:
        """Delete the files of the tasks that have finished, where others have not."""
        self._write.discard_finished(messages)


class TableStreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a stream to one table, each once: the table records the number of the newest."""

    def __init__(self, options: SourceOptions, schema: StructType, *, overwrite: bool) -> None:
        with with_hint(), options.open() as catalog:
            taken = catalog.table(options.table).snapshot()
            self._write = TableWrite.planned(catalog, taken, options, schema, overwrite=overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """The part that runs on executors: the rows of one task."""
        return self._write.by_task(iterator)

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit a batch, unless it was committed before; if that is refused, delete its files."""
        with with_hint(), self._write.options.open() as catalog:
            written = self._write.collected(messages)
            with discarded_if_refused([written]):
                at_head = replace(self._write, version=self._head(catalog))
            if at_head.commit(catalog, written, batchId).already_applied:
                written.discard()

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803 - Spark's name
        """Delete the files of the tasks that have finished, where others have not."""
        self._write.discard_finished(messages)

    def _head(self, catalog: Catalog) -> int:
        """The version to follow on: a stream that runs for long is not held against all that was committed since."""
        layout = self._write.order.layout
        taken = catalog.table(self._write.options.table).snapshot()
        if (taken.metadata, taken.protocol) != (layout.metadata, layout.protocol):
            hint = "start the query again: it goes on with the table as it is now"
            raise InvalidInput(f"table {layout.table!r} has changed its metadata since the query began", hint=hint)
        return taken.version
