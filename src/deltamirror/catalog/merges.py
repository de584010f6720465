"""Merges: what becomes of the rows of a table that match those of a source, of those that do not, and of the others."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

import pyarrow as pa

from deltamirror.arguments import listed, shown, text
from deltamirror.catalog.edits import Assignments, EditPlan, assigned_values, assignments_of, condition_text
from deltamirror.delta.commitinfo import Parameters, RewriteMetrics, merge_metrics, merge_parameters
from deltamirror.delta.schema import Field, StructType
from deltamirror.delta.schema.arrow import from_arrow, to_arrow
from deltamirror.errors import InvalidInput
from deltamirror.rows.casting import Caster, plain_schema, require_castable
from deltamirror.rows.changes import COPIED, DELETED, UPDATED, Counts
from deltamirror.rows.duties import require_removable_rows, require_updatable_rows, require_writable_rows
from deltamirror.rows.expressions import Value, brought_together, column_value
from deltamirror.rows.layout import Layout
from deltamirror.rows.merging import BY_SOURCE, INSERTED, SOURCE, TARGET, Clause, MergeRows
from deltamirror.rows.parsing import Scope, condition_in
from deltamirror.rows.predicates import Comparison, Condition, IsNull, Joined, Not, Related, conjuncts
from deltamirror.rows.sources import LargeRows, RowSource
from deltamirror.rows.writing import with_rows


@dataclass(frozen=True, slots=True)
class Update:
    """Give columns the values of expressions; without any, all columns those of the source."""

    set: Assignments | None = None
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the row."""

    where: str | None = None


@dataclass(frozen=True, slots=True)
class Insert:
    """Add the row of the source: columns with the values of expressions; without any, all columns."""

    values: Assignments | None = None
    where: str | None = None


