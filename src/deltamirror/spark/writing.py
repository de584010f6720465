"""Rows that Spark saves to a table: executors write the files, and one commit of the driver names them."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from deltamirror.catalog.rows import (
    Replacement,
    merged_with,
    replaced_files,
    replacement_of,
    row_order,
    write_description,
)
from deltamirror.delta.actions import Action
from deltamirror.delta.schema import parse_schema
from deltamirror.delta.schema.arrow import to_arrow
from deltamirror.errors import DeltaMirrorError, Internal, Transient, Unavailable
from deltamirror.executors.access import executor_store
from deltamirror.rows.casting import require_castable
from deltamirror.rows.duties import require_writable_rows
from deltamirror.rows.layout import Layout
from deltamirror.rows.spark import TaskRows, collected, written_by_task
from deltamirror.rows.writing import WrittenRows
from deltamirror.spark.options import SourceOptions, with_hint
from deltamirror.storage.open import StoreAddress

__all__ = ["TableWriter", "TaskMessage"]


@dataclass
class TaskMessage(WriterCommitMessage):
    """What a task has written."""

    rows: TaskRows


class TableWriter(DataSourceArrowWriter):
    """Writes the rows of a DataFrame to one table. It travels to executors, without credentials."""

    def __init__(self, options: SourceOptions, schema: StructType, *, overwrite: bool) -> None:
        self._options = options
        self._names = tuple(schema.fieldNames())
        with with_hint(), options.open() as catalog:
            taken = catalog.table(options.table).snapshot()
            source, founded = to_arrow(parse_schema(schema.json())), (taken.metadata, taken.protocol)
            if options.merges_schema:
                founded = merged_with(*founded, source)
            layout = Layout.of(taken.table, *founded)
            require_writable_rows(layout, rows_checked=False)
            require_castable(source, layout)
            self._replaces = _replacement(options, layout) if overwrite else None
            self._order = row_order(layout, catalog.settings, self._replaces)
            self._address = StoreAddress.of(catalog.table(taken.table).location, catalog.settings.storage)
            applied = taken.transactions().get(options.app_id or "")
        self._version = taken.version
        metadata, protocol = founded
        self._foundation: list[Action] = [
            *([metadata] if metadata != taken.metadata else []),
            *([protocol] if protocol != taken.protocol else []),
        ]
        self._is_applied = applied is not None and applied.version >= (options.app_version or 0)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """The part that runs on executors: the rows of one task."""
        rows = (pa.RecordBatch.from_arrays(batch.columns, names=list(self._names)) for batch in iterator)
        if self._is_applied:
            deque(rows, maxlen=0)  # Spark has computed them already
        return TaskMessage(written_by_task(self._order, self._address, rows))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the files of all tasks; if that is refused, delete them."""
        with with_hint():
            found = [each.rows for each in messages if isinstance(each, TaskMessage)]
            written = collected(found, self._order.layout, self._address, executor_store(self._address))
            if self._is_applied or not (written.adds or self._replaces or self._options.app_id or self._foundation):
                return
            try:
                self._commit(written)
            except (Transient, Unavailable, Internal):
                raise
            except DeltaMirrorError:
                written.discard()
                raise

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete the files of the tasks that have finished, where others have not.

        Spark calls it after a commit that failed, too, also if its outcome is not known: files may be committed then.
        """
        if None not in messages:
            return
        adds = [add for each in messages if isinstance(each, TaskMessage) for add in each.rows.adds]
        WrittenRows(self._order.layout, executor_store(self._address), adds).discard()

    @property
    def _described(self) -> dict[str, Any]:
        """How the commit describes itself; one that only adds rows needs no words."""
        merges = self._options.merges_schema
        if self._replaces is None and not merges:
            return {}
        return {"operation": "WRITE", "parameters": write_description(self._replaces, merges_schema=merges)}

    def _commit(self, written: WrittenRows) -> None:
        table, replaces = self._options.table, self._replaces
        with self._options.open() as catalog, catalog.transaction(**self._described) as tx:
            tx.stage(table, [*self._foundation, *written.adds], read_version=self._version)
            if self._options.app_id is not None and self._options.app_version is not None:
                tx.set_transaction(table, self._options.app_id, self._options.app_version)
            if replaces is not None:
                boxes = replaces.boxes(written.partitions)
                removes = replaced_files(catalog.table(table).snapshot(self._version), boxes)
                tx.stage(table, removes, read_version=self._version)
                tx.read(table, partitions=boxes, all=boxes is None)


def _replacement(options: SourceOptions, layout: Layout) -> Replacement:
    return replacement_of(options.replace_where, options.is_dynamic, layout)
