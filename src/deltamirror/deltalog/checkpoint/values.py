"""Texts of partition values and statistics as values of their columns, as Spark reads them.

Days count from 1970, times in microseconds from 1970: Arrow takes such integers, beyond the years of Python's own
types too. Values that cannot be read are None.
"""

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, InvalidOperation
from decimal import Decimal as Number
from typing import Final

import pyarrow as pa

from deltamirror.delta.schema import DataType, Decimal, Primitive

_DATE: Final = r"(?P<year>[+-]?\d{4,6})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})"
_DAY: Final = re.compile(_DATE + r"(?:[ T].*)?)?)?", re.DOTALL | re.ASCII)
_TIME: Final = re.compile(
    _DATE + r"(?:[ T](?P<hour>\d{1,2}):(?P<minute>\d{1,2}):(?P<second>\d{1,2})(?:\.(?P<fraction>\d{0,9}))?"
    r"\s*(?P<zone>Z|UTC|GMT|[+-]\d{1,2}(?::\d{2}:\d{2}|:?\d{2})?)?)?)?)?",
    re.ASCII,
)
_INTEGER: Final = re.compile(r"([+-]?\d+)(?:\.\d*)?|[+-]?\.\d+", re.ASCII)
_FLOAT: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_NON_FINITE: Final = re.compile(r"([+-]?)(?:inf|infinity)|nan", re.IGNORECASE)
_DAYS_BEFORE: Final = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
_BITS: Final = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_TRUTH: Final = {
    **dict.fromkeys(("t", "true", "y", "yes", "1"), True),
    **dict.fromkeys(("f", "false", "n", "no", "0"), False),
}
_DIGITS: Final = Context(prec=2_000)
_MOST_DIGITS: Final = 38


def of_partition(text: str | None, kind: DataType) -> object:
    """The value of a partition column, as a cast of its text gives it. A time without a zone is in UTC."""
    if text is None:
        return None
    if isinstance(kind, Decimal):
        return as_decimal(text.strip(), kind)
    if isinstance(kind, Primitive) and kind.name in _READERS:
        return _READERS[kind.name](text)
    return _as_integer(text, _BITS[kind.name]) if isinstance(kind, Primitive) and kind.name in _BITS else None


def as_date(text: str) -> int | None:
    """The day of a date, whatever follows it."""
    found = _DAY.fullmatch(text.strip())
    return None if found is None else _days(found)


def as_time(text: str) -> int | None:
    """The instant of a time with a zone; digits beyond the microsecond are cut off."""
    return _micros(text, zone_needed=True)


def as_local_time(text: str) -> int | None:
    """The time of a clock without a zone."""
    found = _TIME.fullmatch(text.strip())
    return None if found is None or found["zone"] else _micros(text, zone_needed=False)


def as_decimal(text: str, kind: Decimal) -> Number | None:
    """The number with the column's scale, rounded half up; None where it has too many digits."""
    if not _FLOAT.fullmatch(text):
        return None
    try:
        rounded = Number(text).quantize(Number(1).scaleb(-kind.scale), ROUND_HALF_UP, _DIGITS)
    except InvalidOperation:
        return None
    if len(rounded.as_tuple().digits) > min(kind.precision, _MOST_DIGITS):
        return None
    return rounded


def as_float(text: str) -> float | None:
    """The number, where it is one in Java's words."""
    if found := _NON_FINITE.fullmatch(text):
        return float("nan") if text[-1] in "nN" else float(f"{found[1]}inf")
    return float(text) if _FLOAT.fullmatch(text) else None


def _as_integer(text: str, bits: int) -> int | None:
    found = _INTEGER.fullmatch(text.strip())
    number = None if found is None else int(found[1] or 0)
    return number if number is not None and -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else None


def _as_single(text: str) -> float | None:
    """Rounded once, to 32 bits: by way of 64 bits it could become a neighbour."""
    number = as_float(text.strip())
    if number is None or _NON_FINITE.fullmatch(text.strip()):
        return number
    single: float = pa.scalar(text.strip().removeprefix("+")).cast(pa.float32()).as_py()
    return single


def _as_zoned_or_utc(text: str) -> int | None:
    return _micros(text, zone_needed=False)


def _without_zone(text: str) -> int | None:
    found = _TIME.fullmatch(text.strip())
    return None if found is None else _clock(found)


def _micros(text: str, *, zone_needed: bool) -> int | None:
    found = _TIME.fullmatch(text.strip())
    if found is None or (zone_needed and not found["zone"]):
        return None
    clock = _clock(found)
    return None if clock is None else clock - _offset(found["zone"] or "Z")


def _clock(found: re.Match[str]) -> int | None:
    days = _days(found)
    hour, minute, second = (int(found[name] or 0) for name in ("hour", "minute", "second"))
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    fraction = int((found["fraction"] or "").ljust(6, "0")[:6])
    return ((days * 24 + hour) * 60 + minute) * 60_000_000 + second * 1_000_000 + fraction


def _offset(zone: str) -> int:
    """How far a zone is ahead of UTC, in microseconds; the local times of old had seconds, too."""
    if zone[0] not in "+-":
        return 0
    hours, minutes, seconds = [*zone[1:].split(":"), "", ""][:3]
    if not minutes and len(hours) > 2:
        hours, minutes = hours[:-2], hours[-2:]
    ahead = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    return ahead * 1_000_000 * (-1 if zone[0] == "-" else 1)


def _days(found: re.Match[str]) -> int | None:
    """Days from 1970 in the calendar of ISO 8601, which goes on before its introduction and beyond the year 9999."""
    year, month, day = int(found["year"]), int(found["month"] or 1), int(found["day"] or 1)
    if not (1 <= month <= 12 and 1 <= day <= _month_length(year, month)):
        return None
    past = year - 1
    leap_day = month > 2 and _is_leap(year)
    return past * 365 + past // 4 - past // 100 + past // 400 + _DAYS_BEFORE[month - 1] + leap_day + day - 719_163


def _month_length(year: int, month: int) -> int:
    following = 365 if month == 12 else _DAYS_BEFORE[month]
    return following - _DAYS_BEFORE[month - 1] + (month == 2 and _is_leap(year))


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


_READERS: Final[dict[str, Callable[[str], object]]] = {
    "string": str,
    "binary": str.encode,
    "boolean": lambda text: _TRUTH.get(text.strip().lower()),
    "float": _as_single,
    "double": lambda text: as_float(text.strip()),
    "date": as_date,
    "timestamp": _as_zoned_or_utc,
    "timestamp_ntz": _without_zone,
}
