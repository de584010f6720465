"""Types that Delta lets a column be widened to, and the record of it that the column keeps.

Files keep the type that they were written with. A reader finds in ``delta.typeChanges`` of a column which types its
files may have; a change inside of an array or a map is recorded at the column that holds it, with its ``fieldPath``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from deltamirror.delta.actions import Metadata, Protocol
from deltamirror.delta.features import is_enabled, writer_features_of
from deltamirror.delta.hashorder import field_metadata
from deltamirror.delta.schema import ArrayType, DataType, Decimal, Field, MapType, Primitive, StructType
from deltamirror.delta.schema.keys import TYPE_CHANGES

TYPE_WIDENING: Final = "delta.enableTypeWidening"
"""The property that lets writers widen types."""
_FEATURE: Final = "typeWidening"

_WIDER: Final[Mapping[str, tuple[str, ...]]] = {
    "byte": ("short", "integer", "long", "double"),
    "short": ("integer", "long", "double"),
    "integer": ("long", "double"),
    "long": (),
    "float": ("double",),
    "date": ("timestamp_ntz",),
}
_DIGITS: Final = {"byte": 10, "short": 10, "integer": 10, "long": 20}
"""The least number of digits before the point that a decimal has to have for an integer of this type."""


@dataclass(frozen=True, slots=True)
class _TypeChange:
    old: DataType
    new: DataType
    steps: tuple[str, ...] = ()

    def recorded(self) -> dict[str, object]:
        """The members in the order of Spark's metadata builder."""
        known: dict[str, object] = {"toType": type_name(self.new), "fromType": type_name(self.old)}
        return {**known, "fieldPath": ".".join(self.steps)} if self.steps else known

    def below(self, step: str) -> "_TypeChange":
        return replace(self, steps=(step, *self.steps))


def widening_features(protocol: Protocol) -> frozenset[str]:
    """The features of the protocol by which readers know widened types: the final one, or its preview."""
    return writer_features_of(protocol) & {_FEATURE, f"{_FEATURE}-preview"}


def may_widen(metadata: Metadata, protocol: Protocol) -> bool:
    """Whether types are widened here. Not under the preview, whose records name the version of the commit."""
    return is_enabled(metadata, TYPE_WIDENING) and _FEATURE in widening_features(protocol)


def is_widening(old: DataType, new: DataType) -> bool:
    """Whether the protocol lets a reader take the one type for the other."""
    match old, new:
        case Primitive(had), Primitive(has):
            return has in _WIDER.get(had, ())
        case Primitive(had), Decimal(precision, scale):
            return had in _DIGITS and precision - scale >= _DIGITS[had]
        case Decimal(), Decimal():
            return new != old and new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
        case _:
            return False


def is_recorded(old: DataType, new: DataType, field: Field, steps: Sequence[str]) -> bool:
    """Whether the field's list of type changes leads from the one to the other, step by step."""
    recorded = field.metadata.get(TYPE_CHANGES)
    reached = {type_name(old)}
    for change in recorded if isinstance(recorded, list) else ():
        if not isinstance(change, Mapping) or change.get("fieldPath", "") != ".".join(steps):
            continue
        if change.get("fromType") in reached:
            reached.add(str(change.get("toType")))
    return type_name(new) in reached


def record_widenings(before: StructType, after: StructType) -> StructType:
    """The schema after, with a record of each widening since the one before; columns are told by their names."""
    return StructType(tuple(_recorded(before.get(each.name), each) for each in after.fields))


def type_name(kind: DataType) -> str:
    """A type as Spark names it: of one that has others inside, its kind alone."""
    match kind:
        case Primitive(name):
            return name
        case Decimal(precision, scale):
            return f"decimal({precision},{scale})"
        case ArrayType():
            return "array"
        case MapType():
            return "map"
        case StructType():
            return "struct"


def _recorded(old: Field | None, new: Field) -> Field:
    if old is None or old.type == new.type:
        return new
    new = replace(new, type=_recorded_inside(old.type, new.type))
    changes = [change.recorded() for change in _changes(old.type, new.type)]
    if not changes:
        return new
    had = old.metadata.get(TYPE_CHANGES)
    kept = had if isinstance(had, list) else []
    return replace(new, metadata=field_metadata({**new.metadata, TYPE_CHANGES: [*kept, *changes]}))


def _recorded_inside(old: DataType, new: DataType) -> DataType:
    match old, new:
        case StructType(), StructType():
            return record_widenings(old, new)
        case ArrayType(), ArrayType():
            return replace(new, element=_recorded_inside(old.element, new.element))
        case MapType(), MapType():
            key, value = _recorded_inside(old.key, new.key), _recorded_inside(old.value, new.value)
            return replace(new, key=key, value=value)
        case _:
            return new


def _changes(old: DataType, new: DataType) -> Iterator[_TypeChange]:
    """The widenings in a column, but for those in structs inside of it, whose fields record their own."""
    match old, new:
        case ArrayType(), ArrayType():
            yield from (change.below("element") for change in _changes(old.element, new.element))
        case MapType(), MapType():
            yield from (change.below("key") for change in _changes(old.key, new.key))
            yield from (change.below("value") for change in _changes(old.value, new.value))
        case _ if is_widening(old, new):
            yield _TypeChange(old, new)
