"""Types of columns for random tables, with values over which readers and engines have stumbled."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isfinite
from random import Random
from typing import Any

import pyarrow as pa

from deltamirror.delta.schema.quoting import quoted


@dataclass(frozen=True, slots=True)
class Kind:
    """A type, and some of its values; null comes with all of them."""

    sql: str
    arrow: pa.DataType
    values: tuple[Any, ...]
    is_compared: bool = True

    @property
    def literals(self) -> list[str]:
        """The values as SQL spells them beside a column of the type."""
        return [literal(each) for each in self.values] if self.is_compared else []

    @property
    def expressions(self) -> list[str]:
        """Those that are of the type wherever they stand."""
        return [text for text in self.literals if self.sql == "string" or not text.startswith("'")]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    kind: Kind


def literal(value: Any) -> str:
    """A value as SQL spells it beside a column of its type."""
    match value:
        case bool():
            return str(value).lower()
        case float() if not isfinite(value):
            return {"inf": "'Infinity'", "-inf": "'-Infinity'"}.get(str(value), "'NaN'")
        case datetime():
            return f"'{value.replace(tzinfo=None).isoformat(sep=' ')}'"
        case date():
            return f"'{value.isoformat()}'"
        case str():
            return quoted(value)
        case _:
            return str(value)


def sql_name(name: str) -> str:
    """A name as SQL quotes it."""
    return "`{}`".format(name.replace("`", "``"))


def draw_rows(random: Random, columns: Sequence[Column], count: int) -> pa.Table:
    """Random rows."""
    rows = [
        {each.name: None if random.random() < 0.15 else random.choice(each.kind.values) for each in columns}
        for _ in range(count)
    ]
    return pa.Table.from_pylist(rows, pa.schema([(each.name, each.kind.arrow) for each in columns]))


def _times(zone: Any) -> tuple[datetime, ...]:
    return (
        datetime(2026, 11, 16, 12, 30, 0, 123456, zone),
        datetime(1969, 12, 31, 23, 59, 59, 999999, zone),
        datetime(1700, 1, 1, tzinfo=zone),  # readers of Arrow take Spark's for nanoseconds, which begin in 1677
        datetime(2026, 3, 29, 2, 30, tzinfo=zone),
    )


LONG = Kind("bigint", pa.int64(), (0, 1, 2, -3, 5, 3_000_000_000))
INT = Kind("int", pa.int32(), (0, 1, 2, -3, 7, 40_000))
DOUBLE = Kind("double", pa.float64(), (0.0, -0.0, 1.5, -2.25, float("nan"), float("inf"), float("-inf"), 1e300))
DECIMAL = Kind("decimal(10,2)", pa.decimal128(10, 2), tuple(map(Decimal, ("0.00", "1.50", "12.34", "3.00"))))
STRING = Kind(
    "string", pa.string(), ("a", "b", "", " a ", "A", "ü/ö", "it's", "x=y%20", "a\\n", "日本", "a" * 40, "a" * 39 + "b")
)
BOOLEAN = Kind("boolean", pa.bool_(), (True, False))
KINDS = (
    *(LONG, INT, DOUBLE, DECIMAL, STRING, BOOLEAN),
    Kind("smallint", pa.int16(), (0, 1, -2, 300)),
    Kind("float", pa.float32(), (0.0, -0.0, 1.5, -2.25, float("nan"), float("inf"))),
    Kind("date", pa.date32(), tuple(date(*day) for day in ((2026, 11, 16), (1969, 12, 31), (1, 1, 1), (1582, 10, 4)))),
    Kind("timestamp", pa.timestamp("us", "UTC"), _times(UTC)),
    Kind("timestamp_ntz", pa.timestamp("us"), _times(None)),
    Kind("binary", pa.binary(), (b"", b"\x00\xff", b"abc"), is_compared=False),
    Kind(
        "struct<x: int, y: string>",
        pa.struct([("x", pa.int32()), ("y", pa.string())]),
        ({"x": 1, "y": "a"}, {"x": None, "y": None}, {"x": 2, "y": ""}),
        is_compared=False,
    ),
    Kind("array<int>", pa.list_(pa.int32()), ([], [1, None], [2, 3]), is_compared=False),
    Kind(
        "map<string, int>",
        pa.map_(pa.string(), pa.int32()),
        ([], [("k", 1)], [("k", None), ("l", 2)]),
        is_compared=False,
    ),
)
PARTITION_KINDS = tuple(kind for kind in KINDS if kind.is_compared)
