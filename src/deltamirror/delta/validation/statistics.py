"""Whether statistics have values that fit their columns: where one does not, delta-rs fails for the whole table.

The Delta kernel decodes statistics by the schema of the table; delta-rs does so for every file of a table that has a
boolean column. The checks here refuse what fails there: another kind of JSON where a struct or a number has to be, and
integers beyond the column's range. Dates, times, decimals and texts that make no sense are read as null.

delta-rs hands dates to Python where a table is opened as Arrow or pandas data, and Python has the years 1 to 9999 only.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final, TypeAlias, cast

import msgspec

from deltamirror.delta.rowtracking import NumRecords
from deltamirror.delta.schema import ArrayType, DataType, Field, MapType, Primitive, StructType, parse_schema

_Judge: TypeAlias = Callable[[object], bool]
_Shape: TypeAlias = Any
"""A type for msgspec, made of the table's columns."""

_BITS: Final = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_UNREAD: Final = frozenset({"binary", "variant", "void"})
_BOUNDS: Final = ("minValues", "maxValues")
_MOST_DIGITS: Final = 40
"""Python turns texts of some thousand digits into no number; those of so many are beyond every column already."""
_INTEGER: Final = re.compile(rf"\s*[+-]?[0-9]{{1,{_MOST_DIGITS}}}\s*")
_FLOAT: Final = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+|nan|inf|infinity)(?:e[+-]?[0-9]+)?\s*", re.IGNORECASE)
_PYTHON_DATE: Final = r"^(?!0000)[0-9]{4}-"
_UNREAD_DATE: Final = re.compile(r"-|0000-|[+][0-9]{5}")
_UNREAD_DATES: Final = ('"-', '"0000-', '"+', "\\u00")
"""How such dates, and other texts, are spelled in JSON: looked for in many statistics at once."""
_REMEMBERED: Final = 64


class Stats(msgspec.Struct, rename="camel", gc=False):
    """What the rules ask of all statistics."""

    num_records: NumRecords | None = None


@dataclass(frozen=True, slots=True)
class StatsRules:
    """The rules for the statistics of a table's files."""

    columns: tuple[Field, ...]
    mapped: bool
    decode: Callable[[str], Stats]
    """Raises msgspec's errors unless the values surely fit; what it refuses may still be in order."""
    decode_block: Callable[[str], list[Stats]]
    """Many statistics, one a line, at the price of one check each only where readers would fail otherwise."""
    has_dates: bool

    def may_have_unread_dates(self, lines: str) -> bool:
        """Whether one of many statistics may have a bound that ``unread_date`` finds."""
        return self.has_dates and any(begin in lines for begin in _UNREAD_DATES)

    def unread_date(self, stats: str) -> str | None:
        """The first bound that is a date outside of the years 1 to 9999, with its place; None where there is none."""
        found = json.loads(stats, parse_int=_number) if self.has_dates else {}
        unread = (_unread_date(found.get(part), self.columns, part, mapped=self.mapped) for part in _BOUNDS)
        return next((each for each in unread if each is not None), None)

    def misfit(self, stats: str) -> str | None:
        """The first value of a JSON object that does not fit, with its place; None where all do."""
        found = json.loads(stats, parse_int=_number)
        for part in (*_BOUNDS, "nullCount"):
            counts = part == "nullCount"
            if (wrong := self._misfit(found.get(part), self.columns, part, counts=counts)) is not None:
                return wrong
        return None

    def _misfit(self, value: object, columns: tuple[Field, ...], place: str, *, counts: bool) -> str | None:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            return f"{place}: {value!r}"
        for column in columns:
            name = column.physical_name if self.mapped else column.name
            inner, below = value.get(name), f"{place}.{name}"
            if isinstance(column.type, StructType):
                if (wrong := self._misfit(inner, column.type.fields, below, counts=counts)) is not None:
                    return wrong
            elif inner is not None and not _judge(column.type, counts=counts)(inner):
                return f"{below}: {inner!r}"
        return None


