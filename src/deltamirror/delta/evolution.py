"""Which changes of its metadata a table may make, given the files that it keeps.

Data files are written once, under the metadata that was in force then, and read under that of the head. Nothing in a
file follows a change, so a change is lawful only if every reader finds the same rows in the files that stay:

- columns are found in files by their physical names, which are their names in a table without column mapping: they
  stay, and so do types, but for the widenings that the table records in ``delta.typeChanges``;
- rows that are there have no value for a column that comes later, so it is nullable, without a default for old rows;
- partition values are in the log, by physical name: partition columns stay, in their order;
- a struct in a file is found by its fields, so it keeps one of those that it had when the file was written;
- rows that are there were not checked against demands that come later;
- constraints and generated columns name columns, which keep their names and types: no writer could check them else.

A commit that leaves no earlier file in the table (an overwrite, or a replaced table) may change all of that. These are
the demands of the protocol and of Delta Lake on Spark; they are stricter only where another reader could not follow:
partition values of widened columns, structs inside of maps, to which delta-rs cannot add fields, and structs of which a
file has no field any more, which delta-rs cannot read.
"""

import re
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from deltamirror.delta.actions import Metadata, Protocol
from deltamirror.delta.dependencies import dependents
from deltamirror.delta.features import is_enabled
from deltamirror.delta.properties import CONSTRAINT_PREFIX, ROW_TRACKING, column_mapping_mode, max_column_id
from deltamirror.delta.schema import ArrayType, DataType, Field, MapType, Primitive, StructType, parse_schema
from deltamirror.delta.schema.keys import (
    CHAR_VARCHAR,
    COLUMN_ID,
    EXISTS_DEFAULT,
    GENERATION_EXPRESSION,
    IDENTITY_START,
    IDENTITY_STEP,
    INVARIANTS,
)
from deltamirror.delta.validation.rules import violation
from deltamirror.delta.widening import is_recorded, is_widening, type_name, widening_features

_DEMANDS = (
    GENERATION_EXPRESSION,
    INVARIANTS,
    IDENTITY_START,
    IDENTITY_STEP,
    CHAR_VARCHAR,
)
_LENGTH = re.compile(r"(?:var)?char\((\d{1,10})\)")
_VOID = Primitive("void")

_SAME_TEXTS = frozenset({"byte", "short", "integer", "long", "float", "double"})
"""Types whose partition values read the same after widening, to whole or to broken numbers."""


class ForbiddenWhile(StrEnum):
    """What has to be left in a table for a change to be unlawful."""

    FILES = "files"
    UNCHECKED_ROWS = "unchecked rows"
    FILES_WITHOUT_ROW_IDS = "files without row ids"
    FILES_WITHOUT_ITS_FIELDS = "files that have none of the fields of a struct"


@dataclass(frozen=True, slots=True)
class Breach:
    """A rule that a change breaks in a table that has what ``scope`` says."""

    rule: str
    field: str
    found: str
    scope: ForbiddenWhile = ForbiddenWhile.FILES
    struct: tuple[str, ...] = ()
    """The struct that loses fields, by physical names."""


_NOT_OF_COLUMNS = frozenset({"id", "max-column-id", "row-tracking", "rows-unchecked"})
"""Rules about the table, which an earlier version of its columns says nothing of."""


class FilesLeft(typing.Protocol):
    """The files that were in the table before the commit and are in it after."""

    def any(self) -> bool:
        """Whether there are any."""

    def any_without_row_ids(self) -> bool:
        """Whether one of them has no row ids."""

    def written_under(self) -> Iterable[Metadata]:
        """The metadata that they may have been written under: all that the table has had."""


def check_change(
    before: Metadata,
    after: Metadata,
    *,
    protocol: Protocol,
    left: FilesLeft,
    rows_checked: bool = False,
    columns_known: bool = False,
) -> None:
    """Raise InvalidAction unless a table may go from one metadata to the other with the files that are left.

    ``protocol`` is in force after the change; ``rows_checked`` asserts that an engine checked the rows of the table
    against demands that come with the change, ``columns_known`` that the files which are left were in the table when it
    had these columns. ``left`` is asked only where it matters.
    """
    for breach in find_breaches(before, after, protocol=protocol):
        if columns_known and breach.rule not in _NOT_OF_COLUMNS:
            continue
        if _applies(breach, after, left, rows_checked=rows_checked):
            rule = f"metaData.change.{breach.rule}"
            raise violation(rule, action="metaData", index=None, field=breach.field, found=breach.found)


