"""Conditions and values from texts of SQL: ``day = '2026-11-16' AND (amount > 10 OR note IS NULL)``, ``amount * 1.1``.

Literals are read by the type of the column that they stand beside, so a condition that could not be true of any row is
refused. The language is small on purpose: each part of it means what it means in Spark, and the rest is refused.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Self, TypeAlias

import pyarrow as pa

from deltamirror.delta.schema import DataType, Field, Primitive, StructType, type_text
from deltamirror.delta.schema.quoting import unquoted
from deltamirror.errors import InvalidInput
from deltamirror.rows.expressions import (
    BOOLEAN,
    FUNCTIONS,
    VOID,
    Mismatch,
    Path,
    Value,
    arithmetic,
    called,
    chosen,
    column_value,
    concatenated,
    is_number,
    is_rounded,
    literal_of,
    literal_value,
    negated,
    time_value,
)
from deltamirror.rows.layout import Layout
from deltamirror.rows.predicates import SIGNS, Comparison, Condition, IsNull, Joined, Not, Related, Truth

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<text>'(?:[^'\\]|\\.|'')*')|(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>(?:`(?:[^`]|``)+`|[^\W\d]\w*)(?:\.(?:`(?:[^`]|``)+`|[^\W\d]\w*))*)"
    r"|(?P<sign><=|>=|<>|!=|==|\|\||[=<>(),+\-*/]))",
    re.DOTALL,
)
_PART: Final = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")
_SPELLED: Final = {"==": "=", "!=": "<>"}
_MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_TYPED: Final = {name.upper(): Primitive(name) for name in ("date", "timestamp", "timestamp_ntz")}
_POWERS: Final = {
    "OR": 1,
    "AND": 2,
    **dict.fromkeys((*_MIRRORED, "IS", "IN", "BETWEEN", "NOT"), 3),
    **dict.fromkeys(("+", "-", "||"), 4),
    **dict.fromkeys(("*", "/"), 5),
}
"""How strongly operators bind."""
_TESTS: Final = frozenset({"IS", "IN", "BETWEEN", "NOT"})
_WORDS: Final = frozenset({"AND", "OR", "IS", "IN", "BETWEEN", "CASE", "WHEN", "THEN", "ELSE", "END"})
"""Words that are no columns where a value is expected, unless there are columns of their names."""
_DEEPEST: Final = 100
_LONGEST_SHOWN: Final = 200
_EXAMPLES: Final = {
    "condition": "write it like: day = '2026-11-16' AND (amount > 10 OR note IS NULL)",
    "expression": "write it like: amount * 1.1, 'a text', coalesce(note, ''), CASE WHEN id > 5 THEN 1 ELSE 0 END",
}

Operand: TypeAlias = Value | Condition


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns that a text may name; those inside of ``opened`` structs also without the name of the struct."""

    place: str
    schema: StructType
    opened: tuple[str, ...] = ()

    @classmethod
    def of(cls, layout: Layout) -> Self:
        """The columns of a table."""
        return cls(f"table {layout.table!r}", layout.schema)

    @property
    def names(self) -> list[str]:
        """All columns, by names that say which is meant."""
        kinds = {each.name: each.type for each in self.schema.fields}
        opened = {name: kind for name in self.opened if isinstance(kind := kinds[name], StructType)}
        inside = [f"{name}.{each.name}" for name, kind in opened.items() for each in kind.fields]
        return inside or list(kinds)

    def find(self, parts: list[str]) -> tuple[Path, Field] | None:
        """The column of a name; None where there is none, or more than one."""
        if (found := _descend(parts, self.schema)) is not None:
            return found
        inside = [_descend([name, *parts], self.schema) for name in self.opened]
        known = [each for each in inside if each is not None]
        return known[0] if len(known) == 1 else None


def _descend(parts: list[str], schema: StructType) -> tuple[Path, Field] | None:
    path: list[str] = []
    kind: DataType = schema
    field: Field | None = None
    for part in parts:
        field = kind.get(part) if isinstance(kind, StructType) else None
        if field is None:
            return None
        path.append(field.name)
        kind = field.type
    return None if field is None else (tuple(path), field)


def condition_of(text: str, layout: Layout) -> Condition:
    """The condition that a text states of the rows of a table; InvalidInput says what is wrong with it."""
    return condition_in(text, Scope.of(layout))


def condition_in(text: str, scope: Scope) -> Condition:
    """The condition that a text states; InvalidInput says what is wrong with it."""
    parser = _Parser(text, scope, "condition")
    return parser.as_condition(parser.whole())


def value_in(text: str, scope: Scope) -> Value:
    """The value that a text computes; InvalidInput says what is wrong with it."""
    parser = _Parser(text, scope, "expression")
    return parser.as_value(parser.whole())


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str

    def is_word(self, word: str) -> bool:
        return self.kind == "name" and self.text.upper() == word


_END: Final = _Token("end", "the end")