@lru_cache(_REMEMBERED)
def stats_rules(schema_string: str | None, *, mapped: bool, partition_by: tuple[str, ...] = ()) -> StatsRules:
    """The rules of a table with this schema; ``mapped``: its columns are known by their physical names."""
    schema = parse_schema(schema_string)
    has_dates = _has(StructType(tuple(each for each in schema.fields if each.name not in partition_by)), "date")
    try:
        typed = msgspec.json.Decoder(_shape(schema, mapped))
    except ValueError:  # columns whose names msgspec does not take, such as those with a quote
        return StatsRules(tuple(schema.fields), mapped, _undecided, _undecided, has_dates)
    quick = typed if _has(schema, "boolean") else msgspec.json.Decoder(Stats)
    return StatsRules(tuple(schema.fields), mapped, typed.decode, quick.decode_lines, has_dates)


def _undecided(stats: str) -> Any:
    """Leave all statistics to ``misfit``."""
    raise msgspec.ValidationError(stats)


def _shape(schema: StructType, mapped: bool) -> type[Stats]:
    members = [(part, part, _struct(schema, mapped, counts=part == "nullCount")) for part in (*_BOUNDS, "nullCount")]
    return cast("type[Stats]", msgspec.defstruct("TableStats", _fields(members), bases=(Stats,), gc=False))


def _struct(schema: StructType, mapped: bool, *, counts: bool) -> _Shape:
    members = []
    for number, column in enumerate(schema.fields):
        kind = _struct(column.type, mapped, counts=counts) if isinstance(column.type, StructType) else None
        if (shape := kind or _leaf(column.type, counts=counts)) is not None:
            members.append((f"c{number}", column.physical_name if mapped else column.name, shape))
    return msgspec.defstruct("Columns", _fields(members), gc=False)


def _fields(members: list[tuple[str, str, _Shape]]) -> list[tuple[str, _Shape, Any]]:
    return [(name, shape | None, msgspec.field(name=wire, default=None)) for name, wire, shape in members]


def _leaf(kind: DataType, *, counts: bool) -> _Shape:
    """What the values of a column surely may be; None where readers take no notice of them."""
    match kind:
        case _ if counts:
            return _integer(64)
        case Primitive(name) if name in _BITS:
            return _integer(_BITS[name])
        case Primitive("boolean"):
            return bool
        case Primitive("float" | "double"):
            return float
        case Primitive("date"):
            return Annotated[str, msgspec.Meta(pattern=_PYTHON_DATE)]
        case _:
            return None if _is_unread(kind) else str | float | bool


def _integer(bits: int) -> _Shape:
    return Annotated[int, msgspec.Meta(ge=-(2 ** (bits - 1)), le=2 ** (bits - 1) - 1)]


def _judge(kind: DataType, *, counts: bool) -> _Judge:
    """Whether a reader takes a value of the column that is not null."""
    match kind:
        case _ if counts:
            return lambda value: _is_integer(value, 64)
        case Primitive(name) if name in _BITS:
            return lambda value: _is_integer(value, _BITS[name])
        case Primitive("boolean"):
            return lambda value: isinstance(value, bool)
        case Primitive("float" | "double"):
            return _is_float
        case _:
            return lambda value: _is_unread(kind) or not isinstance(value, Mapping | list)


def _number(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def _is_integer(value: object, bits: int) -> bool:
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    # A fraction is cut off.
    return type(value) in (int, float) and -(2 ** (bits - 1)) - 1 < value < 2 ** (bits - 1)


def _is_float(value: object) -> bool:
    if isinstance(value, str):
        return _FLOAT.fullmatch(value) is not None
    return type(value) in (int, float)


def _is_unread(kind: DataType) -> bool:
    return isinstance(kind, ArrayType | MapType) or (isinstance(kind, Primitive) and kind.name in _UNREAD)


def _has(schema: StructType, name: str) -> bool:
    return any(column.type == Primitive(name) for _, column in schema.walk())


def _unread_date(value: object, columns: tuple[Field, ...], place: str, *, mapped: bool) -> str | None:
    if not isinstance(value, Mapping):
        return None
    for column in columns:
        name = column.physical_name if mapped else column.name
        inner, below, unread = value.get(name), f"{place}.{name}", None
        if isinstance(column.type, StructType):
            unread = _unread_date(inner, column.type.fields, below, mapped=mapped)
        elif column.type == Primitive("date") and isinstance(inner, str) and _UNREAD_DATE.match(inner):
            unread = f"{below}: {inner!r}"
        if unread is not None:
            return unread
    return None