def find_breaches(before: Metadata, after: Metadata, *, protocol: Protocol) -> Iterator[Breach]:
    """Every rule that the change breaks, with what has to be left in the table for it to matter."""
    if before.id != after.id:
        yield Breach("id", "id", f"{before.id} became {after.id}")
    comparison = _Comparison(before, after, widens=bool(widening_features(protocol)))
    yield from comparison.breaches()
    yield from (
        Breach("rows-unchecked", f"configuration.{key}", after.configuration[key], ForbiddenWhile.UNCHECKED_ROWS)
        for key in _new_constraints(before, after)
    )
    if is_enabled(after, ROW_TRACKING) and not is_enabled(before, ROW_TRACKING):
        yield Breach("row-tracking", f"configuration.{ROW_TRACKING}", "true", ForbiddenWhile.FILES_WITHOUT_ROW_IDS)


def adds_demands(before: Metadata, after: Metadata, *, protocol: Protocol) -> bool:
    """Whether the change makes demands on the rows of the table: who makes it has to have read them."""
    return any(each.scope is ForbiddenWhile.UNCHECKED_ROWS for each in find_breaches(before, after, protocol=protocol))


def _applies(breach: Breach, after: Metadata, left: FilesLeft, *, rows_checked: bool) -> bool:
    match breach.scope:
        case ForbiddenWhile.FILES:
            return left.any()
        case ForbiddenWhile.UNCHECKED_ROWS:
            return not rows_checked and left.any()
        case ForbiddenWhile.FILES_WITHOUT_ROW_IDS:
            return left.any_without_row_ids()
        case ForbiddenWhile.FILES_WITHOUT_ITS_FIELDS:
            kept = _fields_of(after, breach.struct) or frozenset()
            had = (_fields_of(each, breach.struct) for each in left.written_under())
            return left.any() and any(fields is not None and fields.isdisjoint(kept) for fields in had)


def _fields_of(metadata: Metadata, struct: tuple[str, ...]) -> frozenset[str] | None:
    """The physical names of the fields of a struct; None in a table that does not have it."""
    is_mapped = column_mapping_mode(metadata) != "none"
    kind: DataType | None = parse_schema(metadata.schema_string)
    for step in struct:
        match kind:
            case StructType(fields):
                named = {each.physical_name if is_mapped else each.name: each.type for each in fields}
                kind = named.get(step)
            case ArrayType(element):
                kind = element
            case MapType(key, value):
                kind = key if step == "key" else value
            case _:
                kind = None
    if not isinstance(kind, StructType):
        return None
    return frozenset(each.physical_name if is_mapped else each.name for each in kind.fields)


