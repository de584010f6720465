"""How much of what others made is taken in. Beyond these bounds something is damaged, or was made to do harm."""

import re
from itertools import chain
from typing import Final

LONGEST_LINE: Final = 16 * 1024 * 1024
"""The bytes of a line, its end not counted. Delta Spark (Jackson) takes no text of more than 20,000,000 characters."""

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
_BLANKS_BEHIND_LINE: Final = re.compile(rb"\n\s+")


def has_long_line(text: bytes) -> bool:
    """Whether one of the lines has more than ``LONGEST_LINE`` bytes; none of them is copied."""
    start = 0
    while len(text) - start > LONGEST_LINE:
        # Up to the last end within the bound, every line is short enough.
        end = text.rfind(b"\n", start, start + LONGEST_LINE + 1)
        if end < 0:
            return True
        start = end + 1
    return False


def blank_bytes(block: bytes) -> int:
    """How many bytes the blank lines among whole lines have; blanks beside what a line says are not counted."""
    leading = block[: len(block) - len(block.lstrip())]
    behind = (run[0][1:] for run in _BLANKS_BEHIND_LINE.finditer(block, len(leading)))
    last = block[block.rfind(b"\n") + 1 :]
    unended = len(last) if last.isspace() else 0
    return sum(run.rfind(b"\n") + 1 for run in chain([leading], behind)) + unended


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
