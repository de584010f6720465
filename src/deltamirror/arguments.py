"""Arguments from Python, brought into the one form that the package works with, or refused by name.

Type hints do not hold at run time: a text where a list belongs would be taken letter by letter, and a number where a
text belongs would fail deep inside. Every public method passes what it is handed through here, first thing.
"""

import math
import operator
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any

from msgspec.structs import replace

from deltamirror.config import LiveSettings, Settings, load
from deltamirror.errors import InvalidInput, InvalidSettings

_LONGEST_SHOWN = 80
_LONGEST_SECONDS = 10**10
PARTITION_VALUES = (str, int, float, Decimal, date, bytes)
"""The types of Python whose values partition columns can have."""

_SCALARS = (bool, int, float, str, Decimal, date, timedelta)


def shown(value: object) -> str:
    """A value as errors repeat it: small ones as they are, all others by their type, since they may hold secrets."""
    if value is None:
        return "None"
    kind = type(value).__name__
    if not isinstance(value, _SCALARS):
        return f"{'an' if kind[:1] in 'AEIOaeio' else 'a'} {kind}"
    said = repr(value)
    return f"{said if len(said) <= _LONGEST_SHOWN else said[:_LONGEST_SHOWN] + '…'} ({kind})"


def text(value: object, name: str, *, hint: str = "") -> str:
    """A text."""
    if not isinstance(value, str):
        raise _wrong(name, "a text", value, hint or f'give {name}="…"')
    return str.__str__(value)  # of a subclass, such as numpy's, the text alone


def optional_text(value: object, name: str) -> str | None:
    """A text, or nothing."""
    return None if value is None else text(value, name)


def table_name(value: object) -> str:
    """The name of a table."""
    return text(value, "table", hint='give the name of the table, such as "sales.orders"; of a Table, its name')


def texts(value: object, name: str) -> tuple[str, ...]:
    """Several texts; a single one is a list of one, never its letters."""
    if value is None:
        return ()
    return tuple(text(each, f"each of {name}") for each in listed(value, name, one=str, of="texts"))


def listed(value: object, name: str, *, one: type | tuple[type, ...], of: str) -> Iterable[object]:
    """What can be gone through; a single value of the type ``one`` is a list of one."""
    if isinstance(value, one):
        return [value]
    if isinstance(value, str | bytes | bytearray | Mapping | PurePath) or not _is_iterable(value):
        raise _wrong(name, f"a list of {of}", value, f"give {name}=[…]")
    return value  # type: ignore[return-value]  # `_is_iterable` has looked


def number(value: object, name: str) -> int:
    """A whole number; numpy's, too."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)  # type: ignore[arg-type]  # the very question
    except TypeError:
        raise _wrong(name, "a whole number", value, f"give {name} as an int, such as 12") from None


def optional_number(value: object, name: str) -> int | None:
    """A whole number, or nothing."""
    return None if value is None else number(value, name)


def seconds_of(value: object, name: str) -> float:
    """A length of time."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise _wrong(name, "a number of seconds", value, f"give {name}=30.0")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def milliseconds(value: object, name: str) -> int | None:
    """A length of time from 0 on, or nothing."""
    if value is None:
        return None
    if not 0 <= (seconds := seconds_of(value, name)) <= _LONGEST_SECONDS:
        raise _wrong(name, f"from 0 to {_LONGEST_SECONDS} seconds", value, f"give {name}=timedelta(days=7)")
    return int(seconds * 1_000)


def runner_name(value: object) -> str | None:
    """Where work runs, or nothing."""
    if (named := optional_text(value, "runner")) not in (None, "local", "spark"):
        raise _wrong("runner", '"local" or "spark"', value, "leave it out to have it chosen by the size of the work")
    return named


def flag(value: object, name: str) -> bool:
    """Yes or no."""
    if not isinstance(value, bool):
        raise _wrong(name, "True or False", value, f"give {name}=True, or leave it out")
    return value


def mapping(value: object, name: str, *, of: str = "values") -> Mapping[str, object]:
    """A mapping from texts; None is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _wrong(name, f"a mapping from texts to {of}", value, f'give {name}={{"key": …}}')
    return {text(key, f"each key of {name}"): each for key, each in value.items()}


def text_map(value: object, name: str) -> dict[str, str]:
    """A mapping from texts to texts. ``True`` is written ``true``, and 10 as ``10``: Delta keeps texts only."""
    return {key: _spelled(each, f"{name}[{key!r}]") for key, each in mapping(value, name, of="texts").items()}


def partition_filter(value: object) -> dict[str, list[Any]]:
    """The values that partition columns may have, by column; a single value is a list of one, None is null."""
    wanted = mapping(value, "partitions", of="values of partition columns")
    return {column: list(_partition_values(each, f"partitions[{column!r}]")) for column, each in wanted.items()}


def _partition_values(value: object, name: str) -> Iterator[object]:
    for each in [None] if value is None else listed(value, name, one=PARTITION_VALUES, of="values"):
        if each is not None and not isinstance(each, PARTITION_VALUES):
            raise _wrong(name, "a value of the column", each, "give texts, numbers, dates or times, or None for null")
        yield each


def path_text(value: object, name: str) -> str:
    """A text, or a path of Python's ``pathlib``."""
    return text(os.fspath(value) if isinstance(value, os.PathLike) else value, name)


def require(value: object, kind: type, name: str, *, hint: str) -> None:
    """Refuse what is not of a class, unless it is nothing."""
    if value is not None and not isinstance(value, kind):
        raise _wrong(name, f"a {kind.__name__}", value, hint)


def require_function(value: object, name: str, *, hint: str) -> None:
    """Refuse what cannot be called, unless it is nothing."""
    if value is not None and not callable(value):
        raise _wrong(name, "a function", value, hint)


def settings_from(url: object, settings: object) -> LiveSettings:
    """The settings to work with: those that were handed in, or those of file and environment, as for the command line.

    A URL goes before theirs. Only settings that are handed in live change afterwards.
    """
    if isinstance(settings, LiveSettings):
        if url is not None:
            raise InvalidInput("settings that reload name the catalog themselves", hint="leave the url out")
        return settings
    if settings is not None and not isinstance(settings, Settings):
        hint = "give deltamirror.config.Settings(…), or the settings that deltamirror.config.load(…) found"
        raise _wrong("settings", "a Settings", settings, hint)
    known = load(environment=os.environ).settings if settings is None else settings
    given = known if url is None else replace(known, catalog=replace(known.catalog, url=_catalog_url(url)))
    return LiveSettings.of(given)


def _catalog_url(url: object) -> str:
    if isinstance(url, os.PathLike):
        path = os.fspath(url)
        message = f"the catalog is named by its URL, not by a path: {path!r}"
        raise InvalidSettings(message, hint=f"for SQLite: sqlite:///{path}", key="catalog.url")
    return text(url, "url", hint="use sqlite:///FILE, duckdb:///FILE or postgresql://USER@HOST/DATABASE")


def _spelled(value: object, name: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else text(value, name, hint="give a text, such as '10' or 'true'")


def _is_iterable(value: object) -> bool:
    try:
        iter(value)  # type: ignore[call-overload]  # the very question
    except TypeError:
        return False
    return True


def _wrong(name: str, wanted: str, value: object, hint: str) -> InvalidInput:
    return InvalidInput(f"{name} has to be {wanted}, not {shown(value)}", hint=hint)