def _new_constraints(before: Metadata, after: Metadata) -> list[str]:
    had = before.configuration
    return sorted(
        key for key, value in after.configuration.items() if key.startswith(CONSTRAINT_PREFIX) and had.get(key) != value
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a type stands: the names down to it, the nearest field, and the steps from there into arrays and maps."""

    path: tuple[str, ...]
    field: Field
    steps: tuple[str, ...] = ()
    in_map: bool = False
    physical: tuple[str, ...] = ()
    """The way down to the field by physical names, through arrays and maps by steps."""

    @property
    def name(self) -> str:
        return "schemaString: " + ".".join((*self.path, *self.steps))

    def into(self, step: str) -> "_Place":
        return replace(self, steps=(*self.steps, step), in_map=self.in_map or step in ("key", "value"))

    def below(self, field: Field) -> "_Place":
        physical = (*self.physical, *self.steps, field.physical_name)
        return _Place((*self.path, *self.steps, field.name), field, in_map=self.in_map, physical=physical)


class _Comparison:
    """The schema, partitioning and column mapping of a table, before and after a change."""

    def __init__(self, before: Metadata, after: Metadata, *, widens: bool) -> None:
        self._before, self._after = before, after
        self._old, self._new = parse_schema(before.schema_string), parse_schema(after.schema_string)
        self._modes = column_mapping_mode(before), column_mapping_mode(after)
        self._was_mapped, self._is_mapped = (mode != "none" for mode in self._modes)
        self._widens = widens
        self._partitions = {self._old_name(self._old.get(name)) for name in before.partition_columns}
        self._old_ids = {each.metadata.get(COLUMN_ID) for _, each in self._old.walk()} if self._was_mapped else set()

    def breaches(self) -> Iterator[Breach]:
        yield from self._mapping()
        yield from self._partitioning()
        yield from self._structs(self._old, self._new, _Place((), Field("", self._new)))

    def _mapping(self) -> Iterator[Breach]:
        was, is_now = self._modes
        # A file that was written without ids has none to be found by; one with physical names has no others.
        if was != is_now and (was, is_now) != ("none", "name"):
            yield Breach("mapping-mode", "configuration.delta.columnMapping.mode", f"{was} became {is_now}")
        if self._was_mapped and self._is_mapped:
            had, has = max_column_id(self._before) or 0, max_column_id(self._after) or 0
            if has < had:
                where = "configuration.delta.columnMapping.maxColumnId"
                yield Breach("max-column-id", where, f"{had} became {has}")

    def _partitioning(self) -> Iterator[Breach]:
        had = [self._old_name(self._old.get(name)) for name in self._before.partition_columns]
        has = [self._new_name(self._new.get(name)) for name in self._after.partition_columns]
        if had != has:
            told = [", ".join(each.partition_columns) or "none" for each in (self._before, self._after)]
            yield Breach("partitioning", "partitionColumns", f"{told[0]} became {told[1]}")

    def _structs(self, old: StructType, new: StructType, parent: _Place) -> Iterator[Breach]:
        had = {self._old_name(each): each for each in old.fields}
        has = {self._new_name(each): each for each in new.fields}
        if parent.in_map and had.keys() != has.keys():
            yield Breach("map-fields", parent.name, f"{_listed(old)} became {_listed(new)}")
        gone = [parent.below(each) for name, each in had.items() if name not in has]
        breaches = [breach for place in gone for breach in self._gone(place.field, new, place)]
        yield from breaches
        if gone and parent.path and not breaches:
            struct, found = (*parent.physical, *parent.steps), f"{_listed(old)} became {_listed(new)}"
            yield Breach("struct-fields", parent.name, found, ForbiddenWhile.FILES_WITHOUT_ITS_FIELDS, struct)
        for name, each in has.items():
            if name in had:
                yield from self._fields(had[name], each, parent.below(each))
            else:
                yield from self._added(each, parent.below(each))

    def _gone(self, old: Field, beside: StructType, place: _Place) -> Iterator[Breach]:
        """A column under whose physical name there is none any more: dropped, which only mapped columns can be."""
        if not self._is_mapped and not self._was_mapped:
            yield Breach("missing-column", place.name, f"{old.name} is gone")
        elif not self._was_mapped and beside.get(old.name) is not None:
            yield Breach("physical-name", place.name, f"no column has the physical name {old.name}")
        elif self._was_mapped and self._has_id(old.metadata.get(COLUMN_ID)):
            yield Breach("physical-name", place.name, f"its id has another physical name than {old.physical_name}")
        else:
            yield from self._dependents(place, "is gone")

    def _has_id(self, number: object) -> bool:
        return any(each.metadata.get(COLUMN_ID) == number for _, each in self._new.walk())

    def _added(self, new: Field, place: _Place) -> Iterator[Breach]:
        if required := next((each for each in _struct_fields(new) if not each.nullable), None):
            yield Breach("added-not-null", place.name, f"{required.name} NOT NULL")
        if self._was_mapped and self._is_mapped:
            yield from self._fresh_ids(new, place)
        for each in _all_fields(new):
            yield from _new_default(None, each, place)
            yield from _new_demands(None, each, place)

    def _fresh_ids(self, new: Field, place: _Place) -> Iterator[Breach]:
        highest = max_column_id(self._before) or 0
        for each in _all_fields(new):
            number = each.metadata.get(COLUMN_ID)
            if number in self._old_ids or (isinstance(number, int) and number <= highest):
                yield Breach("column-id", place.name, f"{each.name} has {number}; ids up to {highest} are taken")

    def _fields(self, old: Field, new: Field, place: _Place) -> Iterator[Breach]:
        if old.nullable and not new.nullable:
            yield Breach("nullability", place.name, "nullable became NOT NULL")
        if self._was_mapped and self._is_mapped:
            had, has = old.metadata.get(COLUMN_ID), new.metadata.get(COLUMN_ID)
            if had != has:
                yield Breach("column-id", place.name, f"{had} became {has}")
        if old.name.lower() != new.name.lower():
            yield from self._dependents(replace(place, path=(*place.path[:-1], old.name)), f"became {new.name}")
        yield from _new_default(old, new, place)
        yield from _new_demands(old, new, place)
        yield from self._types(old.type, new.type, place)

    def _dependents(self, place: _Place, change: str) -> Iterator[Breach]:
        """What names the column: by the name that it had at the top, fields inside of a renamed one as they are."""
        for user in dependents(self._after, (*place.path, *place.steps)):
            yield Breach("dependent-column", place.name, f"it {change}, and {user} names it")

    def _types(self, old: DataType, new: DataType, place: _Place) -> Iterator[Breach]:
        match old, new:
            case StructType(), StructType():
                yield from self._structs(old, new, place)
            case ArrayType(), ArrayType():
                yield from _nulls(old.contains_null, new.contains_null, place.into("element"))
                yield from self._types(old.element, new.element, place.into("element"))
            case MapType(), MapType():
                yield from _nulls(old.value_contains_null, new.value_contains_null, place.into("value"))
                yield from self._types(old.key, new.key, place.into("key"))
                yield from self._types(old.value, new.value, place.into("value"))
            case _:
                if old in (new, _VOID):
                    return
                change = f"{type_name(old)} became {type_name(new)}"
                if not self._is_recorded_widening(old, new, place):
                    yield Breach("type", place.name, change)
                yield from self._dependents(place, change)

    def _is_recorded_widening(self, old: DataType, new: DataType, place: _Place) -> bool:
        if not self._widens or not is_widening(old, new):
            return False
        partitions = len(place.path) == 1 and self._new_name(place.field) in self._partitions
        if partitions and not {type_name(old), type_name(new)} <= _SAME_TEXTS:
            return False
        return is_recorded(old, new, place.field, place.steps)

    def _old_name(self, field: Field | None) -> str | None:
        return None if field is None else field.physical_name if self._was_mapped else field.name

    def _new_name(self, field: Field | None) -> str | None:
        return None if field is None else field.physical_name if self._is_mapped else field.name


def _nulls(had: bool, has: bool, place: _Place) -> Iterator[Breach]:
    if had and not has:
        yield Breach("nullability", place.name, "nullable became NOT NULL")


def _struct_fields(field: Field) -> Iterator[Field]:
    """The field, and those inside of it that are null where it is: not those in arrays and maps, which are empty."""
    yield field
    if isinstance(field.type, StructType):
        for each in field.type.fields:
            yield from _struct_fields(each)


def _listed(struct: StructType) -> str:
    return ", ".join(each.name for each in struct.fields)


def _all_fields(field: Field) -> Iterator[Field]:
    return (each for _, each in StructType((field,)).walk())


def _new_default(old: Field | None, new: Field, place: _Place) -> Iterator[Breach]:
    """A value for rows that have none: Delta Lake on Spark shows it, other readers show null."""
    had, has = None if old is None else old.metadata.get(EXISTS_DEFAULT), new.metadata.get(EXISTS_DEFAULT)
    if has is not None and had != has:
        yield Breach("default", place.name, f"{EXISTS_DEFAULT} {has}")


def _new_demands(old: Field | None, new: Field, place: _Place) -> Iterator[Breach]:
    for key in _DEMANDS:
        had, has = None if old is None else old.metadata.get(key), new.metadata.get(key)
        if has is None or had == has or (key == CHAR_VARCHAR and (old is None or _is_longer(had, has))):
            continue  # a column that is added is null in the rows that are there, which has any length
        yield Breach("rows-unchecked", place.name, f"{key}: {has}", ForbiddenWhile.UNCHECKED_ROWS)


def _is_longer(old: object, new: object) -> bool:
    """Whether every text that one ``char(…)`` or ``varchar(…)`` takes is taken by the other."""
    found = [_LENGTH.fullmatch(each) for each in (old, new) if isinstance(each, str)]
    lengths = [int(each[1]) for each in found if each is not None]
    pads = isinstance(new, str) and new.startswith("char") and new != old
    return len(lengths) == 2 and lengths[0] <= lengths[1] and not pads
