"""Edits: rows of a table that a transaction deletes, updates or merges, and the files that this comes to.

An edit is checked when it is asked for, and carried out when the transaction commits, on the files of the snapshot
that the transaction took. SQL says which files there are; partition values and statistics, which of them can have such
rows.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from functools import reduce
from importlib import import_module
from operator import and_
from typing import Any, Final, Protocol

import pyarrow.compute as pc

from deltamirror.arguments import mapping, shown, text
from deltamirror.catalog.rows import Box, RowWriter, removed_file, row_order
from deltamirror.delta.actions import Remove
from deltamirror.delta.commitinfo import (
    Parameters,
    RewriteMetrics,
    delete_metrics,
    predicate_parameters,
    update_metrics,
)
from deltamirror.delta.partitions import partition_text
from deltamirror.delta.properties import ROW_TRACKING, is_enabled
from deltamirror.delta.schema import Field
from deltamirror.delta.schema.columns import column_path, resolved_path
from deltamirror.delta.schema.keys import IDENTITY_START
from deltamirror.errors import InvalidInput, InvalidSchema, Refused
from deltamirror.rows.changes import (
    COPIED,
    DELETED,
    UPDATED,
    Counts,
    DeleteRows,
    Rewritten,
    RowChange,
    UpdateRows,
    has_change_data,
)
from deltamirror.rows.discarding import discarded_on_failure
from deltamirror.rows.duties import (
    require_copyable_rows,
    require_removable_rows,
    require_updatable_rows,
)
from deltamirror.rows.expressions import Mismatch, Value, assigned, literal_value
from deltamirror.rows.layout import Layout
from deltamirror.rows.parsing import Scope, condition_of, value_in
from deltamirror.rows.predicates import Condition, conjuncts, partition_choices
from deltamirror.rows.sources import LargeRows
from deltamirror.rows.writing import WrittenRows
from deltamirror.txnlog.commit.request import Operation
from deltamirror.txnlog.tables.reading import Snapshot, live_adds

Assignments = Mapping[str, object]
"""Columns with the values that they get: expressions of SQL as texts, or values of Python that are no texts."""

_LITERALS: Final = (bool, int, float, Decimal, date)


@dataclass(frozen=True, slots=True, kw_only=True)
class EditPlan:
    """What an edit does to the rows of one layout."""

    condition: Condition | None
    """Of the rows that it changes; None: all of them."""
    change: RowChange
    key_bounds: pc.Expression | None = None
    """What else has to be possible in a file with such rows."""
    source: tuple[LargeRows, Layout] | None = None
    """Rows that the change needs and that are too many to hold, with their columns."""
    removes_only: bool = False
    """All rows of the condition go: whole files need not be read where partition values decide."""

    @property
    def bounds(self) -> pc.Expression | None:
        """What has to be possible in a file with such rows; None: nothing."""
        known = [] if self.condition is None else [self.condition.of_bounds()]
        known += [] if self.key_bounds is None else [self.key_bounds]
        return reduce(and_, known) if known else None

    def boxes(self, layout: Layout) -> list[Box] | None:
        """The partitions that have such rows, as far as that can be said; None: all of them."""
        columns = {each.name for each in layout.partition_fields}
        box = {} if self.condition is None else partition_choices(conjuncts(self.condition), columns)
        return [box] if box else None

    def of_partitions(self, layout: Layout) -> bool:
        """Whether partition values alone say which rows are meant, and these rows only go."""
        named = {path[0] for path in self.condition.columns} if self.condition is not None else set()
        return self.removes_only and named <= {each.name for each in layout.partition_fields}

    def has_change_data(self, layout: Layout) -> bool:
        """Whether files of change data tell of it: readers of the feed take nothing else of the commit then."""
        return has_change_data(self.change, layout) and not self.of_partitions(layout)


class Edit(Protocol):
    """What was asked for."""

    @property
    def operation(self) -> str:
        """The name in the history."""

    @property
    def parameters(self) -> Parameters:
        """How the commit describes itself, in Delta Spark's words."""

    @property
    def fingerprint(self) -> str:
        """What tells it from another edit under the same token."""

    def plan(self, layout: Layout, *, rows_checked: bool) -> EditPlan:
        """Check it against a table; InvalidInput or Refused say what is wrong."""

    def loaded(self, plan: EditPlan, layout: Layout, most: int) -> EditPlan:
        """The plan with the data that it needs, which is read once; Spark keeps data of more bytes than that."""

    def metrics(self, rewrite: RewriteMetrics, counts: Counts, *, is_counted: bool) -> dict[str, str]:
        """The numbers for the history."""


class _WithoutData:
    """An edit that needs no data beside the table's own."""

    __slots__ = ()

    def loaded(self, plan: EditPlan, layout: Layout, most: int) -> EditPlan:
        """The same."""
        return plan


