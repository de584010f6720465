"""Where a key stands in a TOML file. ``tomllib`` does not say, so its parser is asked line by line."""

import re
import tomllib
from collections.abc import Sequence

__all__ = ["line_of_error", "line_of_key"]


def line_of_key(text: str, path: Sequence[str | int]) -> int:
    """The 1-based line on which the key at ``path`` begins in ``text``, a valid document that holds it.

    The shortest run of leading lines that is valid TOML and has the key ends where the value ends; the
    longest valid run before it ends just above. Every spelling of TOML is understood that way (headers,
    dotted and quoted keys, inline tables, values over several lines). Quadratic, and only for errors and
    ``config show``.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    above = 0
    for count in range(1, len(lines) + 1):
        document = _parsed("\n".join(lines[:count]))
        if document is None:
            continue
        if _holds(document, path):
            return above + 1
        above = count
    raise KeyError(".".join(map(str, path)))


def line_of_error(error: tomllib.TOMLDecodeError) -> int | None:
    """The line that the parser complains about, if it names one."""
    found = re.search(r"at line (\d+)", str(error))
    return int(found[1]) if found else None


def _parsed(text: str) -> dict[str, object] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _holds(document: object, path: Sequence[str | int]) -> bool:
    """Whether a key is there; a number is the place of a block in its list."""
    for name in path:
        if isinstance(name, int):
            if not isinstance(document, list) or len(document) <= name:
                return False
            document = document[name]
        elif not isinstance(document, dict) or name not in document:
            return False
        else:
            document = document[name]
    return True
