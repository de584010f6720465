"""Conditions on rows, as texts of SQL: ``day = '2026-11-16' AND (amount > 10 OR note IS NULL)``.

A condition compares columns with values; there are no functions and no arithmetic. Values are read by the type of their
column, so a condition that could not be true of any row is refused. Null is neither true nor false, as in SQL. NaN
equals itself and is above all other numbers, as in Spark.
"""

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from deltamirror.delta.partitions import PartitionValue, parse_partition
from deltamirror.delta.schema import DataType, Decimal, Field, Primitive, StructType, type_text
from deltamirror.errors import InvalidInput
from deltamirror.rows.layout import Layout

__all__ = ["Condition", "condition_of", "partition_box", "require_partition_columns"]

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>(?:`(?:[^`]|``)+`|[^\W\d]\w*)(?:\.(?:`(?:[^`]|``)+`|[^\W\d]\w*))*)|(?P<sign><=|>=|<>|!=|==|[=<>(),]))"
)
_PART: Final = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")
_COMPARED: Final[Mapping[str, Callable[[pc.Expression, pa.Scalar], pc.Expression]]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ABOVE: Final = frozenset({">", ">="})
_BESIDE_NAN: Final[Mapping[str, Callable[[pc.Expression], pc.Expression]]] = {
    "=": lambda is_nan: is_nan,
    "==": lambda is_nan: is_nan,
    "!=": operator.invert,
    "<>": operator.invert,
    "<": operator.invert,
    "<=": lambda is_nan: is_nan | ~is_nan,
    ">": lambda is_nan: is_nan & ~is_nan,
    ">=": lambda is_nan: is_nan,
}
_DEEPEST: Final = 100
_NUMBERS: Final = frozenset({"byte", "short", "integer", "long", "float", "double"})
_LONGEST_SHOWN: Final = 200
_EXAMPLE: Final = "write it like: day = '2026-11-16' AND (amount > 10 OR note IS NULL)"


@dataclass(frozen=True, slots=True)
class _Compared:
    """A column beside a value."""

    column: tuple[str, ...]
    sign: str
    value: pa.Scalar

    def of_rows(self) -> pc.Expression:
        if not kinds.is_floating(self.value.type) or self.sign not in _ABOVE or self._is_beside_nan:
            return self.of_bounds()
        return self.of_bounds() | pc.is_nan(pc.field(*self.column))

    def of_bounds(self) -> pc.Expression:
        if self._is_beside_nan:
            return _BESIDE_NAN[self.sign](pc.is_nan(pc.field(*self.column)))
        return _COMPARED[self.sign](pc.field(*self.column), self.value)

    @property
    def _is_beside_nan(self) -> bool:
        return kinds.is_floating(self.value.type) and math.isnan(self.value.as_py())


@dataclass(frozen=True, slots=True)
class _IsNull:
    column: tuple[str, ...]

    def of_rows(self) -> pc.Expression:
        return pc.field(*self.column).is_null()

    def of_bounds(self) -> pc.Expression:
        return self.of_rows()


@dataclass(frozen=True, slots=True)
class _Not:
    inner: "Condition"

    def of_rows(self) -> pc.Expression:
        return ~self.inner.of_rows()

    def of_bounds(self) -> pc.Expression:
        return ~self.inner.of_bounds()


@dataclass(frozen=True, slots=True)
class _Joined:
    """Several conditions, all of which hold, or any."""

    parts: tuple["Condition", ...]
    all: bool

    def of_rows(self) -> pc.Expression:
        return self._joined([each.of_rows() for each in self.parts])

    def of_bounds(self) -> pc.Expression:
        return self._joined([each.of_bounds() for each in self.parts])

    def _joined(self, parts: list[pc.Expression]) -> pc.Expression:
        """By halves: Arrow goes down into an expression call by call, and its stack is finite."""
        if len(parts) == 1:
            return parts[0]
        half = len(parts) // 2
        join = operator.and_ if self.all else operator.or_
        return join(self._joined(parts[:half]), self._joined(parts[half:]))


Condition: TypeAlias = _Compared | _IsNull | _Not | _Joined
"""``of_rows`` is true of the rows that are wanted, ``of_bounds`` in a file whose bounds are numbers, so without NaN."""


def condition_of(text: str, layout: Layout) -> Condition:
    """The condition that a text states of the rows of a table; InvalidInput says what is wrong with it."""
    return _Parser(text, layout).condition()


def partition_box(condition: Condition, layout: Layout) -> dict[str, list[PartitionValue]]:
    """The values that a condition leaves to each partition column it names; InvalidInput unless it is of such values.

    These are the conditions that whole partitions meet or do not: ``a = 1 AND b IN ('x', 'y') AND c IS NULL``.
    """
    partitions = {each.name for each in layout.partition_fields}
    box: dict[str, list[PartitionValue]] = {}
    for part in condition.parts if isinstance(condition, _Joined) and condition.all else (condition,):
        found = _choice(part)
        if found is None or found[0] not in partitions or found[0] in box:
            raise InvalidInput(
                f"table {layout.table!r}: only whole partitions can be replaced, by column = value or column IN (…), "
                "joined by AND",
                hint=f"its partition columns: {', '.join(sorted(partitions)) or 'none'}; other rows are replaced by "
                "Delta Spark",
            )
        box[found[0]] = found[1]
    return box


def require_partition_columns(condition: Condition, layout: Layout) -> None:
    """Refuse a condition of anything but partition columns: single files do not meet it, or not."""
    partitions = {each.name for each in layout.partition_fields}
    if others := sorted({".".join(column) for column in _columns(condition)} - partitions):
        raise InvalidInput(
            f"table {layout.table!r} is not partitioned by {others[0]!r}",
            hint=f"its partition columns: {', '.join(sorted(partitions)) or 'none'}",
        )


def _columns(condition: Condition) -> Iterator[tuple[str, ...]]:
    match condition:
        case _Compared(column) | _IsNull(column):
            yield column
        case _Not(inner):
            yield from _columns(inner)
        case _Joined(parts):
            for each in parts:
                yield from _columns(each)


def _choice(condition: Condition) -> tuple[str, list[PartitionValue]] | None:
    match condition:
        case _Compared((column,), "=" | "==", value):
            given = value.as_py()
            return column, [] if given in ("", b"") else [given]  # which is null as a value of partitions
        case _IsNull((column,)):
            return column, [None]
        case _Joined(parts, all=False):
            found = [_choice(each) for each in parts]
            names = {None if each is None else each[0] for each in found}
            if None not in names and len(names) == 1:
                return str(names.pop()), [value for each in found if each is not None for value in each[1]]
    return None


def _is_number(kind: DataType) -> bool:
    return isinstance(kind, Decimal) or (isinstance(kind, Primitive) and kind.name in _NUMBERS)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str

    def is_word(self, word: str) -> bool:
        return self.kind == "name" and self.text.upper() == word


_END: Final = _Token("end", "the end")


class _Parser:
    def __init__(self, text: str, layout: Layout) -> None:
        self._text, self._layout = text, layout
        self._tokens = list(self._read())
        self._at = self._depth = 0

    def condition(self) -> Condition:
        """The whole text."""
        found = self._any()
        if self._peek() is not _END:
            raise self._wrong(f"{self._peek().text!r} is not expected")
        return found

    def _read(self) -> Iterator[_Token]:
        at, end = 0, len(self._text.rstrip())
        while at < end:
            if (found := _TOKEN.match(self._text, at)) is None:
                raise self._wrong(f"{self._text[at : at + 20].strip()!r} is not expected")
            yield _Token(str(found.lastgroup), found[str(found.lastgroup)])
            at = found.end()

    def _any(self) -> Condition:
        parts = [self._all()]
        while self._take_word("OR"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else _Joined(tuple(parts), all=False)

    def _all(self) -> Condition:
        parts = [self._one()]
        while self._take_word("AND"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else _Joined(tuple(parts), all=True)

    def _one(self) -> Condition:
        if self._take_word("NOT"):
            return _Not(self._deeper(self._one))
        if self._take_sign("("):
            inner = self._deeper(self._any)
            self._need_sign(")")
            return inner
        return self._comparison()

    def _deeper(self, parse: Callable[[], Condition]) -> Condition:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._wrong(f"it has more than {_DEEPEST} levels of brackets and NOT")
        found = parse()
        self._depth -= 1
        return found

    def _comparison(self) -> Condition:
        path, field = self._column()
        if self._take_word("IS"):
            return self._negated(self._take_word("NOT"), self._null(path))
        is_negated = self._take_word("NOT")
        if self._take_word("IN"):
            return self._negated(is_negated, self._choices(path, field.type))
        if self._take_word("BETWEEN"):
            return self._negated(is_negated, self._between(path, field.type))
        token = self._next()
        if is_negated or token.text not in _COMPARED:
            raise self._wrong(f"after {'.'.join(path)!r}, a comparison is expected, not {token.text!r}")
        return _Compared(path, token.text, self._value(path, field.type))

    def _null(self, path: tuple[str, ...]) -> Condition:
        if not self._take_word("NULL"):
            raise self._wrong(f"IS NULL or IS NOT NULL is expected, not {self._peek().text!r}")
        return _IsNull(path)

    def _choices(self, path: tuple[str, ...], kind: DataType) -> Condition:
        self._need_sign("(")
        values = [self._value(path, kind)]
        while self._take_sign(","):
            values.append(self._value(path, kind))
        self._need_sign(")")
        return _Joined(tuple(_Compared(path, "=", value) for value in values), all=False)

    def _between(self, path: tuple[str, ...], kind: DataType) -> Condition:
        low = self._value(path, kind)
        if not self._take_word("AND"):
            raise self._wrong("BETWEEN … AND … is expected")
        return _Joined((_Compared(path, ">=", low), _Compared(path, "<=", self._value(path, kind))), all=True)

    @staticmethod
    def _negated(is_negated: bool, condition: Condition) -> Condition:
        return _Not(condition) if is_negated else condition

    def _column(self) -> tuple[tuple[str, ...], Field]:
        token = self._next()
        if token.kind != "name":
            raise self._wrong(f"a column is expected, not {token.text!r}")
        parts = [plain or quoted.replace("``", "`") for quoted, plain in _PART.findall(token.text)]
        path: list[str] = []
        kind: DataType = self._layout.schema
        for part in parts:
            found = kind.get(part) if isinstance(kind, StructType) else None
            if found is None:
                known = ", ".join(each.name for each in self._layout.schema.fields)
                raise self._wrong(f"there is no column {token.text!r}; there are: {known}")
            path.append(found.name)
            kind = found.type
        return tuple(path), found  # type: ignore[return-value]  # a name has at least one part

    def _value(self, path: tuple[str, ...], kind: DataType) -> pa.Scalar:
        token = self._next()
        if token.is_word("DATE") or token.is_word("TIMESTAMP") or token.is_word("TIMESTAMP_NTZ"):
            token = self._next()
        given: str | bool
        if token.kind == "text":
            given = token.text[1:-1].replace("''", "'")
        elif token.kind == "number" and _is_number(kind):
            given = token.text
        elif token.is_word("TRUE") or token.is_word("FALSE"):
            given = token.is_word("TRUE")
        else:
            wanted = f"a value of {type_text(kind)}"
            raise self._wrong(f"after {'.'.join(path)!r}, {wanted} is expected, not {token.text!r}")
        return self._typed(given, path, kind)

    def _typed(self, given: str | bool, path: tuple[str, ...], kind: DataType) -> pa.Scalar:
        try:
            # An empty text is null as the value of a partition only.
            value = given if given == "" else parse_partition(given, kind)
            return pa.scalar(value, self._layout.arrow_type(kind))
        except (ValueError, pa.ArrowException, TypeError, ArithmeticError):
            raise self._wrong(f"{given!r} is no value of {'.'.join(path)!r}, which is {type_text(kind)}") from None

    def _peek(self) -> _Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else _END

    def _next(self) -> _Token:
        token = self._peek()
        self._at += 1
        return token

    def _take_word(self, word: str) -> bool:
        found = self._peek().is_word(word)
        self._at += found
        return found

    def _take_sign(self, sign: str) -> bool:
        token = self._peek()
        found = token.kind == "sign" and token.text == sign
        self._at += found
        return found

    def _need_sign(self, sign: str) -> None:
        if not self._take_sign(sign):
            raise self._wrong(f"{sign!r} is expected, not {self._peek().text!r}")

    def _wrong(self, problem: str) -> InvalidInput:
        shown = self._text if len(self._text) <= _LONGEST_SHOWN else f"{self._text[:_LONGEST_SHOWN]}…"
        return InvalidInput(f"the condition {shown!r} on table {self._layout.table!r}: {problem}", hint=_EXAMPLE)