@dataclass(frozen=True, slots=True)
class Deletion(_WithoutData):
    """Rows to be deleted; without a condition, all of them."""

    predicate: str | None
    operation: str = "DELETE"

    @property
    def parameters(self) -> Parameters:
        """The condition."""
        return predicate_parameters(self.predicate, otherwise=["true"])

    @property
    def fingerprint(self) -> str:
        """The condition."""
        return f"delete where={self.predicate}"

    def plan(self, layout: Layout, *, rows_checked: bool) -> EditPlan:
        """The rows that stay are copied as they are."""
        condition = None if self.predicate is None else condition_of(self.predicate, layout)
        of_rows = pc.scalar(True) if condition is None else condition.of_rows()
        change = DeleteRows(layout.table, of_rows, _columns(condition, layout))
        plan = EditPlan(condition=condition, change=change, removes_only=True)
        require_removable_rows(layout)
        if not plan.of_partitions(layout):
            require_copyable_rows(layout)
        return plan

    def metrics(self, rewrite: RewriteMetrics, counts: Counts, *, is_counted: bool) -> dict[str, str]:
        """The metrics of a DELETE."""
        return delete_metrics(rewrite, copied=counts[COPIED], deleted=counts[DELETED] if is_counted else None)


@dataclass(frozen=True, slots=True)
class Updating(_WithoutData):
    """Rows to be updated: columns with expressions, and a condition; without one, all rows."""

    values: Mapping[str, object]
    predicate: str | None
    operation: str = "UPDATE"

    @property
    def parameters(self) -> Parameters:
        """The condition."""
        return predicate_parameters(self.predicate)

    @property
    def fingerprint(self) -> str:
        """Values and condition."""
        return f"update {sorted(self.values.items(), key=str)} where={self.predicate}"

    def plan(self, layout: Layout, *, rows_checked: bool) -> EditPlan:
        """Rows that change have to meet the rules of the table."""
        require_removable_rows(layout)
        require_updatable_rows(layout, rows_checked=rows_checked)
        condition = None if self.predicate is None else condition_of(self.predicate, layout)
        values = assigned_values(self.values, layout, Scope.of(layout))
        of_rows = None if condition is None else condition.of_rows()
        change = UpdateRows(layout.table, of_rows, _columns(condition, layout), values)
        return EditPlan(condition=condition, change=change)

    def metrics(self, rewrite: RewriteMetrics, counts: Counts, *, is_counted: bool) -> dict[str, str]:
        """The metrics of an UPDATE."""
        return update_metrics(rewrite, copied=counts[COPIED], updated=counts[UPDATED])


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """What an edit came to: new files, removes, and what was read to find them."""

    edit: Edit
    written: WrittenRows
    removes: Sequence[Remove]
    boxes: Sequence[Box] | None
    """The partitions that it looked into; None: all of them."""
    metrics: Mapping[str, str]
    keeps_row_ids: bool

    def described(self, operation: Operation) -> Operation:
        """How the commit describes itself, where that was not told."""
        tags = {"delta.rowTracking.preserved": "true"} if self.keeps_row_ids else {}
        return Operation(
            name=operation.name or self.edit.operation,
            parameters=operation.parameters or self.edit.parameters,
            metrics=operation.metrics or self.metrics,
            user_metadata=operation.user_metadata,
            tags={**tags, **(operation.tags or {})} or None,
        )


@dataclass(frozen=True, slots=True)
class Editor:
    """Carries edits of one table out, on the files of a snapshot."""

    layout: Layout
    taken: Snapshot
    writer: RowWriter
    location: str
    session: Any = None
    """Of Spark, whose executors read and write the files; without one, this process does."""

    def carry_out(self, edit: Edit, plan: EditPlan) -> Edited:
        """Find the rows of an edit, and write the files that take the place of theirs."""
        began = time.monotonic()
        plan = edit.loaded(plan, self.layout, self.writer.settings.rows.memory)
        files = self._candidates(plan)
        found = time.monotonic()
        rewritten = self._rewritten(plan, files)
        store = self.writer.place(self.location)[1]
        written = WrittenRows(self.layout, store, rewritten.adds, rewritten.changes)
        rewrite = RewriteMetrics(
            added=rewritten.adds,
            change_files=len(rewritten.changes),
            removed=self._removes(rewritten, written),
            scan_ms=_milliseconds(found - began),
            rewrite_ms=_milliseconds(time.monotonic() - found),
        )
        return Edited(
            edit=edit,
            written=written,
            removes=rewrite.removed,
            boxes=plan.boxes(self.layout),
            metrics=edit.metrics(rewrite, rewritten.counts, is_counted=rewritten.is_counted),
            keeps_row_ids=is_enabled(self.layout.metadata, ROW_TRACKING),
        )

    def _removes(self, rewritten: Rewritten, written: WrittenRows) -> list[Remove]:
        with discarded_on_failure([written]):
            adds = live_adds(self.taken, rewritten.removed)
        return [removed_file(adds[path], data_change=True) for path in rewritten.removed]

    def _candidates(self, plan: EditPlan) -> list[dict[str, Any]]:
        """The files that may have such rows."""
        scanning = import_module("deltamirror.rows.scanning")  # with a library that nothing else waits for
        scanning.require_readable_rows(self.layout)
        return list(scanning.listed_files(self.taken.files_among, plan.bounds, self.layout))

    def _rewritten(self, plan: EditPlan, files: Sequence[Mapping[str, Any]]) -> Rewritten:
        scanning = import_module("deltamirror.rows.scanning")
        rewriting = import_module("deltamirror.rows.rewriting")
        if plan.of_partitions(self.layout):
            whole: Rewritten = rewriting.removed_whole(
                files, pc.scalar(True) if plan.condition is None else plan.condition.of_rows(), self.layout
            )
            return whole
        order = replace(row_order(self.layout, self.writer.settings, None), rules_met=True, copies=plan.removes_only)
        opener = scanning.TableFiles(self.location, self.writer.settings.storage)
        address, store = self.writer.place(self.location)
        work = rewriting.Rewriting(order, plan.change)
        if plan.source is not None:
            merging = import_module("deltamirror.rows.spark_merging")
            merged: Rewritten = merging.LargeMerge.of(*plan.source, work, address).run(files, store)
            return merged
        if self.session is None:
            found: Rewritten = work.run(files, opener, store)
            return found
        spark = import_module("deltamirror.rows.spark")
        by_tasks: Rewritten = spark.edited_by_tasks(self.session, work, files, address, store)
        return by_tasks


