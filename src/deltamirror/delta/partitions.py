"""Partition values: the typed value that a text of the log stands for, and the reference writer's text of a value.

One value has many spellings: ``7`` and ``07``, ``1.5`` and ``1.50``, ``2024-01-01 00:00:00`` and
``2024-01-01T00:00:00.000000Z``. Compare values, never texts. Null and the empty text are one value, null.

Accepted are the spellings that lose nothing: ``1.7`` is no integer and ``1.555`` no ``decimal(5,2)``. Years are 1 to
9999, as in Python's types.
"""

import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Context, InvalidOperation
from decimal import Decimal as Number
from math import isfinite, isinf, isnan
from typing import Final

from deltamirror.delta.schema import DataType, Decimal, Primitive

PartitionValue = str | int | float | bool | Number | date | datetime | bytes | None

_NAN: Final = float("nan")
"""The one NaN that is handed out: Python finds it in sets and tuples because it is the same object."""

_BITS: Final[Mapping[str, int]] = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_NON_FINITE: Final = re.compile(r"(?i:nan|([+-]?)inf(?:inity)?)")
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})")
_TIME: Final = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{1,2}-[0-9]{1,2})"
    r"(?:[ T](?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,6})0{0,3})?"
    r"(?P<zone> ?(?:Z|UTC|GMT)|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_DIGITS: Final = Context(prec=2_000)
_MOST_FLOAT_DIGITS: Final = 9


def parse_partition(value: PartitionValue, kind: DataType) -> PartitionValue:
    """The typed value of a partition column that a text spells, or that a Python value stands for.

    Integers are ``int``, timestamps ``datetime`` in UTC (a text without a zone is in UTC), timestamps without time zone
    naive ``datetime``; a float is rounded to its 32 bits. Equal values compare and hash equal, NaN too where Python
    compares by identity first, as in sets and tuples. ValueError where there is no such value of the type.
    """
    if value is None or value in ("", b""):
        return None
    try:
        match kind:
            case Decimal():
                return _decimal(value, kind)
            case Primitive(name) if name in _BITS:
                return _integer(value, _BITS[name])
            case Primitive(name) if name in _READERS:
                return _READERS[name](value)
    except (ArithmeticError, TypeError, ValueError, struct.error):
        pass
    raise ValueError(f"{value!r} is no value of {_shown(kind)}")


def partition_text(value: PartitionValue, kind: DataType) -> str | None:
    """The reference writer's text of a value, or of what another spelling of it stands for; None is null.

    ValueError where there is no such value of the type.
    """
    typed = parse_partition(value, kind)
    match typed:
        case bool():
            return "true" if typed else "false"
        case float():
            return _java_float(typed) if kind == Primitive("float") else java_double(typed)
        case Number():
            return f"{typed:f}"
        case datetime():
            return _time_text(typed)
        case bytes():
            return typed.decode()
        case int() | date():
            return str(typed)
        case _:
            return typed


def has_negative_fraction(value: PartitionValue) -> bool:
    """Whether this is a decimal such as -1.50: delta-rs opens no table with such a value as Arrow or pandas data."""
    return isinstance(value, Number) and value < 0 and value != value.to_integral_value()


def java_double(value: float) -> str:
    """``Double.toString``: positional from 1e-3 up to 1e7, otherwise with an exponent, and always a fraction."""
    return _java_digits(value, repr(value))


def _shown(kind: DataType) -> str:
    match kind:
        case Decimal(precision, scale):
            return f"decimal({precision},{scale})"
        case Primitive(name):
            return name
        case _:
            return "a type that partitions can have"


def _integer(value: PartitionValue, bits: int) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TypeError
    if isinstance(value, str) and _INTEGER.fullmatch(value) is None:
        raise ValueError
    number, bound = int(value), 1 << (bits - 1)
    if not -bound <= number < bound:
        raise ValueError
    return number