MergeClause: TypeAlias = Update | Delete | Insert
_C = TypeVar("_C", bound=Update | Delete | Insert)
OneOrMore: TypeAlias = _C | Sequence[_C]
"""One clause, or several in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClauses:
    """All clauses of a merge; of each list, the first whose condition holds decides."""

    matched: Sequence[Update | Delete] = ()
    not_matched: Sequence[Insert] = ()
    not_matched_by_source: Sequence[Update | Delete] = ()


def clauses_of(matched: object, not_matched: object, not_matched_by_source: object) -> MergeClauses:
    """The clauses as callers give them: one, or several in a list; InvalidInput for what is none of these."""
    found = MergeClauses(
        matched=tuple(_clauses(matched, "matched", (Update, Delete))),
        not_matched=tuple(_clauses(not_matched, "not_matched", (Insert,))),
        not_matched_by_source=tuple(_clauses(not_matched_by_source, "not_matched_by_source", (Update, Delete))),
    )
    if not (found.matched or found.not_matched or found.not_matched_by_source):
        raise InvalidInput("the merge has no clause", hint="say what to do: matched=Update(), not_matched=Insert()")
    if any(isinstance(each, Update) and each.set is None for each in found.not_matched_by_source):
        hint = 'say which: Update({"gone": "true"})'
        raise InvalidInput("rows that the source does not have get no values from it", hint=hint)
    return found


def _clauses(given: object, name: str, wanted: tuple[type[_C], ...]) -> Iterator[_C]:
    words = " or ".join(f"{each.__name__}(…)" for each in wanted)
    clauses = [] if given is None else list(listed(given, name, one=wanted, of=words))
    for number, each in enumerate(clauses, start=1):
        if not isinstance(each, wanted):
            raise InvalidInput(f"each of {name} has to be {words}, not {shown(each)}", hint="see docs/guides/rows.md")
        if each.where is None and number < len(clauses):
            hint = "give it a condition, or put it last"
            raise InvalidInput(f"clause {number} of {name} has no condition, so that no later one counts", hint=hint)
        yield _checked(each, name)


def _checked(clause: _C, name: str) -> _C:
    condition_text(clause.where, f"where of {name}")
    if isinstance(clause, Update) and clause.set is not None:
        assignments_of(clause.set, "set")
    if isinstance(clause, Insert) and clause.values is not None:
        assignments_of(clause.values, "values")
    return clause


def join_text(on: object) -> str:
    """The condition by which rows match: a text, or a list of columns that are equal."""
    if isinstance(on, str):
        return on
    hint = 'give on=["id"], or on="target.id = source.key"'
    names = [text(each, "each of on", hint=hint) for each in listed(on, "on", one=(), of="names of columns")]
    if not names:
        raise InvalidInput("on names no column", hint=hint)
    quoted = ["`{}`".format(name.replace("`", "``")) for name in names]
    return " AND ".join(f"{TARGET}.{name} = {SOURCE}.{name}" for name in quoted)


@dataclass(frozen=True, slots=True)
class Merge:
    """Rows of a source to be merged into a table."""

    rows: RowSource
    on: str
    clauses: MergeClauses
    operation: str = "MERGE"
    _taken: list[int] = field(default_factory=list, repr=False)
    """How many rows the source had, once they were read."""

    @property
    def parameters(self) -> Parameters:
        """The conditions."""
        described = (
            [(type(each).__name__.lower(), each.where) for each in found]
            for found in (self.clauses.matched, self.clauses.not_matched, self.clauses.not_matched_by_source)
        )
        matched, not_matched, by_source = described
        return merge_parameters(self.on, matched=matched, not_matched=not_matched, not_matched_by_source=by_source)

    @property
    def fingerprint(self) -> str:
        """Conditions and values; the token stands for the rows."""
        return f"merge on={self.on} {self.clauses}"

    def plan(self, layout: Layout, *, rows_checked: bool) -> EditPlan:
        """Check all clauses; no row of the source is looked at yet."""
        require_removable_rows(layout)
        if self.clauses.not_matched:
            require_writable_rows(layout, rows_checked=rows_checked)
        else:
            require_updatable_rows(layout, rows_checked=rows_checked)
        require_castable(self.rows.schema, self._source_layout(layout))
        return _Planner(self, layout).plan()

    def _source_layout(self, layout: Layout) -> Layout:
        return replace(layout, table=SOURCE, schema=self.source_type, mode="none")

    def metrics(self, rewrite: RewriteMetrics, counts: Counts, *, is_counted: bool) -> dict[str, str]:
        """The metrics of a MERGE; all files are read, so that rows are always counted."""
        return merge_metrics(
            rewrite,
            source_rows=sum(self._taken),
            copied=counts[COPIED],
            inserted=counts[INSERTED],
            matched=(counts[UPDATED], counts[DELETED]),
            by_source=(counts[UPDATED + BY_SOURCE], counts[DELETED + BY_SOURCE]),
        )

    @property
    def source_type(self) -> StructType:
        """The columns of the source."""
        return from_arrow(plain_schema(self.rows.schema))

    def loaded(self, plan: EditPlan, layout: Layout, most: int) -> EditPlan:
        """The plan with the rows of the source; files outside of their keys are left out, if it is held here."""
        rows, columns = self.rows.read(most), self._source_layout(layout)
        if isinstance(rows, LargeRows):
            self._taken.append(rows.count)
            return replace(plan, source=(rows, columns))
        caster = Caster(self.rows.schema, columns)
        source = pa.Table.from_batches([caster.cast(batch) for batch in with_rows(rows)], caster.schema)
        self._taken.append(source.num_rows)
        assert isinstance(plan.change, MergeRows)  # noqa: S101 - narrows the type; `plan` has made it
        change = replace(plan.change, source=source)
        bounds = None if self.clauses.not_matched_by_source else change.key_bounds()
        return replace(plan, change=change, key_bounds=bounds)


@dataclass(frozen=True, slots=True)
class _Planner:
    merge: Merge
    layout: Layout

    def plan(self) -> EditPlan:
        on = condition_in(self.merge.on, self._scope(TARGET, SOURCE))
        keys = list(_keys(on))
        if not keys:
            raise InvalidInput(
                f"the condition {self.merge.on!r} has no equality of target and source",
                hint='name columns that are equal where rows match: on=["id"], or on="target.id = source.key"',
            )
        clauses = self.merge.clauses
        change = MergeRows(
            table=self.layout.table,
            columns=frozenset(self._target_columns(on)) | {self.layout.schema.fields[0].name},
            source=to_arrow(self.merge.source_type).empty_table(),
            keys=[(one.expression, other.expression) for one, other in keys],
            key_paths=[one.path for one, _ in keys],
            on=on.of_rows(),
            matched=[self._clause(each, TARGET, SOURCE) for each in clauses.matched],
            not_matched=[self._clause(each, SOURCE) for each in clauses.not_matched],
            by_source=[self._clause(each, TARGET) for each in clauses.not_matched_by_source],
        )
        return EditPlan(condition=self._target_condition(on), change=change)

    def _scope(self, *sides: str) -> Scope:
        types = {TARGET: self.layout.schema, SOURCE: self.merge.source_type}
        return Scope(
            f"table {self.layout.table!r}", StructType(tuple(Field(name, types[name]) for name in sides)), sides
        )

    def _clause(self, clause: MergeClause, *sides: str) -> Clause:
        scope = self._scope(*sides)
        condition = None if clause.where is None else condition_in(clause.where, scope).of_rows()
        if isinstance(clause, Delete):
            return Clause(condition)
        given = clause.set if isinstance(clause, Update) else clause.values
        values = assigned_values(self._all_columns() if given is None else given, self.layout, scope)
        if isinstance(clause, Insert):
            known = self.layout.arrow_schema
            require_castable(pa.schema([known.field(name) for name in values]), self.layout)
        return Clause(condition, values)

    def _all_columns(self) -> dict[str, object]:
        """Every column of the table with that of the source that has its name."""
        source = self.merge.source_type
        for each in self.layout.schema.fields:
            if source.get(each.name) is None:
                hint = "add it to the source, or say which columns are set"
                raise InvalidInput(
                    f"table {self.layout.table!r}: the source has no column {each.name!r} to take values from",
                    hint=hint,
                )
        names = [each.name.replace("`", "``") for each in self.layout.schema.fields]
        return {each.name: f"{SOURCE}.`{name}`" for each, name in zip(self.layout.schema.fields, names, strict=True)}

    def _target_columns(self, on: Condition) -> Iterator[str]:
        """The columns of the table that say which rows change."""
        clauses = self.merge.clauses
        texts = [each.where for each in clauses.matched]
        conditions = [condition_in(each, self._scope(TARGET, SOURCE)) for each in texts if each is not None]
        own = [each.where for each in clauses.not_matched_by_source]
        conditions += [condition_in(each, self._scope(TARGET)) for each in own if each is not None]
        for condition in (on, *conditions):
            yield from (path[1] for path in condition.columns if path[0] == TARGET and len(path) > 1)

    def _target_condition(self, on: Condition) -> Condition | None:
        """What rows of the table have to meet to change, as far as it is of the table alone."""
        if self.merge.clauses.not_matched_by_source:
            return None
        found = [each for part in conjuncts(on) if (each := _of_target(part)) is not None]
        return Joined(tuple(found), all=True) if found else None


def _keys(on: Condition) -> Iterator[tuple[Value, Value]]:
    """The values of target and source that are equal where rows match."""
    for part in conjuncts(on):
        if isinstance(part, Related) and part.sign == "=":
            sides = [{path[0] for path in each.columns} for each in (part.left, part.right)]
            if sides in ([{TARGET}, {SOURCE}], [{SOURCE}, {TARGET}]):
                one, other = brought_together(part.left, part.right)
                yield (one, other) if sides[0] == {TARGET} else (other, one)


def _of_target(condition: Condition) -> Condition | None:
    """The condition as one of the table alone; None where it is of more, or computes something."""
    match condition:
        case Comparison((side, *path), sign, value) if side == TARGET and path:
            return Comparison(tuple(path), sign, value)
        case IsNull(Value(kind=kind, path=(side, *path))) if side == TARGET and path:
            return IsNull(column_value(tuple(path), kind))
        case Not(inner):
            found = _of_target(inner)
            return None if found is None else Not(found)
        case Joined(parts, all=every):
            known = [_of_target(each) for each in parts]
            return None if None in known else Joined(tuple(each for each in known if each is not None), all=every)
    return None
