"""Changes of columns in the clauses of Spark's ALTER TABLE.

To add columns: ``address.zip string COMMENT 'postal code' AFTER street``. To change one, any of ``TYPE bigint``,
``COMMENT 'net'``, ``FIRST``, ``AFTER id``, ``SET NOT NULL``, ``DROP NOT NULL``, ``DROP DEFAULT``, and at the end
``SET DEFAULT 0``, which takes all that follows for its expression.
"""

from dataclasses import dataclass, replace
from typing import Final

from deltamirror.delta.schema.columns import ColumnPath
from deltamirror.delta.schema.ddl import DdlParser, parsed_text, with_char
from deltamirror.delta.schema.types import Field

_ADDITIONS: Final = "write address.zip string COMMENT 'postal code' AFTER street; NOT NULL and DEFAULT cannot be added"
_CHANGES: Final = (
    "write TYPE bigint, COMMENT 'net', FIRST, AFTER id, SET NOT NULL, DROP NOT NULL, SET DEFAULT 0, or DROP DEFAULT"
)


@dataclass(frozen=True, slots=True)
class Position:
    """Where a column stands among those beside it: behind one of them, or first."""

    after: str | None = None

    def __str__(self) -> str:
        return "FIRST" if self.after is None else f"AFTER {self.after}"


@dataclass(frozen=True, slots=True)
class AddedColumn:
    """A column to be added to the struct at ``parent``, last unless told otherwise."""

    parent: ColumnPath
    field: Field
    position: Position | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedColumn:
    """What is to be another of a column; None leaves it as it is."""

    path: ColumnPath
    type: Field | None = None
    """A column of the type, which remembers a char or varchar."""
    nullable: bool | None = None
    comment: str | None = None
    default: str | None = None
    """The expression of SQL; an empty one takes the default away."""
    position: Position | None = None


def added_columns(text: str) -> tuple[AddedColumn, ...]:
    """The columns that a list of definitions adds."""
    return tuple(parsed_text(_ClauseParser(text, hint=_ADDITIONS).additions))


def changed_column(path: ColumnPath, clauses: str) -> ChangedColumn:
    """What the clauses change of the column at a path."""
    return parsed_text(lambda: _ClauseParser(clauses, hint=_CHANGES).changes(ChangedColumn(path=path)))


class _ClauseParser(DdlParser):
    def additions(self) -> list[AddedColumn]:
        return self._listed(self._addition)

    def changes(self, change: ChangedColumn) -> ChangedColumn:
        self._column = change.path
        if self._peek.kind == "end":
            raise self._error("expected a clause")
        while self._peek.kind != "end":
            change = self._clause(change)
        return change

    def _addition(self) -> AddedColumn:
        path = self._path()
        self._column = path
        parsed = self._type()
        nullable, metadata = self._not_null(), self._comment()
        position = self._position()
        if self._peek.kind != "end" and not (self._peek.kind == "sign" and self._peek.text == ","):
            raise self._error("only NOT NULL, COMMENT, FIRST and AFTER may follow a type")
        if parsed.has_char and len(path) > 1:
            problem, hint = "char and varchar are types of columns at the top", "give the field the type string"
            raise self._error(problem, self._peek, hint=hint)
        self._column = ()
        return AddedColumn(path[:-1], with_char(Field(path[-1], parsed.type, nullable, metadata), parsed), position)

    def _path(self) -> ColumnPath:
        parts = [self._name()]
        while self._take_sign("."):
            parts.append(self._name())
        return tuple(parts)

    def _position(self) -> Position | None:
        if self._take_word("first"):
            return Position()
        return Position(self._name()) if self._take_word("after") else None

    def _clause(self, change: ChangedColumn) -> ChangedColumn:
        if (position := self._position()) is not None:
            return replace(change, position=position)
        if self._take_word("type"):
            parsed = self._type()
            return replace(change, type=with_char(Field("", parsed.type), parsed))
        if self._take_word("comment"):
            return replace(change, comment=self._string())
        if self._take_word("set"):
            return self._set(change)
        if self._take_word("drop"):
            return replace(change, default="") if self._take_word("default") else replace(change, nullable=self._null())
        raise self._error("expected a clause")

    def _set(self, change: ChangedColumn) -> ChangedColumn:
        if not self._take_word("default"):
            return replace(change, nullable=not self._null())
        if self._peek.kind == "end":
            raise self._error("expected an expression after SET DEFAULT", hint="write one of SQL, such as 0 or 'none'")
        expression = self._text[self._peek.position :].strip()
        self._next = len(self._tokens) - 1
        return replace(change, default=expression)

    def _null(self) -> bool:
        """True, once NOT NULL was read."""
        if self._take_word("not") and self._take_word("null"):
            return True
        raise self._error("expected NOT NULL or DEFAULT")
