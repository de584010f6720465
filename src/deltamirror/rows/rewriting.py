"""Data files rewritten for a change of rows: copy-on-write, file by file.

A file is read twice: first the columns that say which rows change, then, where some rows do and others stay, all of
it. A file all of whose rows are deleted is not read a second time. Rows that change keep their ids where the table
tracks rows; their file states both ids in columns that the table has for it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from deltamirror.delta.actions import Add
from deltamirror.delta.properties import ROW_TRACKING, is_enabled
from deltamirror.delta.schema import Field, Primitive, StructType
from deltamirror.rows.changes import DELETED, Counts, Rewritten, RowChange, is_true
from deltamirror.rows.layout import Layout
from deltamirror.rows.scanning import Scan, TableFiles
from deltamirror.rows.skipping import live_records, partition_rows
from deltamirror.rows.writing import RowFiles, RowOrder
from deltamirror.storage.store import Store

__all__ = ["Rewriting", "removed_whole"]

_ROW_ID: Final = "delta.rowTracking.materializedRowIdColumnName"
_ROW_VERSION: Final = "delta.rowTracking.materializedRowCommitVersionColumnName"


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

    def insert(self, store: Store) -> Rewritten:
        """Write the rows that come beside those that tasks have changed."""
        counts: Counts = Counter()
        return Rewritten(self._write(self.change.inserted(counts), store), counts=counts)

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
            if found.total() == size and all(name.startswith(DELETED) for name in found):
                counts += found
            else:
                split.append(file)
        adds = self._write(chain(self._changed(split, opener, counts), inserted(counts)), store, task)
        return Rewritten(adds, removed, counts)

    def _write(self, rows: Iterable[pa.RecordBatch], store: Store, task: int = 0) -> list[Add]:
        return RowFiles(replace(self.order, layout=self._tracked), store, task).write(self._tracked.arrow_schema, rows)

    def _look(self, file: Mapping[str, Any], opener: TableFiles) -> tuple[Counts, int]:
        """How many rows of a file change, by what happens to them, and how many there are."""
        counts: Counts = Counter()
        rows = 0
        fields = [each for each in self.order.layout.schema.fields if each.name in self.change.columns]
        for _, batch in self._scan(self.order.layout, fields, opener).numbered_rows(file):
            counts += self.change.look(batch)
            rows += batch.num_rows
        return counts, rows

    def _changed(
        self, files: Sequence[Mapping[str, Any]], opener: TableFiles, counts: Counts
    ) -> Iterator[pa.RecordBatch]:
        scan = self._scan(self._tracked, self._tracked.schema.fields, opener)
        for file in files:
            for numbers, batch in scan.numbered_rows(file):
                found = self.change.change(self._with_ids(batch, file, numbers))
                counts.update(found.counts)
                yield found.copied
                if found.updated is not None:
                    yield self._without_version(found.updated)

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
