"""Data files rewritten for a change of rows: copy-on-write, file by file.

A file is read twice: first the columns that say which rows change, then, where some rows do and others stay, all of
it. A file all of whose rows are deleted is not read a second time, unless the table has a change data feed: then rows
that change are also written to files of change data, as they were and as they are. Rows keep their ids where the table
tracks rows; their file states both ids in columns that the table has for it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any, Final, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from deltamirror.delta.actions import Add, Cdc
from deltamirror.delta.properties import ROW_TRACKING, is_enabled
from deltamirror.delta.schema import Field, Primitive, StructType
from deltamirror.errors import Refused
from deltamirror.rows.changes import (
    DELETED,
    ChangedRows,
    ChangeType,
    Counts,
    Rewritten,
    RowChange,
    has_change_data,
    is_true,
)
from deltamirror.rows.discarding import discarded_on_failure
from deltamirror.rows.layout import Layout
from deltamirror.rows.scanning import Scan, TableFiles
from deltamirror.rows.skipping import live_records, partition_rows
from deltamirror.rows.writing import RowFiles, RowOrder
from deltamirror.storage.store import Store

_ROW_ID: Final = "delta.rowTracking.materializedRowIdColumnName"
_ROW_VERSION: Final = "delta.rowTracking.materializedRowCommitVersionColumnName"
_CHANGE_TYPE: Final = "_change_type"

_Record: TypeAlias = Callable[[ChangeType, pa.RecordBatch], None]
"""Takes rows for the change data feed."""


@dataclass(frozen=True)  # no slots: what each file needs is found once
class Rewriting:
    """A change, and how its files are written; fit to travel to other processes."""

    order: RowOrder
    change: RowChange

    def run(self, files: Iterable[Mapping[str, Any]], opener: TableFiles, store: Store) -> Rewritten:
        """Change the rows of all files that may have such rows; rows that come beside them go into the same files."""
        return self._run(files, opener, store, self.change.inserted)

    def run_task(self, files: Iterable[Mapping[str, Any]], opener: TableFiles, store: Store, *, task: int) -> Rewritten:
        """Change the rows of some of the files."""
        return self._run(files, opener, store, lambda _: (), task=task)

    def insert(
        self, store: Store, inserted: Callable[[Counts], Iterable[pa.RecordBatch]] | None = None, *, task: int = 0
    ) -> Rewritten:
        """Write the rows that come beside those that tasks have changed: these, or all that the change knows of."""
        counts: Counts = Counter()
        rows = (inserted or self.change.inserted)(counts)
        adds, changes = self._write(lambda record: self._inserted(rows, record), store, task)
        return Rewritten(adds=adds, changes=changes, counts=counts)

    def looked_at(self, file: Mapping[str, Any], opener: TableFiles) -> Iterator[pa.RecordBatch]:
        """The rows of a file, with the columns that say which of them change."""
        for _, batch in self._scan(self.order.layout, self.looked_up, opener).numbered_rows(file):
            yield batch

    @cached_property
    def looked_up(self) -> list[Field]:
        """The columns that say which rows change."""
        return [each for each in self.order.layout.schema.fields if each.name in self.change.columns]

    def _run(
        self,
        files: Iterable[Mapping[str, Any]],
        opener: TableFiles,
        store: Store,
        inserted: Callable[[Counts], Iterable[pa.RecordBatch]],
        *,
        task: int = 0,
    ) -> Rewritten:
        counts: Counts = Counter()
        removed: list[str] = []
        split: list[Mapping[str, Any]] = []
        for file in files:
            found, size = self._look(file, opener)
            if not found.total():
                continue
            removed.append(file["path"])
            is_deleted = found.total() == size and all(name.startswith(DELETED) for name in found)
            if is_deleted and not self._has_feed:
                counts += found
            else:
                split.append(file)
        adds, changes = self._write(
            lambda record: chain(
                self._changed(split, opener, counts, record), self._inserted(inserted(counts), record)
            ),
            store,
            task,
        )
        return Rewritten(adds=adds, changes=changes, removed=removed, counts=counts)

    @cached_property
    def _has_feed(self) -> bool:
        return has_change_data(self.change, self.order.layout)

    def _write(
        self, rows: Callable[[_Record], Iterable[pa.RecordBatch]], store: Store, task: int = 0
    ) -> tuple[list[Add], list[Cdc]]:
        """Write rows, and the changes that are recorded as these are computed. If that fails, no file is left."""
        order = replace(self.order, layout=self._tracked)
        if not self._has_feed:
            return RowFiles(order, store, task).write(self._tracked.arrow_schema, rows(_not_recorded)), []
        half = msgspec.structs.replace(order.settings, memory=order.settings.memory // 2)
        feed = replace(order, layout=self._recorded, settings=half, is_change_data=True)
        data, changes = (RowFiles(each, store, task) for each in (replace(order, settings=half), feed))
        with discarded_on_failure([data]), changes.taking(self._recorded.arrow_schema) as take:
            data.write(self._tracked.arrow_schema, rows(partial(self._record, take)))
        return data.adds, changes.changes

    def _record(self, take: Callable[[pa.RecordBatch], None], kind: ChangeType, rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            own = rows.select([name for name in rows.schema.names if self.order.layout.schema.get(name) is not None])
            take(own.append_column(_CHANGE_TYPE, pa.repeat(kind.value, rows.num_rows)))

    def _look(self, file: Mapping[str, Any], opener: TableFiles) -> tuple[Counts, int]:
        """How many rows of a file change, by what happens to them, and how many there are."""
        counts: Counts = Counter()
        rows = 0
        for batch in self.looked_at(file, opener):
            counts += self.change.look(batch)
            rows += batch.num_rows
        return counts, rows

    def _changed(
        self, files: Sequence[Mapping[str, Any]], opener: TableFiles, counts: Counts, record: _Record
    ) -> Iterator[pa.RecordBatch]:
        scan = self._scan(self._tracked, self._tracked.schema.fields, opener)
        for file in files:
            for numbers, batch in scan.numbered_rows(file):
                found = self.change.change(self._with_ids(batch, file, numbers))
                counts.update(found.counts)
                yield found.copied
                if self._has_feed:
                    _record_all(found, record)
                if found.updated is not None:
                    yield self._without_version(found.updated)

    @staticmethod
    def _inserted(rows: Iterable[pa.RecordBatch], record: _Record) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            record(ChangeType.INSERT, batch)
            yield batch

    @staticmethod
    def _scan(layout: Layout, fields: Iterable[Field], opener: TableFiles) -> Scan:
        return Scan(layout, opener, (), tuple(fields), None)

    @cached_property
    def _tracked(self) -> Layout:
        """The layout with the columns of row ids, if the table has them: they are in files, not in the schema."""
        layout = self.order.layout
        if not _tracks_rows(layout):
            return layout
        own = tuple(Field(layout.metadata.configuration[key], Primitive("long")) for key in (_ROW_ID, _ROW_VERSION))
        return replace(layout, schema=StructType((*layout.schema.fields, *own)))

    @cached_property
    def _recorded(self) -> Layout:
        """The layout of change data: the columns of the table, and the type of the change."""
        layout = self.order.layout
        if layout.schema.get(_CHANGE_TYPE) is not None:
            raise Refused(
                f"table {layout.table!r} has a column {_CHANGE_TYPE!r}, which the change data feed has for itself",
                hint="rename the column, or turn delta.enableChangeDataFeed off",
                table=layout.table,
            )
        return replace(layout, schema=StructType((*layout.schema.fields, Field(_CHANGE_TYPE, Primitive("string")))))

    def _with_ids(self, rows: pa.RecordBatch, file: Mapping[str, Any], numbers: pa.Array) -> pa.RecordBatch:
        """The rows with their ids: those that their file states, or those that follow from their place in it."""
        if not _tracks_rows(self.order.layout) or file["base_row_id"] is None:
            return rows
        first, version = (pa.scalar(file[key], pa.int64()) for key in ("base_row_id", "default_row_commit_version"))
        *others, ids, versions = rows.columns
        columns = [*others, pc.coalesce(ids, pc.add(numbers, first)), pc.coalesce(versions, version)]
        return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)

    def _without_version(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows that this commit changes: their version is that of their file."""
        if not _tracks_rows(self.order.layout):
            return rows
        columns = [*rows.columns[:-1], pa.nulls(rows.num_rows, pa.int64())]
        return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)


def _record_all(found: ChangedRows, record: _Record) -> None:
    for kind, rows in found.before:
        record(kind, rows)
    if found.updated is not None:
        record(ChangeType.AFTER, found.updated)


def _not_recorded(kind: ChangeType, rows: pa.RecordBatch) -> None:
    """The table has no change data feed."""


def removed_whole(files: Sequence[Mapping[str, Any]], condition: pc.Expression, layout: Layout) -> Rewritten:
    """Remove the files whose partition values meet a condition, which names nothing else; none of them is opened."""
    matches = is_true(partition_rows(files, layout), condition, layout.table).to_pylist() if files else []
    files = [file for file, matched in zip(files, matches, strict=True) if matched]
    rows = [live_records(file) for file in files]
    counts = Counter({DELETED: sum(each or 0 for each in rows)})
    return Rewritten(removed=[file["path"] for file in files], counts=counts, is_counted=None not in rows)


def _tracks_rows(layout: Layout) -> bool:
    """Whether rows keep their ids when they are rewritten."""
    return is_enabled(layout.metadata, ROW_TRACKING)
