"""How much of what others made is taken in. Beyond these bounds something is damaged, or was made to do harm."""

import re
from typing import Final

__all__ = ["DEEPEST_JSON", "LARGEST_CHUNK", "LARGEST_ROW_GROUP", "LONGEST_LINE", "MOST_BLANKS", "nests_too_deeply"]

LONGEST_LINE: Final = 16 * 1024 * 1024
"""The bytes of a line. Delta Spark (Jackson) takes no text of more than 20,000,000 characters."""

MOST_BLANKS: Final = 1024 * 1024
"""The bytes of the blank lines of a commit, all of them together."""

DEEPEST_JSON: Final = 127
"""The levels of a schema or of statistics. The Delta kernel (serde_json) reads no schema that has more."""

LARGEST_CHUNK: Final = 1024 * 1024 * 1024
"""The bytes of the lines of a stored chunk."""

LARGEST_ROW_GROUP: Final = 4 * 1024 * 1024 * 1024
"""The bytes of a row group of a checkpoint, as its footer states them, before compression."""

_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKET: Final = re.compile(r"[\[\]{}]")


def nests_too_deeply(text: str) -> bool:
    """Whether a JSON text has more than ``DEEPEST_JSON`` levels of objects and arrays."""
    if text.count("{") + text.count("[") <= DEEPEST_JSON:
        return False
    depth = 0
    for bracket in _BRACKET.finditer(_TEXT.sub("", text)):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > DEEPEST_JSON:
            return True
    return False
