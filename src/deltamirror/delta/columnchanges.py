"""Columns added, changed, renamed and dropped, as Spark's ALTER TABLE does it: from one schema to another.

Whether a table with files may take the result is for ``delta.evolution`` to say.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from deltamirror.delta.actions import Metadata, Protocol
from deltamirror.delta.dependencies import dependents
from deltamirror.delta.hashorder import field_metadata
from deltamirror.delta.schema import ArrayType, DataType, Field, MapType, Primitive, StructType, parse_schema, type_text
from deltamirror.delta.schema.clauses import AddedColumn, ChangedColumn, Position
from deltamirror.delta.schema.columns import (
    ColumnPath,
    column_paths,
    field_at,
    path_text,
    physical_path,
    quoted_path,
    resolved_path,
    with_type_at,
)
from deltamirror.delta.schema.keys import CHAR_VARCHAR, COMMENT, CURRENT_DEFAULT
from deltamirror.delta.widening import TYPE_WIDENING, is_widening, may_widen, record_widenings
from deltamirror.errors import InvalidSchema

_STATS_COLUMNS: Final = "delta.dataSkippingStatsColumns"
_VOID: Final = Primitive("void")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChanges:
    """What is to become of the columns of a table. Drops come first, then renames, changes and additions."""

    dropped: Sequence[ColumnPath] = ()
    renamed: Sequence[tuple[ColumnPath, str]] = ()
    changed: Sequence[ChangedColumn] = ()
    added: Sequence[AddedColumn] = ()

    def __bool__(self) -> bool:
        return bool(self.dropped or self.renamed or self.changed or self.added)


@dataclass(frozen=True, slots=True)
class PlacedColumn:
    """A column as the history tells of it: where it is, what it is, and where it was put."""

    path: ColumnPath
    field: Field
    position: Position | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvolvedSchema:
    """A schema after changes, properties that follow them, and the changes with names as the schema spells them."""

    schema: StructType
    properties: dict[str, str]
    dropped: list[ColumnPath]
    renamed: list[tuple[ColumnPath, ColumnPath]]
    changed: list[PlacedColumn]
    added: list[PlacedColumn]


def evolve(
    changes: ColumnChanges, metadata: Metadata, protocol: Protocol, *, clustering: Sequence[Sequence[str]] = ()
) -> EvolvedSchema:
    """The schema of a table after changes; ``clustering`` are its clustering columns, by physical names."""
    worker = _Evolving(metadata, protocol, clustering)
    for path in changes.dropped:
        worker.drop(path)
    for path, name in changes.renamed:
        worker.rename(path, name)
    before = worker.schema
    for change in changes.changed:
        worker.change(change)
    for column in changes.added:
        worker.add(column)
    return EvolvedSchema(
        schema=record_widenings(before, worker.schema),
        properties=worker.properties,
        dropped=worker.dropped,
        renamed=worker.renamed,
        changed=worker.changed,
        added=worker.added,
    )


class _Evolving:
    def __init__(self, metadata: Metadata, protocol: Protocol, clustering: Sequence[Sequence[str]]) -> None:
        self._metadata, self._widens = metadata, may_widen(metadata, protocol)
        self._clustering = [tuple(each) for each in clustering]
        self.schema = parse_schema(metadata.schema_string)
        self.properties: dict[str, str] = {}
        self.dropped: list[ColumnPath] = []
        self.renamed: list[tuple[ColumnPath, ColumnPath]] = []
        self.changed: list[PlacedColumn] = []
        self.added: list[PlacedColumn] = []

    def drop(self, path: ColumnPath) -> None:
        path = self._member(path, "dropped")
        self._require_free(path, "dropped")
        if len(path) == 1 and path[0] in self._metadata.partition_columns:
            raise _wrong(path, "a partition column cannot be dropped", "create another table without it")
        physical = physical_path(self.schema, path)
        if any(each[: len(physical)] == physical for each in self._clustering):
            raise _wrong(path, "a clustering column cannot be dropped", "cluster the table by other columns first")
        self._edit(path[:-1], lambda struct: _without(struct, path))
        self._rewrite_statistics(lambda each: None if each[: len(path)] == path else each)
        self.dropped.append(path)

    def rename(self, path: ColumnPath, name: str) -> None:
        path = self._member(path, "renamed")
        self._require_free(path, "renamed")
        renamed = (*path[:-1], name)
        self._edit(path[:-1], lambda struct: _replaced(struct, path, lambda field: replace(field, name=name)))
        self._rewrite_statistics(lambda each: renamed + each[len(path) :] if each[: len(path)] == path else each)
        self.renamed.append((path, renamed))

    def change(self, change: ChangedColumn) -> None:
        path = resolved_path(self.schema, change.path)
        old = field_at(self.schema, path)
        if change.type is not None:
            self._require_type(path, old, change.type)
        new = _changed(old, change)
        if isinstance(self._parent(path), StructType):
            position = self._spelled(path[:-1], change.position)
            self._edit(path[:-1], lambda struct: _moved(_replaced(struct, path, lambda _: new), path, position))
            self.changed.append(PlacedColumn(path, new, position))
        else:
            _require_type_alone(change, path)
            self.schema = with_type_at(self.schema, path, lambda _: new.type)
            self.changed.append(PlacedColumn(path, new, None))

    def add(self, column: AddedColumn) -> None:
        parent = resolved_path(self.schema, column.parent)
        path = (*parent, column.field.name)
        if not column.field.nullable:
            problem = "it cannot be NOT NULL: the rows that are there have no value for it"
            raise _wrong(path, problem, "add it without NOT NULL")
        position = self._spelled(parent, column.position)
        self._edit(parent, lambda struct: _inserted(struct, column.field, position))
        self.added.append(PlacedColumn(path, column.field, position))

    def _edit(self, path: ColumnPath, edit: Callable[[StructType], StructType]) -> None:
        def edited(kind: DataType) -> DataType:
            if isinstance(kind, StructType):
                return edit(kind)
            raise _wrong(path, f"it is {type_text(kind)}, not a struct", _struct_hint(kind, path))

        self.schema = with_type_at(self.schema, path, edited)

    def _member(self, path: ColumnPath, act: str) -> ColumnPath:
        """The path of a field of a struct, as the schema spells it."""
        path = resolved_path(self.schema, path)
        parent = self._parent(path)
        if not isinstance(parent, StructType):
            problem = f"the {path[-1]} of {type_text(parent)} cannot be {act}"
            raise _wrong(path, problem, f"name a field of a struct, or {path_text(path[:-1])} itself")
        return path

    def _spelled(self, parent: ColumnPath, position: Position | None) -> Position | None:
        """A position among the fields of a struct, with names as the schema spells them."""
        if position is None or position.after is None:
            return position
        return Position(resolved_path(self.schema, (*parent, position.after))[-1])

    def _parent(self, path: ColumnPath) -> DataType:
        return field_at(self.schema, path[:-1]).type if path[1:] else self.schema

    def _require_free(self, path: ColumnPath, act: str) -> None:
        if users := dependents(self._metadata, path):
            hint = "drop the constraint first, or overwrite the table; Delta Lake on Spark refuses it as well"
            raise _wrong(path, f"it cannot be {act}: it is named by {' and '.join(users)}", hint)

    def _require_type(self, path: ColumnPath, old: Field, wanted: Field) -> None:
        if wanted.type == old.type or old.type == _VOID:
            return
        had, has = type_text(old.type), type_text(wanted.type)
        if not is_widening(old.type, wanted.type):
            raise _wrong(path, f"{had} cannot be widened to {has}", _widening_hint(old.type))
        if not self._widens:
            hint = f"set {TYPE_WIDENING}=true in the same commit: --set {TYPE_WIDENING}=true; delta-rs cannot read then"
            raise _wrong(path, f"{had} cannot become {has}: the table does not widen types", hint)
        self._require_free(path, f"widened from {had} to {has}")

    def _rewrite_statistics(self, rewritten: Callable[[ColumnPath], ColumnPath | None]) -> None:
        names = self.properties.get(_STATS_COLUMNS, self._metadata.configuration.get(_STATS_COLUMNS))
        if names is None:
            return
        kept = (rewritten(each) for each in column_paths(names))
        self.properties[_STATS_COLUMNS] = ",".join(quoted_path(each) for each in kept if each is not None)


def _struct_hint(kind: DataType, path: ColumnPath) -> str:
    match kind:
        case ArrayType():
            return f"fields of its structs are below {path_text(path)}.element"
        case MapType():
            return f"fields of its structs are below {path_text(path)}.key and {path_text(path)}.value"
        case _:
            return "name a struct; a column of another type has no fields"


def _widening_hint(old: DataType) -> str:
    if isinstance(old, StructType | ArrayType | MapType):
        return "fields, elements, keys and values are changed by paths of their own: s.x, l.element, m.key, m.value"
    return "add a column of the other type, or overwrite the table; docs/guides/schema.md lists the widenings"


def _without(struct: StructType, path: ColumnPath) -> StructType:
    if len(struct.fields) == 1:
        where = f"the struct {path_text(path[:-1])}" if path[1:] else "the table"
        raise _wrong(path, f"it is the only column of {where}", "drop the whole struct, or add another column first")
    return StructType(tuple(each for each in struct.fields if each.name != path[-1]))


def _replaced(struct: StructType, path: ColumnPath, edit: Callable[[Field], Field]) -> StructType:
    return StructType(tuple(edit(each) if each.name == path[-1] else each for each in struct.fields))


def _changed(old: Field, change: ChangedColumn) -> Field:
    metadata = dict(old.metadata)
    if change.comment is not None:
        metadata[COMMENT] = change.comment
    if change.default is not None:
        metadata[CURRENT_DEFAULT] = change.default
    if change.default == "":
        del metadata[CURRENT_DEFAULT]
    if change.type is not None:
        metadata.pop(CHAR_VARCHAR, None)
        metadata.update(change.type.metadata)
    kind = old.type if change.type is None else change.type.type
    nullable = old.nullable if change.nullable is None else change.nullable
    return replace(old, type=kind, nullable=nullable, metadata=field_metadata(metadata))


def _require_type_alone(change: ChangedColumn, path: ColumnPath) -> None:
    """Elements, keys and values have a type, and nothing else that could be changed."""
    asked = {"a comment": change.comment, "a default": change.default, "a position": change.position}
    found = [name for name, value in asked.items() if value is not None]
    if change.nullable is not None:
        found.append("another nullability")
    if found:
        raise _wrong(path, f"it cannot have {found[0]}", f"change {path_text(path[:-1])} itself; here, only TYPE")


def _moved(struct: StructType, path: ColumnPath, position: Position | None) -> StructType:
    if position is None or position.after == path[-1]:
        return struct
    [field] = (each for each in struct.fields if each.name == path[-1])
    others = StructType(tuple(each for each in struct.fields if each.name != path[-1]))
    return _inserted(others, field, position)


def _inserted(struct: StructType, field: Field, position: Position | None) -> StructType:
    fields = list(struct.fields)
    if position is None:
        fields.append(field)
    elif position.after is None:
        fields.insert(0, field)
    else:
        fields.insert(1 + [each.name for each in fields].index(position.after), field)
    return StructType(tuple(fields))


def _wrong(path: ColumnPath, problem: str, hint: str) -> InvalidSchema:
    return InvalidSchema(f"column {path_text(path)}: {problem}", hint=hint, column=path_text(path))