def assignments_of(values: object, name: str) -> Assignments:
    """Columns with expressions of SQL, or with values of Python."""
    found = mapping(values, name, of="expressions")
    if not found:
        raise InvalidInput(f"{name} names no column", hint=f'give {name}={{"amount": "amount * 1.1"}}')
    for column, value in found.items():
        if value is not None and not isinstance(value, (str, *_LITERALS)):
            hint = (
                'give an expression of SQL as a text, such as "amount * 1.1" or "\'done\'", or a number, date or None'
            )
            raise InvalidInput(f"{name}[{column!r}] has to be an expression, not {shown(value)}", hint=hint)
    return found


def condition_text(value: object, name: str) -> str | None:
    """A condition; None: all rows."""
    hint = "write it like \"day = '2026-11-16' AND amount > 10\""
    return None if value is None else text(value, name, hint=hint)


def assigned_values(values: Assignments, layout: Layout, scope: Scope) -> dict[str, pc.Expression]:
    """Columns of a table with the values that they get; InvalidInput for what cannot be one of theirs."""
    found: dict[str, pc.Expression] = {}
    for name, value in values.items():
        column = _settable(name, layout)
        if column.name in found:
            raise InvalidInput(f"the column {column.name!r} is set twice, but for case", hint="leave one of them out")
        try:
            found[column.name] = assigned(_value(value, scope, column), column)
        except Mismatch as error:
            hint = "write an expression of the column's type"
            raise InvalidInput(f"table {layout.table!r}: {column.name!r} cannot be set: {error}", hint=hint) from None
    return found


def _settable(name: str, layout: Layout) -> Field:
    path = () if layout.schema.get(name) is not None else _known_path(name, layout)
    if len(path) > 1:
        hint = f"give {path[0]!r} a whole value, or set the field in Spark"
        raise InvalidInput(f"table {layout.table!r}: {name!r} is a field, which cannot be set alone", hint=hint)
    if (column := layout.schema.get(*(path or (name,)))) is None:
        known = ", ".join(each.name for each in layout.schema.fields)
        hint = f"there are: {known}; of a struct, set the whole"
        raise InvalidInput(f"table {layout.table!r} has no column {name!r}", hint=hint)
    if IDENTITY_START in column.metadata:
        raise Refused(
            f"table {layout.table!r}: {column.name!r} is an identity column, whose values are never set",
            hint="leave it out",
            table=layout.table,
        )
    return column


def _known_path(name: str, layout: Layout) -> Sequence[str]:
    """The names of a column, or of a field such as ``address.zip``, in backticks or not; empty: there is none."""
    try:
        return resolved_path(layout.schema, column_path(name))
    except InvalidSchema:
        return ()


def _value(value: object, scope: Scope, column: Field) -> Value:
    if isinstance(value, str):
        return value_in(value, scope)
    try:
        given = None if value is None else partition_text(value, column.type)  # type: ignore[arg-type]  # was looked at
    except ValueError as error:
        raise Mismatch(str(error)) from None
    return literal_value(given, text=str(value))


def _columns(condition: Condition | None, layout: Layout) -> frozenset[str]:
    """The columns by which rows are found: at least one for a condition, so that batches have rows."""
    if condition is None:
        return frozenset()
    return frozenset(path[0] for path in condition.columns) or frozenset({layout.schema.fields[0].name})


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
