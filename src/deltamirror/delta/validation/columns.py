"""Whether the metadata of a column is what Delta Spark reads there: it fails for the whole table at anything else."""

import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from deltamirror.delta.schema.keys import (
    CHAR_VARCHAR,
    COMMENT,
    CURRENT_DEFAULT,
    EXISTS_DEFAULT,
    GENERATION_EXPRESSION,
    IDENTITY_EXPLICIT_INSERT,
    IDENTITY_HIGH_WATER_MARK,
    IDENTITY_START,
    IDENTITY_STEP,
    INVARIANTS,
    TYPE_CHANGES,
)

SQL_KEYS: Final = frozenset({GENERATION_EXPRESSION, CURRENT_DEFAULT, EXISTS_DEFAULT})
"""The keys whose values are SQL."""

_IDENTITY: Final = (IDENTITY_START, IDENTITY_STEP, IDENTITY_EXPLICIT_INSERT)
_LENGTHS: Final = re.compile(r"(?:(?:var)?char\(\d+\)|[^()]|decimal\(\d+, ?\d+\))+")


class _Condition(msgspec.Struct):
    expression: str


class _Invariant(msgspec.Struct):
    expression: _Condition


def unreadable_key(metadata: Mapping[str, object]) -> str | None:
    """The first key whose value Delta Spark cannot read; None: all are fine."""
    stated = [key for key in _IDENTITY if key in metadata]
    if stated and len(stated) < len(_IDENTITY):
        return stated[0]
    return next((key for key in metadata if not _KNOWN.get(key, _is_value)(metadata[key])), None)


def _is_value(value: object) -> bool:
    """What Spark holds as metadata: texts, numbers, truth, objects, and lists of one of these kinds."""
    match value:
        case Mapping():
            return all(map(_is_value, value.values()))
        case list():
            kinds = {type(each) for each in value}
            return len(kinds) <= 1 and kinds <= {str, int, float, bool, dict} and all(map(_is_value, value))
        case _:
            return True


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _is_invariant(value: object) -> bool:
    try:
        msgspec.json.decode(value if isinstance(value, str) else b"", type=_Invariant)
    except (msgspec.MsgspecError, UnicodeError):
        return False
    return True


def _are_changes(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, Mapping) for each in value) and _is_value(value)


def _has_lengths(value: object) -> bool:
    return isinstance(value, str) and _LENGTHS.fullmatch(value) is not None


_KNOWN: Final[Mapping[str, Callable[[object], bool]]] = {
    COMMENT: _is_text,
    GENERATION_EXPRESSION: _is_text,
    INVARIANTS: _is_invariant,
    IDENTITY_START: _is_number,
    IDENTITY_STEP: lambda value: _is_number(value) and value != 0,
    IDENTITY_EXPLICIT_INSERT: lambda value: isinstance(value, bool),
    IDENTITY_HIGH_WATER_MARK: _is_number,
    TYPE_CHANGES: _are_changes,
    CURRENT_DEFAULT: _is_text,
    EXISTS_DEFAULT: _is_text,
    CHAR_VARCHAR: _has_lengths,
}
