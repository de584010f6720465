"""Constraints and generated columns that name a column: to them, a column of another name or type is gone.

Names are looked for, and no parser of SQL is asked: of a name that is a word of SQL as well, too much is found.
"""

import re
from collections.abc import Iterator
from typing import Final

from deltamirror.delta.actions import Metadata
from deltamirror.delta.properties import CONSTRAINT_PREFIX
from deltamirror.delta.schema import parse_schema
from deltamirror.delta.schema.columns import ColumnPath, path_text
from deltamirror.delta.schema.keys import GENERATION_EXPRESSION

_NAME: Final = r"(?:`(?:[^`]|``)+`|[^\W\d]\w*)"
_PIECES: Final = re.compile(rf"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|({_NAME}(?:\s*\.\s*{_NAME})*)(\s*\()?""")
_PARTS: Final = re.compile(_NAME)
_INSIDE: Final = frozenset({"element", "key", "value"})


def dependents(metadata: Metadata, path: ColumnPath) -> list[str]:
    """The constraints and generated columns of a table whose expressions name the column, or a part of it."""
    wanted = tuple(part.lower() for number, part in enumerate(path) if not number or part not in _INSIDE)
    return [user for user, expression in _expressions(metadata) if _names(expression, wanted)]


def _expressions(metadata: Metadata) -> Iterator[tuple[str, str]]:
    for key, value in metadata.configuration.items():
        if key.startswith(CONSTRAINT_PREFIX):
            yield f"the constraint {key.removeprefix(CONSTRAINT_PREFIX)!r} ({value})", value
    for path, field in parse_schema(metadata.schema_string).walk():
        if (expression := field.metadata.get(GENERATION_EXPRESSION)) is not None:
            yield f"the generated column {path_text(path)!r} ({expression})", str(expression)


def _names(expression: str, wanted: ColumnPath) -> bool:
    for found in _PIECES.finditer(expression):
        named, called = found[1], found[2]
        if named is None or (called and "." not in named):
            continue
        parts = tuple(part.strip("`").replace("``", "`").lower() for part in _PARTS.findall(named))
        length = min(len(parts), len(wanted))
        if parts[:length] == wanted[:length]:
            return True
    return False
