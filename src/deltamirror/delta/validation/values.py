"""Whether a text is a partition value of a type.

Partition values of a bulk commit repeat, so each test remembers what it has seen.
"""

import decimal
import re
from collections.abc import Callable, Mapping
from datetime import date
from functools import lru_cache, partial
from typing import TypeAlias

from deltamirror.delta.schema import DataType, Decimal, Primitive

__all__ = ["Parses", "value_test"]

Parses: TypeAlias = Callable[[str], bool]

_REMEMBERED = 4096
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_FLOAT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|NaN|[+-]?Infinity")
_DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_CLOCK = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?")
_ZONE = re.compile(r"Z|[+-][0-9]{2}:?[0-9]{2}")
_DATE_LENGTH = len("2024-01-31")


def value_test(kind: DataType) -> Parses | None:
    """The test for texts of a type; ``None`` where every text is a value, as for strings."""
    test: Parses | None = None
    match kind:
        case Decimal(precision, scale):
            test = partial(_is_decimal, precision, scale)
        case Primitive(name):
            test = _TESTS.get(name)
    return None if test is None else lru_cache(_REMEMBERED)(test)


def _is_integer(bits: int, text: str) -> bool:
    bound = 1 << (bits - 1)
    return _INTEGER.fullmatch(text) is not None and -bound <= int(text) < bound


def _is_float(text: str) -> bool:
    return _FLOAT.fullmatch(text) is not None


def _is_decimal(precision: int, scale: int, text: str) -> bool:
    if _DECIMAL.fullmatch(text) is None:
        return False
    value = decimal.Decimal(text)
    fraction = max(0, -int(value.as_tuple().exponent))
    return (fraction <= scale and value.adjusted() < precision - scale) or value == 0


def _is_boolean(text: str) -> bool:
    return text in ("true", "false")


def _is_date(text: str) -> bool:
    if _DATE.fullmatch(text) is None:
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_timestamp_ntz(text: str) -> bool:
    separated = text[_DATE_LENGTH : _DATE_LENGTH + 1] in (" ", "T")
    return separated and _is_date(text[:_DATE_LENGTH]) and _CLOCK.fullmatch(text, _DATE_LENGTH + 1) is not None


def _is_timestamp(text: str) -> bool:
    """With a zone, as the protocol wants it, or without one, as older writers spell it."""
    zone = _ZONE.search(text, _DATE_LENGTH)
    local = text if zone is None or zone.end() != len(text) else text[: zone.start()]
    return _is_timestamp_ntz(local)


_TESTS: Mapping[str, Parses] = {
    "byte": partial(_is_integer, 8),
    "short": partial(_is_integer, 16),
    "integer": partial(_is_integer, 32),
    "long": partial(_is_integer, 64),
    "float": _is_float,
    "double": _is_float,
    "boolean": _is_boolean,
    "date": _is_date,
    "timestamp": _is_timestamp,
    "timestamp_ntz": _is_timestamp_ntz,
}
