"""Merges whose source is too large for one process: Spark joins it with the keys of the table.

Three jobs. The first finds the rows of the source that match, and the group of files that each of them matches in. The
second changes the rows of each group by the rows that match in it, as in a merge with a small source. The third
inserts the rows that match nowhere. No process holds more of the source than matches the files of one group.
"""

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from deltamirror.delta.schema.arrow import to_arrow
from deltamirror.executors.access import explaining
from deltamirror.executors.failures import translated_query
from deltamirror.rows.casting import Caster
from deltamirror.rows.changes import Counts, Rewritten, is_true
from deltamirror.rows.discarding import discarded_on_failure
from deltamirror.rows.layout import Layout
from deltamirror.rows.merging import SOURCE, TARGET, MergeRows, one_struct
from deltamirror.rows.rewriting import Rewriting
from deltamirror.rows.scanning import TableFiles, file_groups
from deltamirror.rows.sources import LargeRows
from deltamirror.rows.spark import ANSWERS, ROW_ID, TaskEdit, answered, collected, edited, in_task, together, told
from deltamirror.rows.spark_batches import batches_by_rows
from deltamirror.rows.spark_scan import spark_schema
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.store import Store

_GROUP: Final = "group"
_GROUPS: Final = f"{_GROUP} int, files binary"
_NO_ANSWER: Final = pa.table({"answer": pa.array([], pa.binary())})


@dataclass(frozen=True, slots=True)
class LargeMerge:
    """A merge, and the rows of its source, which Spark keeps."""

    rows: LargeRows
    tasks: "_Tasks"

    @classmethod
    def of(cls, rows: LargeRows, source: Layout, rewriting: Rewriting, address: StoreAddress) -> "LargeMerge":
        """The merge of rows with the columns of ``source``."""
        return cls(rows, _Tasks(source, tuple(rows.schema.names), rewriting, address))

    def run(self, files: Sequence[Mapping[str, Any]], store: Store) -> Rewritten:
        """Change the rows of all files, and insert the others. If that fails, no file is left."""
        layout, address = self.tasks.rewriting.order.layout, self.tasks.address
        with (
            translated_query(f"merge the rows into table {layout.table!r}"),
            batches_by_rows(self.rows.frame.sparkSession),
            self._matching(groups := self._groups(files)) as matching,
        ):
            edits = self._edits(groups, matching)
            written = collected([each.rows for each in edits], layout, address, store)
            with discarded_on_failure([written]):
                inserts = self._inserts(matching)
                others = collected([each.rows for each in inserts], layout, address, store)
        counts = sum((each.rewritten.counts for each in inserts), Counts())
        return together(edits, written, Rewritten(adds=others.adds, changes=others.changes, counts=counts))

    def _groups(self, files: Sequence[Mapping[str, Any]]) -> DataFrame:
        groups = [(number, bytearray(pickle.dumps(group))) for number, group in enumerate(file_groups(files))]
        frame: DataFrame = self.rows.frame.sparkSession.createDataFrame(groups, _GROUPS)
        return frame.repartition(max(1, len(groups)))

    @contextmanager
    def _matching(self, groups: DataFrame) -> Iterator[DataFrame]:
        """Rows of the source beside the group that they match in, once for each row that they match."""
        tasks = self.tasks
        source = self.rows.frame.mapInArrow(tasks.keyed, spark_schema(tasks.keyed_schema))
        keys = groups.mapInArrow(tasks.keys_of_files, spark_schema(tasks.key_schema))
        pairs = source.join(keys, _names("k", len(tasks.change.keys)))
        found = pairs.select(_GROUP, ROW_ID, *tasks.source_columns, *tasks.target_columns)
        kept = found.mapInArrow(tasks.matching, spark_schema(tasks.matching_schema)).persist()
        try:
            yield kept
        finally:
            with suppress(Exception):  # the session may have ended, and the rows with it
                kept.unpersist()

    def _edits(self, groups: DataFrame, matching: DataFrame) -> list[TaskEdit]:
        tasks = self.tasks

        # Not a method, whose ``self`` Spark takes for the key of a group.
        def task(files: pa.Table, rows: pa.Table) -> pa.Table:
            return tasks.edit(files, rows)

        by_group = groups.groupBy(_GROUP).cogroup(matching.groupBy(_GROUP))
        return answered(by_group.applyInArrow(task, ANSWERS).toArrow().column(0))

    def _inserts(self, matching: DataFrame) -> list[TaskEdit]:
        if not self.tasks.change.not_matched:
            return []
        others = self.rows.frame.join(matching.select(ROW_ID), ROW_ID, "left_anti")
        named = others.select(*map(str, range(len(self.rows.schema))), ROW_ID)
        return answered(named.mapInArrow(self.tasks.insert, ANSWERS).toArrow().column(0))


