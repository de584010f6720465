"""Schemas as people write them: ``id long, day date NOT NULL COMMENT 'x', s struct<a: int, b: array<string>>``.

Type names are Spark SQL's. As in Spark, ``char(n)`` and ``varchar(n)`` become ``string``, and the
column they stand in remembers its declared type in ``__CHAR_VARCHAR_TYPE_STRING``.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar, assert_never

from deltamirror.delta.schema.keys import CHAR_VARCHAR, COMMENT
from deltamirror.delta.schema.quoting import unquoted
from deltamirror.delta.schema.types import ArrayType, DataType, Decimal, Field, MapType, Primitive, StructType
from deltamirror.errors import InvalidSchema

T = TypeVar("T")

# Spark SQL's name -> (Delta's name, the name in Spark's catalog string)
_NAMES = {
    "tinyint": ("byte", "tinyint"),
    "byte": ("byte", "tinyint"),
    "smallint": ("short", "smallint"),
    "short": ("short", "smallint"),
    "int": ("integer", "int"),
    "integer": ("integer", "int"),
    "bigint": ("long", "bigint"),
    "long": ("long", "bigint"),
    "real": ("float", "float"),
    "float": ("float", "float"),
    "double": ("double", "double"),
    "string": ("string", "string"),
    "boolean": ("boolean", "boolean"),
    "binary": ("binary", "binary"),
    "date": ("date", "date"),
    "timestamp": ("timestamp", "timestamp"),
    "timestamp_ltz": ("timestamp", "timestamp"),
    "timestamp_ntz": ("timestamp_ntz", "timestamp_ntz"),
    "variant": ("variant", "variant"),
    "void": ("void", "void"),
}

_EXAMPLE = "write columns like: id long, day date NOT NULL, tags array<string>"
_TYPES = f"types are {', '.join(_NAMES)}, decimal(p,s), char(n), varchar(n), array<…>, map<…,…>, struct<…>"

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<quoted>`(?:[^`]|``)*`)
      | (?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*")
      | (?P<word>\w+)
      | (?P<sign>[<>(),:.])
      | (?P<end>\Z)
      | (?P<other>.)
    )""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    position: int

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.lower() in words


@dataclass(frozen=True, slots=True)
class ParsedType:
    """A type, with its catalog string where a char or varchar is inside."""

    type: DataType
    catalog: str
    has_char: bool = False


def from_ddl(text: str) -> StructType:
    """The schema that a list of column definitions describes; InvalidSchema names column and position."""
    return parsed_text(DdlParser(text).schema)


def parsed_text(read: Callable[[], T]) -> T:
    """What a parser reads; InvalidSchema where types are nested too deeply for it."""
    try:
        return read()
    except RecursionError as error:
        raise InvalidSchema("the schema is nested too deeply") from error


def with_char(field: Field, parsed: ParsedType) -> Field:
    """The field, which remembers a char or varchar; Spark's metadata builder puts a comment before this key."""
    return replace(field, metadata={**field.metadata, CHAR_VARCHAR: parsed.catalog}) if parsed.has_char else field


def column_text(field: Field) -> str:
    """A column as ``from_ddl`` takes it."""
    return f"{field.name} {type_text(field.type)}{'' if field.nullable else ' NOT NULL'}"


def type_text(kind: DataType) -> str:
    """A type as ``from_ddl`` takes it."""
    match kind:
        case Primitive(name):
            return name
        case Decimal(precision, scale):
            return f"decimal({precision},{scale})"
        case ArrayType(element):
            return f"array<{type_text(element)}>"
        case MapType(key, value):
            return f"map<{type_text(key)},{type_text(value)}>"
        case StructType(fields):
            return f"struct<{','.join(f'{field.name}:{type_text(field.type)}' for field in fields)}>"
        case _:
            assert_never(kind)


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while match := _TOKEN.match(text, position):
        kind = match.lastgroup or "end"
        yield _Token(kind, match[kind], match.start(kind))
        if kind == "end":
            return
        position = match.end()