def _decimal(value: PartitionValue, kind: Decimal) -> Number:
    """Exactly at the column's scale; zero has no sign, as in Java."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Number):
        raise TypeError
    text = str(value)
    if _NUMBER.fullmatch(text) is None:
        raise ValueError
    number = Number(text)
    scaled = number.quantize(Number(1).scaleb(-kind.scale), context=_DIGITS)
    magnitude = scaled.copy_abs()  # abs() rounds to the 28 digits of Python's context
    if scaled != number or magnitude >= Number(1).scaleb(kind.precision - kind.scale):
        raise InvalidOperation
    return magnitude if scaled == 0 else scaled


def _double(value: PartitionValue) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float | Number):
        raise TypeError
    if isinstance(value, str):
        return _double_of_text(value)
    number = float(value)
    return _NAN if isnan(number) else number


def _double_of_text(text: str) -> float:
    if found := _NON_FINITE.fullmatch(text):
        return _NAN if text[-1] in "nN" else float(f"{found[1]}inf")
    if _NUMBER.fullmatch(text) is None or isinf(float(text)):
        raise ValueError
    return float(text)


def _single(value: PartitionValue) -> float:
    number = _double(value)
    return _rounded(number) if isfinite(number) else number


def _rounded(number: float) -> float:
    rounded: float = struct.unpack("<f", struct.pack("<f", number))[0]
    return rounded


def _boolean(value: PartitionValue) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise ValueError


def _date(value: PartitionValue) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    found = _DATE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError
    return date(*map(int, found.groups()))


def _timestamp(value: PartitionValue) -> datetime:
    found = value if isinstance(value, datetime) else _parsed_time(value)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _timestamp_ntz(value: PartitionValue) -> datetime:
    found = value if isinstance(value, datetime) else _parsed_time(value)
    if found.tzinfo is not None:
        raise ValueError
    return found


def _parsed_time(value: PartitionValue) -> datetime:
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError
    hour, minute, second = (int(found[name] or 0) for name in ("hour", "minute", "second"))
    micros = int((found["fraction"] or "").ljust(6, "0"))
    return datetime.combine(_date(found["date"]), time(hour, minute, second, micros, _zone(found["zone"])))


def _zone(text: str | None) -> timezone | None:
    if text is None:
        return None
    if text[0] not in "+-":
        return UTC
    ahead = timedelta(hours=int(text[1:3]), minutes=int(text[3:].lstrip(":") or 0))
    return timezone(-ahead if text[0] == "-" else ahead)


def _text(value: PartitionValue) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _binary(value: PartitionValue) -> bytes:
    if isinstance(value, bytes):
        value.decode()  # the log has text
        return value
    return _text(value).encode()


def _time_text(value: datetime) -> str:
    if value.tzinfo is not None:
        return value.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    return value.isoformat(sep=" ").rstrip("0") if value.microsecond else value.isoformat(sep=" ")


def _java_float(value: float) -> str:
    """``Float.toString``: the fewest digits that give the 32 bits back."""
    texts = (f"{value:.{digits}g}" for digits in range(1, _MOST_FLOAT_DIGITS + 1))
    shortest = next((text for text in texts if isfinite(value) and _gives_back(text, value)), repr(value))
    return _java_digits(value, shortest)


def _gives_back(text: str, value: float) -> bool:
    try:
        return _rounded(float(text)) == value
    except (OverflowError, struct.error):
        return False


def _java_digits(value: float, shortest: str) -> str:
    if not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    number = Number(shortest)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = f"{number:f}"
        return text if "." in text else f"{text}.0"
    sign, digits, _ = number.as_tuple()
    fraction = "".join(map(str, digits[1:])).rstrip("0") or "0"
    return f"{'-' * sign}{digits[0]}.{fraction}E{number.adjusted()}"


_READERS: Final[Mapping[str, Callable[[PartitionValue], PartitionValue]]] = {
    "string": _text,
    "binary": _binary,
    "boolean": _boolean,
    "float": _single,
    "double": _double,
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp_ntz,
}
