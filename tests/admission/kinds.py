# ruff: noqa: DTZ001  a timestamp without a zone is a type of Delta
"""Types of columns, values of them, and partition values in every spelling: nothing here comes from the product."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from random import Random
from typing import Any, Final, TypeAlias

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Column:
    """A field by what it is, whatever it is called: ``uid`` stays through renames."""

    uid: int
    name: str
    kind: "Kind"
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Struct:
    """Named fields."""

    fields: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Array:
    """A list."""

    element: "Kind"


@dataclass(frozen=True, slots=True)
class Map:
    """Keys and values."""

    key: "Kind"
    value: "Kind"


Kind: TypeAlias = str | Struct | Array | Map
FieldMetadata: TypeAlias = Mapping[int, Mapping[str, Any]]
"""By uid: what the table's schema says of a field, such as its physical name."""

SCALARS: Final = (
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
    "decimal(5,2)",
    "decimal(18,0)",
    "decimal(38,10)",
)
PARTITIONING: Final = SCALARS
_MOMENTS: Final = (
    datetime(2024, 1, 2, 3, 4, 5),
    datetime(2024, 2, 29, 23, 59, 59, 999999),
    datetime(1970, 1, 1),
    datetime(1900, 1, 1, 0, 0, 0, 1),
    datetime(2200, 12, 31, 12, 0, 0, 120000),
)
_VALUES: Final[Mapping[str, tuple[Any, ...]]] = {
    "string": ("", "a", "ä b/ç", "日本 🚀", '"q" \\ \n\t', "x=y&z%20", "NULL", " ", "__HIVE_DEFAULT_PARTITION__"),
    "long": (0, 1, -(2**63), 2**63 - 1, 42),
    "integer": (0, -(2**31), 2**31 - 1, 7),
    "short": (0, -(2**15), 2**15 - 1, 7),
    "byte": (0, -128, 127, 7),
    "float": (0.0, 1.5, -2.25, float("inf"), float("nan"), 1e10),
    "double": (0.0, 1.5, -0.1, 1e300, float("-inf"), float("nan"), 1e-7),
    "boolean": (True, False),
    "binary": (b"", b"abc", b"\xff\x00\x01", "é".encode()),
    "date": (date(2024, 2, 29), date(1970, 1, 1), date(1582, 10, 15), date(9999, 12, 31), date(1, 1, 1)),
    "timestamp": tuple(moment.replace(tzinfo=UTC) for moment in _MOMENTS),
    "timestamp_ntz": _MOMENTS,
}
_ARROW: Final[Mapping[str, pa.DataType]] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


class Uids:
    """Numbers that are given once."""

    def __init__(self, *, above: int = 0) -> None:
        self._last = above

    def __call__(self) -> int:
        self._last += 1
        return self._last


def digits(kind: str) -> tuple[int, int] | None:
    """Precision and scale, if the type is a decimal."""
    if not kind.startswith("decimal("):
        return None
    precision, scale = kind[8:-1].split(",")
    return int(precision), int(scale)


def draw_kind(random: Random, uids: Uids, *, depth: int = 2) -> Kind:
    """Any type; nested ones are rarer."""
    if depth == 0 or random.random() < 0.7:
        return random.choice(SCALARS)
    match random.randrange(3):
        case 0:
            names = random.sample(["a", "b", "Ü", "c_d"], random.randint(1, 3))
            fields = tuple(Column(uids(), name, draw_kind(random, uids, depth=depth - 1)) for name in names)
            return Struct(fields)
        case 1:
            return Array(draw_kind(random, uids, depth=depth - 1))
        case _:
            return Map(random.choice(["string", "integer", "date"]), draw_kind(random, uids, depth=depth - 1))


def draw_value(random: Random, kind: Kind, *, nullable: bool = True) -> Any:
    """A value as files hold it: structs by uid, maps as pairs; null where that is allowed."""
    if nullable and random.random() < 0.2:
        return None
    match kind:
        case Struct(fields):
            return {field.uid: draw_value(random, field.kind, nullable=field.nullable) for field in fields}
        case Array(element):
            return [draw_value(random, element) for _ in range(random.randint(0, 2))]
        case Map(key, value):
            keys = random.sample(_VALUES[key][:2] if isinstance(key, str) else [], random.randint(0, 2))
            return [(each, draw_value(random, value)) for each in keys]
        case _:
            return random.choice(_values(kind))


def is_known(kind: Kind) -> bool:
    """Whether there are values of the type; a file has no column of any other."""
    match kind:
        case Struct(fields):
            return bool(fields) and all(is_known(field.kind) for field in fields)
        case Array(element):
            return is_known(element)
        case Map(key, value):
            return is_known(key) and is_known(value)
        case _:
            return kind in _VALUES or kind in SCALARS or kind == "decimal(7,3)"


