"""How rows of the database differ from what they have to say, a column at a time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import msgspec
from sqlalchemy import Table

from deltamirror.delta import lines
from deltamirror.errors import DeltaMirrorError
from deltamirror.txnlog.database.access import Row

_JSON: Final = frozenset({"partition_values", "tags", "deletion_vector"})
"""Columns that may spell the same in several ways."""

_NAMES: Final = frozenset({"app_ids", "domains"})
"""Columns with arrays of names: of a large commit, in the order in which its parts came."""

RESTORE: Final = "restore the database from a backup, and `deltamirror adopt {table}` the versions that it lacks"
ROW: Final = "a row"
NO_ROW: Final = "no row"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDifference:
    """A value in a row of the database that contradicts the committed lines, or the other rows."""

    table: str
    """The table of the database."""
    version: int
    column: str
    subject: str = ""
    """Which of several rows of the version: the path, the application, the domain."""
    expected: str
    found: str
    remedy: str = RESTORE


@dataclass(frozen=True, slots=True, kw_only=True)
class RowKind:
    """How rows of one table of the database are told apart and named."""

    table: str
    columns: Sequence[str]
    key: Sequence[str]
    """The columns that name a row of a version; the first of them is told."""
    passed_over: frozenset[str] = frozenset()
    """Columns that the lines do not determine."""

    def differences(self, version: int, expected: Iterable[Row], found: Iterable[Row]) -> Iterator[RowDifference]:
        """How rows of a version differ."""
        wanted, there = self._named(expected), self._named(found)
        for key in sorted(wanted.keys() | there.keys(), key=str):
            subject = str(key[0]) if self.key else ""
            if key in wanted and key in there:
                yield from self._columns(version, subject, wanted[key], there[key])
            else:
                sides = (ROW, NO_ROW) if key in wanted else (NO_ROW, ROW)
                column = self.key[0] if self.key else "version"
                yield RowDifference(
                    table=self.table,
                    version=version,
                    column=column,
                    subject=subject,
                    expected=sides[0],
                    found=sides[1],
                )

    def _named(self, rows: Iterable[Row]) -> Mapping[tuple[object, ...], Row]:
        """By their names, and of those that have the same name by a number."""
        numbers, named = dict[tuple[object, ...], "count[int]"](), dict[tuple[object, ...], Row]()
        places = [self.columns.index(name) for name in self.key]
        for row in rows:
            name = tuple(row[place] for place in places)
            named[(*name, next(numbers.setdefault(name, count())))] = row
        return named

    def _columns(self, version: int, subject: str, expected: Row, found: Row) -> Iterator[RowDifference]:
        for name, wanted, there in zip(self.columns, expected, found, strict=True):
            if name not in self.passed_over and not same_value(name, wanted, there):
                yield RowDifference(
                    table=self.table,
                    version=version,
                    column=name,
                    subject=subject,
                    expected=told(wanted),
                    found=told(there),
                )


def difference(
    table: Table, version: int, column: str, expected: object, found: object, **remedy: str
) -> RowDifference:
    """A value of a table of the database that is not the expected one."""
    return RowDifference(
        table=str(table.name), version=version, column=column, expected=told(expected), found=told(found), **remedy
    )


def same_value(column: str, expected: object, found: object) -> bool:
    """Whether two values of a column mean the same."""
    if expected == found:
        return True
    if not isinstance(expected, str) or not isinstance(found, str):
        return False
    if column == "line":
        return bool(_decoded_line(expected) == _decoded_line(found))
    if column in _NAMES:
        return bool(_names(expected) == _names(found))
    return column in _JSON and text_without_nulls(expected) == text_without_nulls(found)


def text_without_nulls(text: str) -> str:
    """JSON as it is compared. The line of a remove leaves out partition values that are null, its row has them."""
    found = _decoded(text)
    stated = {key: value for key, value in found.items() if value is not None} if isinstance(found, dict) else found
    return msgspec.json.encode(stated, order="sorted").decode()


def told(value: object) -> str:
    """A value, for people."""
    match value:
        case None:
            return "null"
        case bytes():
            return value.hex()
        case _:
            return str(value)


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


def _names(text: str) -> Any:
    found = _decoded(text)
    return sorted(found, key=str) if isinstance(found, list) else found


def _decoded_line(text: str) -> Any:
    try:
        return lines.decode(text)
    except DeltaMirrorError:
        return text
