"""Rows of all types, with what makes statistics and folders difficult, by the tables that they are written to."""

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from deltamirror import Table

_MANY = ", ".join(f"c{number} int" for number in range(40))
_TYPES = (
    "b byte, s short, i int, l long, f float, d double, z double, q double, c decimal(20,4), k decimal(38,20), "
    "o boolean, t string, u string, w string, v string, y binary, e date, x timestamp, n timestamp_ntz, a array<int>, "
    "m map<string,int>, r struct<p: long, q: struct<g: string, h: array<int>>>, nothing string"
)
_EMOJI = "\U0001f600"


def _row(number: int) -> dict[str, Any]:
    late = timedelta(microseconds=123456 + number)
    return {
        "b": number - 2,
        "s": -number,
        "i": 7 * number,
        "l": 2**53 + number,
        "f": [1.1, 3.4028235e38, -0.0, 1e-5][number],
        "d": [123456789.125, -1e-300, 0.1, 5e-324][number],
        "z": [0.0, 2.5, 0.0, -2.5][number],
        "q": [math.nan, 1.0, -math.inf, 2.5][number],
        "c": Decimal("12.3400") - number,
        "k": Decimal("1E-20") * number,
        "o": bool(number % 2),
        "t": "a" * 40 + str(number),
        "u": ["é" * 33, "ü" * 31 + _EMOJI + "tail", "\U0010ffff" * 20, ""][number],
        "w": ['quote" \\ \n', "\x7f" * 35, "ctrl\x01", "z" * 32][number],
        "v": ["y" * 32 + _EMOJI, "y" * 31 + _EMOJI + "b", "y", "x"][number],
        "y": bytes([number]),
        "e": date(1960, 1, 1) + timedelta(days=number),
        "x": datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC) + late,
        "n": datetime.fromisoformat("2024-07-01T00:00:00") + late,
        "a": [number, None],
        "m": [("k", number)],
        "r": {"p": number, "q": None if number % 2 else {"g": f"g{number}", "h": [1]}},
        "nothing": None,
    }


def _typed() -> list[dict[str, Any]]:
    nulls = dict.fromkeys(_row(0))
    return [nulls, *(_row(number) for number in range(4)), {**_row(1), "r": None}]


def _many() -> list[dict[str, Any]]:
    return [{f"c{number}": each * number for number in range(40)} for each in (1, -2)]


def _days() -> list[dict[str, Any]]:
    odd = ["a b/c=d%", "ünï:#?", "", None, "x'y\"{}[]^\\", "plain"]
    return [{"id": n, "p": odd[n % 6], "d": date(2024, 1, 1 + n % 2), "t": "t" * n} for n in range(24)]


CASES: dict[str, tuple[str, list[str], dict[str, str], list[dict[str, Any]]]] = {
    "types": (_TYPES, [], {}, _typed()),
    "vectors": (_TYPES, [], {"delta.enableDeletionVectors": "true"}, _typed()),
    "chosen": (_TYPES, [], {"delta.dataSkippingStatsColumns": "r.q, l, u"}, _typed()),
    "few": (_TYPES, [], {"delta.dataSkippingNumIndexedCols": "3"}, _typed()),
    "many": (_MANY, [], {}, _many()),
    "partitions": ("id long, p string, d date, t string", ["p", "d"], {}, _days()),
}


def statistics(table: Table) -> list[tuple[tuple[tuple[str, str | None], ...], str]]:
    """The partition values and the statistics of all files."""
    names = {each.physical_name: each.name for each in table.snapshot().schema.fields}
    found = []
    for add in table.snapshot().adds():
        values = {names[column]: value for column, value in add.partition_values.items()}
        found.append((tuple(sorted(values.items())), str(add.stats)))
    return sorted(found, key=str)


def folders(table: Table) -> set[str]:
    """The folders of all files."""
    return {add.path.rpartition("/")[0] for add in table.snapshot().adds()}