@dataclass(frozen=True)  # no slots: what each batch needs is found once
class _Tasks:
    """The parts that run on executors."""

    source: Layout
    names: Sequence[str]
    """Of the columns of the source."""
    rewriting: Rewriting
    address: StoreAddress

    @property
    def change(self) -> MergeRows:
        """The merge, without the rows of its source."""
        assert isinstance(self.rewriting.change, MergeRows)  # noqa: S101 - narrows the type
        return self.rewriting.change

    @property
    def source_columns(self) -> list[str]:
        return _names("s", len(self.names))

    @property
    def target_columns(self) -> list[str]:
        return _names("t", len(self.rewriting.looked_up))

    @cached_property
    def keyed_schema(self) -> pa.Schema:
        rows = one_struct(pa.RecordBatch.from_pylist([], schema=to_arrow(self.source.schema)), SOURCE)
        keys = [each.type for each in self.change.source_keys(rows)]
        return _schema({ROW_ID: pa.int64()}, k=keys, s=to_arrow(self.source.schema).types)

    @cached_property
    def key_schema(self) -> pa.Schema:
        looked_up = pa.RecordBatch.from_pylist([], schema=self._looked_up)
        keys = [each.type for each in self.change.target_keys(looked_up)]
        return _schema({_GROUP: pa.int32()}, k=keys, t=looked_up.schema.types)

    @cached_property
    def matching_schema(self) -> pa.Schema:
        return _schema({_GROUP: pa.int32(), ROW_ID: pa.int64()}, s=to_arrow(self.source.schema).types)

    @cached_property
    def _looked_up(self) -> pa.Schema:
        known = self.rewriting.order.layout.arrow_schema
        return pa.schema([known.field(each.name).remove_metadata() for each in self.rewriting.looked_up])

    def keyed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of the source, with their keys."""
        with explaining():
            for batch in batches:
                rows = self._cast(batch.columns[:-1])
                keys = self.change.source_keys(one_struct(rows, SOURCE))
                yield _batch(self.keyed_schema, [batch.column(len(self.names)), *keys, *rows.columns])

    def keys_of_files(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The keys of all rows of groups of files, and what else says which rows match."""
        with explaining():
            opener = TableFiles.of_executor(self.address)
            for number, files in _unpacked(batches):
                for file in files:
                    for rows in self.rewriting.looked_at(file, opener):
                        group = pa.repeat(pa.scalar(number, pa.int32()), rows.num_rows)
                        yield _batch(self.key_schema, [group, *self.change.target_keys(rows), *rows.columns])

    def matching(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Of rows with equal keys, those that match."""
        with explaining():
            for batch in batches:
                group, row_id, *columns = batch.columns
                rows, targets = self._cast(columns[: len(self.names)]), columns[len(self.names) :]
                cast = [column.cast(kind) for column, kind in zip(targets, self._looked_up.types, strict=True)]
                target = one_struct(pa.RecordBatch.from_arrays(cast, names=self._looked_up.names), TARGET)
                both = [target.column(0), one_struct(rows, SOURCE).column(0)]
                joined = pa.RecordBatch.from_arrays(both, names=[TARGET, SOURCE])
                found = _batch(self.matching_schema, [group, row_id, *rows.columns])
                yield found.filter(is_true(joined, self.change.on, self.change.table))

    def edit(self, group: pa.Table, matching: pa.Table) -> pa.Table:
        """Change the rows of a group of files by the rows of the source that match there."""
        if not group.num_rows or not (matching.num_rows or self.change.by_source):
            return _NO_ANSWER
        ids = matching.column(ROW_ID).combine_chunks()
        once = matching.take(pc.index_in(ids.unique(), value_set=ids))
        columns = [each.combine_chunks() for each in once.columns[2:]]
        source = pa.Table.from_batches([self._cast(columns)])
        ((_, files),) = _unpacked(group.to_batches())
        found = edited(replace(self.rewriting, change=replace(self.change, source=source)), self.address, files)
        return pa.Table.from_batches([told(found)])

    def insert(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Insert rows of the source."""
        yield told(self._inserted(batches))

    def _inserted(self, batches: Iterator[pa.RecordBatch]) -> TaskEdit:
        def rows(counts: Counts) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield from self.change.insertions(one_struct(self._cast(batch.columns[:-1]), SOURCE), counts)

        return in_task(self.address, lambda store, task: self.rewriting.insert(store, rows, task=task))

    def _cast(self, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        """Rows of the source in the types of tables."""
        rows = pa.RecordBatch.from_arrays(list(columns), names=list(self.names))
        return Caster(rows.schema, self.source).cast(rows)


def _unpacked(batches: Sequence[pa.RecordBatch] | Iterator[pa.RecordBatch]) -> Iterator[tuple[int, list[Any]]]:
    for batch in batches:
        for number, files in zip(*batch.columns, strict=True):
            yield number.as_py(), pickle.loads(files.as_buffer())  # noqa: S301  our driver's


def _names(kind: str, count: int) -> list[str]:
    return [f"{kind}{number}" for number in range(count)]


def _schema(own: Mapping[str, pa.DataType], **numbered: Sequence[pa.DataType]) -> pa.Schema:
    """Columns with a name of their own, and others that go by a letter and a number."""
    fields = list(own.items())
    for kind, types in numbered.items():
        fields += zip(_names(kind, len(types)), types, strict=True)
    return pa.schema(fields)


def _batch(schema: pa.Schema, columns: Sequence[pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns), schema=schema)