class _Parser:
    def __init__(self, text: str, scope: Scope, noun: str) -> None:
        self._text, self._scope, self._noun = text, scope, noun
        self._tokens = list(self._read())
        self._at = self._depth = 0

    def whole(self) -> Operand:
        """The whole text."""
        try:
            found = self._expression()
        except Mismatch as error:
            raise self._wrong(str(error)) from None
        if self._peek() is not _END:
            raise self._wrong(f"{self._peek().text!r} is not expected")
        return found

    def as_condition(self, operand: Operand) -> Condition:
        """The operand, which has to be true or false."""
        if not isinstance(operand, Value):
            return operand
        if operand.kind not in (BOOLEAN, VOID):
            following = self._peek().text
            raise self._wrong(f"after {operand.text!r}, a comparison is expected, not {following!r}")
        if operand.kind == VOID:
            operand = replace(operand, kind=BOOLEAN, expression=operand.expression.cast(pa.bool_()))
        return Truth(operand)

    def as_value(self, operand: Operand) -> Value:
        """The operand; a condition is a value that is true, false or null."""
        if isinstance(operand, Value):
            return operand
        return Value(BOOLEAN, operand.of_rows(), "the condition", operand.columns)

    def _read(self) -> Iterator[_Token]:
        at, end = 0, len(self._text.rstrip())
        while at < end:
            if (found := _TOKEN.match(self._text, at)) is None:
                raise self._wrong(f"{self._text[at : at + 20].strip()!r} is not expected")
            yield _Token(str(found.lastgroup), found[str(found.lastgroup)])
            at = found.end()

    def _expression(self, power: int = 0) -> Operand:
        """An operand, with all operators behind it that bind stronger than ``power``."""
        found = self._prefix()
        while (sign := self._operator(power)) is not None:
            found = self._extended(found, sign)
        return found

    def _operator(self, power: int) -> str | None:
        """The operator that comes next, if it binds stronger; quoted names are none."""
        token = self._peek()
        if token.kind not in ("name", "sign"):
            return None
        sign = _SPELLED.get(token.text, token.text.upper())
        return sign if _POWERS.get(sign, 0) > power else None

    def _prefix(self) -> Operand:
        if self._take_word("NOT"):
            return Not(self.as_condition(self._deeper(_POWERS["AND"])))
        if self._take_sign("-"):
            return self._minus(self.as_value(self._deeper(_POWERS["*"])))
        if self._take_sign("("):
            inner = self._deeper()
            self._need_sign(")")
            return inner
        return self._primary(self._next())

    def _deeper(self, power: int = 0) -> Operand:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._wrong(f"it has more than {_DEEPEST} levels of brackets and NOT")
        found = self._expression(power)
        self._depth -= 1
        return found

    def _extended(self, left: Operand, sign: str) -> Operand:
        if sign in ("AND", "OR"):
            return self._joined(self.as_condition(left), sign)
        self._at += 1
        if sign in _TESTS:
            return self._tested(self.as_value(left), sign)
        right = self.as_value(self._expression(_POWERS[sign]))
        if sign == "||":
            return concatenated([self.as_value(left), right])
        return (self._compared if sign in SIGNS else self._computed)(self.as_value(left), sign, right)

    def _joined(self, first: Condition, word: str) -> Condition:
        parts = [first]
        while self._take_word(word):
            parts.append(self.as_condition(self._expression(_POWERS[word])))
        return Joined(tuple(parts), all=word == "AND")

    @staticmethod
    def _computed(left: Value, sign: str, right: Value) -> Value:
        return arithmetic(sign, left, right)

    def _tested(self, value: Value, word: str) -> Condition:
        if word == "IS":
            return self._negated(self._take_word("NOT"), self._null(value))
        is_negated = word == "NOT"
        word = self._next().text.upper() if is_negated else word
        if word not in ("IN", "BETWEEN"):
            raise self._wrong(f"after NOT, IN or BETWEEN is expected, not {word!r}")
        return self._negated(is_negated, self._choices(value) if word == "IN" else self._between(value))

    def _null(self, value: Value) -> Condition:
        if not self._take_word("NULL"):
            raise self._wrong(f"IS NULL or IS NOT NULL is expected, not {self._peek().text!r}")
        return IsNull(value)

    def _choices(self, value: Value) -> Condition:
        self._need_sign("(")
        found = [self._compared(value, "=", self._item())]
        while self._take_sign(","):
            found.append(self._compared(value, "=", self._item()))
        self._need_sign(")")
        return Joined(tuple(found), all=False)

    def _between(self, value: Value) -> Condition:
        low = self._compared(value, ">=", self._item())
        if not self._take_word("AND"):
            raise self._wrong("BETWEEN … AND … is expected")
        return Joined((low, self._compared(value, "<=", self._item())), all=True)

    def _item(self) -> Value:
        """A value beside which a comparison, AND or OR may stand."""
        return self.as_value(self._expression(_POWERS["="]))

    @staticmethod
    def _negated(is_negated: bool, condition: Condition) -> Condition:
        return Not(condition) if is_negated else condition

    def _compared(self, left: Value, sign: str, right: Value) -> Condition:
        """A column beside a literal says something about whole files; anything else about rows alone."""
        if VOID in (left.kind, right.kind):
            raise self._wrong("nothing compares with NULL; write IS NULL or IS NOT NULL")
        if left.path is not None and right.is_literal and not is_rounded(right, left.kind):
            return Comparison(left.path, sign, self._beside(left, right))
        if right.path is not None and left.is_literal and not is_rounded(left, right.kind):
            return Comparison(right.path, _MIRRORED[sign], self._beside(right, left))
        found = Related(left, sign, right)
        found.of_rows()  # which says whether the types go together
        return found

    def _beside(self, column: Value, literal: Value) -> pa.Scalar:
        """A literal as a value of a column."""
        if is_number(literal.kind) and not is_number(column.kind):
            wanted = f"a value of {type_text(column.kind)}"
            raise self._wrong(f"after {column.text!r}, {wanted} is expected, not {literal.text!r}")
        try:
            return literal_of(literal, column.kind)
        except Mismatch:
            problem = f"{literal.literal!r} is no value of {column.text!r}, which is {type_text(column.kind)}"
            raise self._wrong(problem) from None

    def _minus(self, value: Value) -> Value:
        if value.is_literal and isinstance(value.literal, str) and is_number(value.kind):
            given = value.literal[1:] if value.literal.startswith("-") else f"-{value.literal}"
            return literal_value(given, text=given, is_number=True)
        return negated(value)

    def _primary(self, token: _Token) -> Value:
        if token.kind == "text":
            return literal_value(self._unquoted(token), text=token.text)
        if token.text.upper() in _TYPED and self._peek().kind == "text":
            given = self._next()
            return time_value(self._unquoted(given), _TYPED[token.text.upper()], text=f"{token.text} {given.text}")
        if token.kind == "number":
            return literal_value(token.text, text=token.text, is_number=True)
        if token.is_word("TRUE") or token.is_word("FALSE"):
            return literal_value(token.is_word("TRUE"), text=token.text)
        if token.is_word("NULL"):
            return literal_value(None, text=token.text)
        if token.is_word("CASE") and self._peek().is_word("WHEN"):
            return self._case()
        if token.kind == "name" and self._peek() == _Token("sign", "("):
            return self._function(token.text)
        return self._column(token)

    def _unquoted(self, token: _Token) -> str:
        try:
            return unquoted(token.text)
        except ValueError:
            raise self._wrong(f"{token.text} names a character that there is not") from None

    def _case(self) -> Value:
        cases: list[tuple[Value, Value]] = []
        while self._take_word("WHEN"):
            condition = self.as_condition(self._deeper())
            self._need_word("THEN")
            cases.append((self.as_value(condition), self.as_value(self._deeper())))
        otherwise = self.as_value(self._deeper()) if self._take_word("ELSE") else literal_value(None, text="NULL")
        self._need_word("END")
        return chosen(cases, otherwise)

    def _function(self, name: str) -> Value:
        if name.lower() not in FUNCTIONS:
            known = ", ".join(sorted(FUNCTIONS))
            raise self._wrong(f"the function {name!r} is not known here; there are: {known}")
        self._need_sign("(")
        arguments = [self.as_value(self._deeper())]
        while self._take_sign(","):
            arguments.append(self.as_value(self._deeper()))
        self._need_sign(")")
        return called(name.lower(), arguments)

    def _column(self, token: _Token) -> Value:
        parts = [plain or quoted.replace("``", "`") for quoted, plain in _PART.findall(token.text)]
        found = self._scope.find(parts) if token.kind == "name" else None
        if found is None and (token.kind != "name" or token.text.upper() in _WORDS):
            raise self._wrong(f"a column is expected, not {token.text!r}")
        if found is None:
            known = ", ".join(self._scope.names)
            inside = [name for name in self._scope.opened if _descend([name, *parts], self._scope.schema)]
            if inside:
                raise self._wrong(f"{token.text!r} is a column of {' and '.join(inside)}: say which one")
            raise self._wrong(f"there is no column {token.text!r}; there are: {known}")
        return column_value(found[0], found[1].type)

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

    def _need_word(self, word: str) -> None:
        if not self._take_word(word):
            raise self._wrong(f"{word} is expected, not {self._peek().text!r}")

    def _take_sign(self, sign: str) -> bool:
        found = self._peek() == _Token("sign", sign)
        self._at += found
        return found

    def _need_sign(self, sign: str) -> None:
        if not self._take_sign(sign):
            raise self._wrong(f"{sign!r} is expected, not {self._peek().text!r}")

    def _wrong(self, problem: str) -> InvalidInput:
        shown = self._text if len(self._text) <= _LONGEST_SHOWN else f"{self._text[:_LONGEST_SHOWN]}…"
        return InvalidInput(f"the {self._noun} {shown!r} on {self._scope.place}: {problem}", hint=_EXAMPLES[self._noun])
