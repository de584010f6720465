# ruff: noqa: DTZ001  a timestamp without a zone is a type of Delta
"""Partition values as texts: as the reference writes them, and in every other way that comes to mind."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final


def spelled(value: Any) -> str | None:
    """A partition value as the reference writes it."""
    if value is None or value in ("", b""):
        return None
    match value:
        case bool():
            return str(value).lower()
        case float():
            return _java(value)
        case bytes():
            return value.decode()
        case datetime() if value.tzinfo is not None:
            return f"{_padded(value)}.{value.microsecond:06d}Z".replace(" ", "T")
        case datetime():
            fraction = f".{value.microsecond:06d}".rstrip("0").rstrip(".")
            return f"{_padded(value)}{fraction}"
        case Decimal():
            return f"{value:f}"
        case date():
            return value.isoformat()
        case _:
            return str(value)


def _padded(value: datetime) -> str:
    return (value.replace(tzinfo=None, microsecond=0)).isoformat(sep=" ")


def _java(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    text = repr(value)
    if "e" not in text and (value == 0 or 1e-3 <= abs(value) < 1e7):
        return text
    mantissa, exponent = f"{value:.17e}".split("e") if "e" not in text else text.split("e")
    mantissa = mantissa.rstrip("0") if "." in mantissa else f"{mantissa}.0"
    return f"{mantissa}{'0' if mantissa.endswith('.') else ''}E{int(exponent)}"


ODD: Final[Mapping[str, tuple[tuple[str, Any], ...]]] = {
    "integer": (("07", 7), ("+7", 7), ("-0", 0), ("7.0", 7), (" 7", 7), ("7e0", 7), ("٧", 7), ("1_000", 1000)),
    "long": (("007", 7), ("9223372036854775808", 0), ("-0", 0)),
    "byte": (("128", 0), ("0x7", 7)),
    "short": (("00007", 7),),
    "float": (
        ("1", 1.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("1e3", 1e3),
        ("1.0E3", 1e3),
        ("inf", float("inf")),
        ("Infinity", float("inf")),
        ("+Infinity", float("inf")),
        ("nan", float("nan")),
        ("1f", 1.0),
        ("-0.0", -0.0),
        ("1e400", float("inf")),
    ),
    "double": (
        ("1", 1.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("+1.5", 1.5),
        ("1E+3", 1e3),
        ("1d", 1.0),
        ("-Infinity", float("-inf")),
        ("+Infinity", float("inf")),
        ("1e999", float("inf")),
        ("-0.0", -0.0),
        ("0x1p3", 8.0),
    ),
    "boolean": (("TRUE", True), ("True", True), ("t", True), ("1", True), ("yes", True)),
    "date": (
        ("2024-2-9", date(2024, 2, 9)),
        ("20240209", date(2024, 2, 9)),
        ("2024-02-09T00:00:00", date(2024, 2, 9)),
        ("2024-02-30", date(2024, 3, 1)),
        ("0000-01-01", date(1, 1, 1)),
        ("+2024-02-09", date(2024, 2, 9)),
        (" 2024-02-09", date(2024, 2, 9)),
        ("10000-01-01", date(9999, 12, 31)),
    ),
    "timestamp": (
        ("2024-01-02 03:04:05", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2024-01-02 03:04:05.12", datetime(2024, 1, 2, 3, 4, 5, 120000, tzinfo=UTC)),
        ("2024-01-02T03:04:05", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2024-01-02T03:04:05Z", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2024-01-02T03:04:05.1Z", datetime(2024, 1, 2, 3, 4, 5, 100000, tzinfo=UTC)),
        ("2024-01-02T05:04:05.000000+02:00", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2024-01-02T05:04:05+0200", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2024-01-02 03:04:05Z", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2024-01-02 05:04:05+02:00", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2024-01-02T03:04:05.123456789Z", datetime(2024, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)),
        ("2024-01-02 03:04:05.123456789", datetime(2024, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)),
        ("2024-01-02", datetime(2024, 1, 2, tzinfo=UTC)),
        ("0001-01-01 00:00:00", datetime(1, 1, 1, tzinfo=UTC)),
        ("9999-12-31T23:59:59.999999Z", datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
        ("1500-01-01T00:00:00.000000Z", datetime(1500, 1, 1, tzinfo=UTC)),
        ("1500-01-01 00:00:00", datetime(1500, 1, 1, tzinfo=UTC)),
    ),
    "timestamp_ntz": (
        ("2024-01-02T03:04:05", datetime(2024, 1, 2, 3, 4, 5)),
        ("2024-01-02 03:04:05.100000", datetime(2024, 1, 2, 3, 4, 5, 100000)),
        ("2024-01-02 03:04:05.123456789", datetime(2024, 1, 2, 3, 4, 5, 123456)),
        ("2024-01-02 03:04:05Z", datetime(2024, 1, 2, 3, 4, 5)),
        ("2024-01-02", datetime(2024, 1, 2)),
        ("0001-01-01 00:00:00", datetime(1, 1, 1)),
        ("9999-12-31 23:59:59.999999", datetime(9999, 12, 31, 23, 59, 59, 999999)),
    ),
    "decimal(5,2)": (
        ("1.5", Decimal("1.50")),
        ("1", Decimal("1.00")),
        ("1.500", Decimal("1.50")),
        ("+1.50", Decimal("1.50")),
        ("01.50", Decimal("1.50")),
        ("1.5E0", Decimal("1.50")),
        ("150E-2", Decimal("1.50")),
        ("-0.00", Decimal("0.00")),
        (".50", Decimal("0.50")),
        ("1000.00", Decimal("0.00")),
    ),
    "decimal(18,0)": (("1.0", Decimal(1)), ("1E3", Decimal(1000)), ("-0", Decimal(0)), ("007", Decimal(7))),
    "decimal(38,10)": (
        ("1", Decimal("1.0000000000")),
        ("0E-10", Decimal("0.0000000000")),
        ("1E-10", Decimal("0.0000000001")),
    ),
    "string": (
        ("", None),
        ("__HIVE_DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__"),
        ("null", "null"),
        ("\u0000", "\u0000"),
        ("a\u2028b", "a\u2028b"),
        ("\ud83d\ude80", "🚀"),
    ),
    "binary": (("", None), ("\u00ff", "\u00ff".encode()), ("a\u0000b", b"a\x00b"), ("\ufffd", "\ufffd".encode())),
}
"""Spellings that the reference does not write, by type, and the value that they have to be read as if admitted."""