class DdlParser:
    """Recursive descent over the tokens; ``_column`` is the path that errors name."""

    def __init__(self, text: str, *, hint: str = _EXAMPLE) -> None:
        self._text, self._hint = text, hint
        self._tokens = list(_tokens(text))
        self._next = 0
        self._column: tuple[str, ...] = ()

    def schema(self) -> StructType:
        """All of the text as the columns of a schema."""
        return StructType(tuple(self._listed(self._top_field)))

    def _listed(self, read: Callable[[], T]) -> list[T]:
        found = [read()]
        while self._take_sign(","):
            found.append(read())
        if self._peek.kind != "end":
            raise self._error("expected a comma or the end")
        return found

    def _top_field(self) -> Field:
        return with_char(*self._field())

    def _field(self) -> tuple[Field, ParsedType]:
        outer, name = self._column, self._name()
        self._column = (*outer, name)
        self._take_sign(":")
        parsed = self._type()
        nullable, metadata = self._not_null(), self._comment()
        if self._peek.kind not in ("sign", "end"):
            raise self._error("only NOT NULL and COMMENT may follow a type")
        self._column = outer
        return Field(name, parsed.type, nullable, metadata), parsed

    def _name(self) -> str:
        token = self._peek
        if token.kind not in ("word", "quoted"):
            raise self._error("expected the name of a column")
        self._next += 1
        return token.text if token.kind == "word" else token.text[1:-1].replace("``", "`")

    def _not_null(self) -> bool:
        if not self._take_word("not"):
            return True
        if not self._take_word("null"):
            raise self._error("expected NULL after NOT")
        return False

    def _comment(self) -> dict[str, object]:
        return {COMMENT: self._string()} if self._take_word("comment") else {}

    def _string(self) -> str:
        token = self._peek
        if token.kind != "string":
            raise self._error("expected a quoted text after COMMENT")
        self._next += 1
        try:
            return unquoted(token.text)
        except ValueError:
            raise self._error("expected a quoted text whose escapes name characters", token) from None

    def _type(self) -> ParsedType:
        token = self._peek
        if token.kind != "word":
            raise self._error("expected a type")
        self._next += 1
        match name := token.text.lower():
            case "struct":
                return self._struct()
            case "array":
                return self._array()
            case "map":
                return self._map()
            case "decimal" | "dec" | "numeric":
                return self._decimal()
            case "char" | "character" | "varchar":
                return self._char("varchar" if name == "varchar" else "char")
            case _ if name in _NAMES:
                return ParsedType(Primitive(_NAMES[name][0]), _NAMES[name][1])
            case _:
                raise self._error(f"unknown type {token.text!r}", token, hint=_TYPES)

    def _struct(self) -> ParsedType:
        self._need("<")
        parts: list[tuple[Field, ParsedType]] = []
        while not self._take_sign(">"):
            if parts:
                self._need(",")
            parts.append(self._field())
        catalog = ",".join(f"{each.name}:{parsed.catalog}" for each, parsed in parts)
        has_char = any(parsed.has_char for _, parsed in parts)
        return ParsedType(StructType(tuple(each for each, _ in parts)), f"struct<{catalog}>", has_char)

    def _array(self) -> ParsedType:
        self._need("<")
        element = self._type()
        self._need(">")
        return ParsedType(ArrayType(element.type), f"array<{element.catalog}>", element.has_char)

    def _map(self) -> ParsedType:
        self._need("<")
        key = self._type()
        self._need(",")
        value = self._type()
        self._need(">")
        catalog = f"map<{key.catalog},{value.catalog}>"
        return ParsedType(MapType(key.type, value.type), catalog, key.has_char or value.has_char)

    def _decimal(self) -> ParsedType:
        precision, scale = 10, 0
        if self._take_sign("("):
            precision = self._number()
            scale = self._number() if self._take_sign(",") else 0
            self._need(")")
        return ParsedType(Decimal(precision, scale), f"decimal({precision},{scale})")

    def _char(self, name: str) -> ParsedType:
        self._need("(")
        length = self._number()
        self._need(")")
        return ParsedType(Primitive("string"), f"{name}({length})", has_char=True)

    def _number(self) -> int:
        token = self._peek
        if token.kind != "word" or not token.text.isdecimal():
            raise self._error("expected a number")
        self._next += 1
        return int(token.text)

    @property
    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take_sign(self, sign: str) -> bool:
        found = self._peek.kind == "sign" and self._peek.text == sign
        self._next += found
        return found

    def _take_word(self, word: str) -> bool:
        found = self._peek.is_word(word)
        self._next += found
        return found

    def _need(self, sign: str) -> None:
        if not self._take_sign(sign):
            raise self._error(f"expected {sign!r}")

    def _error(self, problem: str, token: _Token | None = None, *, hint: str = "") -> InvalidSchema:
        at = token or self._peek
        found = "" if token else f", found {at.text!r}" if at.text else ", found the end"
        column = ".".join(self._column)
        where = f"column {column}, " if column else ""
        return InvalidSchema(
            f"{where}position {at.position + 1}: {problem}{found}", hint=hint or self._hint, column=column
        )
