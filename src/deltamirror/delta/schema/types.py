"""Delta types as frozen values, and the ways to walk through them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from deltamirror.delta.schema.keys import PHYSICAL_NAME

PRIMITIVES = frozenset(
    {
        "string",
        "long",
        "integer",
        "short",
        "byte",
        "float",
        "double",
        "boolean",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
        "void",
        "variant",
    }
)


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type without parameters; ``name`` is the protocol's word for it."""

    name: str


@dataclass(frozen=True, slots=True)
class Decimal:
    """A decimal number of ``precision`` digits, ``scale`` of them behind the point."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A list of one type."""

    element: "DataType"
    contains_null: bool = True


@dataclass(frozen=True, slots=True)
class MapType:
    """Keys, never null, with their values."""

    key: "DataType"
    value: "DataType"
    value_contains_null: bool = True


@dataclass(frozen=True, slots=True)
class Field:
    """A named column, at the top or inside a struct. ``metadata`` keeps its keys in order."""

    name: str
    type: "DataType"
    nullable: bool = True
    metadata: Mapping[str, object] = field(default_factory=dict, hash=False)

    @property
    def physical_name(self) -> str:
        """The name in data files, statistics and partition values: differs under column mapping."""
        name = self.metadata.get(PHYSICAL_NAME)
        return name if isinstance(name, str) else self.name


@dataclass(frozen=True, slots=True)
class StructType:
    """Named fields in order; the schema of a table is one of these."""

    fields: tuple[Field, ...] = ()

    def get(self, name: str) -> Field | None:
        """The field of this name, without regard to case."""
        wanted = name.lower()
        return next((each for each in self.fields if each.name.lower() == wanted), None)

    def leaves(self) -> Iterator[tuple[tuple[str, ...], Field]]:
        """The columns that are not structs, with their paths; an array or a map is one leaf."""
        for each in self.fields:
            if isinstance(each.type, StructType):
                yield from (((each.name, *path), leaf) for path, leaf in each.type.leaves())
            else:
                yield (each.name,), each

    def walk(self) -> Iterator[tuple[tuple[str, ...], Field]]:
        """Every field at any depth, with its path; a parent comes before its children.

        Steps through an array or a map are named ``element``, ``key`` and ``value``.
        """
        for each in self.fields:
            yield (each.name,), each
            yield from _inside((each.name,), each.type)


DataType: TypeAlias = Primitive | Decimal | ArrayType | MapType | StructType


def primitive_names(kind: DataType) -> Iterator[str]:
    """The primitive types of a column; those of a struct's fields are found with these fields."""
    match kind:
        case Primitive(name):
            yield name
        case ArrayType(element):
            yield from primitive_names(element)
        case MapType(key, value):
            yield from primitive_names(key)
            yield from primitive_names(value)


def _inside(path: tuple[str, ...], kind: DataType) -> Iterator[tuple[tuple[str, ...], Field]]:
    match kind:
        case StructType():
            yield from (((*path, *below), each) for below, each in kind.walk())
        case ArrayType(element):
            yield from _inside((*path, "element"), element)
        case MapType(key, value):
            yield from _inside((*path, "key"), key)
            yield from _inside((*path, "value"), value)
