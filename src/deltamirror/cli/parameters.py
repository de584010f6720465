"""Option values that people type, read into what the catalog takes."""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import click

_LARGEST: Final = 2**63 - 1
_LONGEST: Final = 10**9
_SPANS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def whole_number(least: int) -> Callable[[click.Context, click.Parameter, int | None], int | None]:
    """A click callback that takes numbers from ``least`` on, of the size that the log holds."""

    def check(context: click.Context, parameter: click.Parameter, value: int | None) -> int | None:
        if value is not None and not least <= value <= _LARGEST:
            raise click.BadParameter(f"{value} is not a number from {least} to {_LARGEST}", context, parameter)
        return value

    return check


def seconds(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """A length of time from 0 on; a click callback."""
    if value is not None and not 0 <= value <= _LONGEST:
        raise click.BadParameter(f"{value} is not a number of seconds from 0 to {_LONGEST}", context, parameter)
    return value


def span(context: click.Context, parameter: click.Parameter, value: str) -> float:
    """A length of time such as ``90s``, ``15m``, ``2h`` or ``1d``, in seconds; a click callback."""
    length = span_or_none(context, parameter, value)
    if not length:
        raise _no_span(context, parameter, value)
    return length


def span_or_none(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """A length of time, which may be ``0s``, in seconds, or none; a click callback."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", value.strip())
    length = float(found[1]) * _SPANS[found[2]] if found else -1.0
    if not 0 <= length <= _LONGEST:
        raise _no_span(context, parameter, value)
    return length


def _no_span(context: click.Context, parameter: click.Parameter, value: str) -> click.BadParameter:
    return click.BadParameter(f"`{value}` is no length of time such as 90s, 15m, 2h or 1d", context, parameter)


def not_empty(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """A text that says something, unlike ``"$UNSET"``; a click callback."""
    if value is not None and not value.strip():
        raise click.BadParameter("it is empty", context, parameter)
    return value


def pairs(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    """``k=v`` options as a mapping; a click callback."""
    return by_column(context, parameter, list(_pairs(context, parameter, values)))


def by_column(context: click.Context, parameter: click.Parameter, values: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Options of two values, the first of which is a name, as a mapping; a click callback."""
    found: dict[str, str] = {}
    for key, value in values:
        if key in found:
            raise click.BadParameter(f"`{key}` is given twice", context, parameter)
        found[key] = value
    return found


def partition_values(
    context: click.Context, parameter: click.Parameter, values: Sequence[str]
) -> dict[str, list[str | None]]:
    """``COLUMN=VALUE`` options as the values of each column, null where there is none; a click callback."""
    found: dict[str, list[str | None]] = {}
    for column, value in _pairs(context, parameter, values):
        found.setdefault(column, []).append(value or None)
    return found


def _pairs(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> Iterator[tuple[str, str]]:
    for text in values:
        key, equals, value = text.partition("=")
        if not (equals and key.strip()):
            raise click.BadParameter(f"`{text}` is not NAME=VALUE", context, parameter)
        yield key.strip(), value.strip()


def names(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    """Options that may be repeated, or hold several names with commas between; a click callback."""
    return tuple(name.strip() for text in values for name in text.split(",") if name.strip())


def point_in_time(context: click.Context, parameter: click.Parameter, value: str | None) -> datetime | None:
    """ISO 8601 or milliseconds since 1970 as a time in UTC; a click callback."""
    if value is None:
        return None
    try:
        if value.lstrip("-").isdigit() and len(value) > len("20240101"):
            return datetime.fromtimestamp(int(value) / 1000, UTC)
        parsed = datetime.fromisoformat(value)
    except (OverflowError, ValueError) as error:
        message = f"`{value}` is neither ISO 8601 (2024-01-31T12:00:00Z) nor milliseconds since 1970"
        raise click.BadParameter(message, context, parameter) from error
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