def _values(kind: str) -> tuple[Any, ...]:
    size = digits(kind)
    if size is None:
        return _VALUES[kind]
    precision, scale = size
    unit, most = Decimal((0, (1,), -scale)), Decimal((0, (9,) * precision, -scale))
    return (Decimal((0, (0,), -scale)), unit, most.copy_negate(), most, Decimal((0, (1, *(0,) * scale), -scale)))


def arrow_field(column: Column, metadata: FieldMetadata) -> pa.Field:
    """The field of a data file: with its physical name and its id, where the table maps columns."""
    known = metadata.get(column.uid, {})
    number = known.get("delta.columnMapping.id")
    name = known.get("delta.columnMapping.physicalName", column.name)
    field = pa.field(name, _arrow_type(column.kind, metadata), nullable=column.nullable)
    return field if number is None else field.with_metadata({b"PARQUET:field_id": str(number).encode()})


def _arrow_type(kind: Kind, metadata: FieldMetadata) -> pa.DataType:
    match kind:
        case Struct(fields):
            return pa.struct([arrow_field(field, metadata) for field in fields])
        case Array(element):
            return pa.list_(pa.field("element", _arrow_type(element, metadata)))
        case Map(key, value):
            return pa.map_(_arrow_type(key, metadata), _arrow_type(value, metadata))
        case _:
            size = digits(kind)
            return _ARROW[kind] if size is None else pa.decimal128(*size)


def stored(kind: Kind, value: Any, metadata: FieldMetadata) -> Any:
    """The value as pyarrow takes it for a field of :func:`arrow_field`."""
    if value is None:
        return None
    match kind:
        case Struct(fields):
            return {arrow_field(each, metadata).name: stored(each.kind, value[each.uid], metadata) for each in fields}
        case Array(element):
            return [stored(element, each, metadata) for each in value]
        case Map(key, inner):
            return [(stored(key, k, metadata), stored(inner, v, metadata)) for k, v in value]
        case _:
            return value


def viewed(written: Kind, value: Any, now: Kind) -> Any:
    """The value as a reader has to show it, under the type that the column has by now."""
    if value is None:
        return None
    match written, now:
        case Struct(before), Struct(fields):
            kinds = {field.uid: field.kind for field in before}
            return {
                field.name: viewed(kinds[field.uid], value[field.uid], field.kind) if field.uid in kinds else None
                for field in fields
            }
        case Array(element), Array(wanted):
            return [viewed(element, each, wanted) for each in value]
        case Map(key, inner), Map(wanted_key, wanted):
            return [[viewed(key, k, wanted_key), viewed(inner, v, wanted)] for k, v in value]
        case str(), str():
            return value if written == now else _converted(value, now)
        case _:
            return str(value)


def _converted(value: Any, now: str) -> Any:
    size = digits(now)
    if size is not None and isinstance(value, int | Decimal):
        return Decimal(value).quantize(Decimal((0, (1,), -size[1])), context=Context(prec=80))
    if now in ("float", "double") and isinstance(value, int | float):
        return float(value)
    if now in ("long", "integer", "short", "byte") and isinstance(value, int):
        return value
    if now == "timestamp_ntz" and type(value) is date:
        return datetime(value.year, value.month, value.day)
    return str(value)


def schema_json(columns: tuple[Column, ...], metadata: FieldMetadata) -> str:
    """The schema as ``schemaString`` has it."""
    return json.dumps({"type": "struct", "fields": [_field_json(each, metadata) for each in columns]})


def _field_json(column: Column, metadata: FieldMetadata) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": _kind_json(column.kind, metadata),
        "nullable": column.nullable,
        "metadata": dict(metadata.get(column.uid, {})),
    }


def _kind_json(kind: Kind, metadata: FieldMetadata) -> Any:
    match kind:
        case Struct(fields):
            return {"type": "struct", "fields": [_field_json(each, metadata) for each in fields]}
        case Array(element):
            return {"type": "array", "elementType": _kind_json(element, metadata), "containsNull": True}
        case Map(key, value):
            types = {"keyType": _kind_json(key, metadata), "valueType": _kind_json(value, metadata)}
            return {"type": "map", **types, "valueContainsNull": True}
        case _:
            return kind


def walked(columns: tuple[Column, ...], fields: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The metadata of all fields by uid, from a schema that has these columns."""
    found: dict[int, dict[str, Any]] = {}
    by_name = {field["name"]: field for field in fields}
    for column in columns:
        if field := by_name.get(column.name):
            found[column.uid] = field.get("metadata", {})
            found |= _inside(column.kind, field["type"])
    return found


def _inside(kind: Kind, found: Any) -> dict[int, dict[str, Any]]:
    match kind:
        case Struct(fields) if isinstance(found, dict) and "fields" in found:
            return walked(fields, found["fields"])
        case Array(element) if isinstance(found, dict) and "elementType" in found:
            return _inside(element, found["elementType"])
        case Map(key, value) if isinstance(found, dict) and "keyType" in found:
            return {**_inside(key, found["keyType"]), **_inside(value, found["valueType"])}
        case _:
            return {}
