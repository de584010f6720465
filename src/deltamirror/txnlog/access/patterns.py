"""Which tables an access token is for: a pattern of names, in Python and in SQL."""

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from sqlalchemy import true
from sqlalchemy.sql import ColumnElement

from deltamirror.errors import InvalidInput

_PATTERN: Final = re.compile(r"[A-Za-z0-9_.*-]{1,255}")


@dataclass(frozen=True, slots=True)
class TablePattern:
    """A name of tables in which ``*`` stands for any text, also with dots: ``sales.*``. Case counts."""

    text: str

    def __post_init__(self) -> None:
        if not _PATTERN.fullmatch(self.text):
            raise InvalidInput(
                f"{self.text!r} is not a pattern of table names",
                hint="letters, digits, '_', '-', '.' and '*' for any text, such as sales.*",
            )

    @property
    def covers_all(self) -> bool:
        """Whether no table is left out."""
        return not self.text.strip("*")

    def covers(self, name: str) -> bool:
        """Whether a table of this name is meant."""
        return fnmatchcase(name, self.text)

    def clause(self, name: ColumnElement[str], dialect: str) -> ColumnElement[bool]:
        """The same as part of a query."""
        if self.covers_all:
            return true()
        if dialect == "sqlite":  # whose LIKE takes capitals for small letters
            return name.bool_op("GLOB")(self.text)
        return name.like(self.text.replace("_", "/_").replace("*", "%"), escape="/")


ALL_TABLES: Final = TablePattern("*")
