"""Whether the path of a file action is one: a percent-encoded reference that stays in its place."""

import re

__all__ = ["broken_path_rule", "is_plain_path"]

is_plain_path = re.compile(r"[A-Za-z0-9_=/+,~-][A-Za-z0-9_=/.+,~-]*").fullmatch
"""Matches nearly all paths that writers make; where one has no name that begins with a point, it is in order."""

_WINDOWS = re.compile(r"[A-Za-z]:(?:[\\/]|$)|\\\\")
# What a URI has to encode: Java's rule, which leaves letters outside of ASCII as they are.
_RAW = re.compile(r'[\x00-\x20\x7f"#<>?\[\]^`{|}\x80-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]')
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def broken_path_rule(path: str, *, raw_characters: bool = False) -> str | None:
    """The rule that the path breaks, without the name of its action; ``raw_characters`` lets them pass."""
    if not path:
        return "path.empty"
    if _WINDOWS.match(path):
        return "path.absolute-windows"
    if "\\" in path:
        return "path.backslash"
    if ".." in path.split("/"):
        return "path.parent"
    if raw_characters:
        return None
    if _RAW.search(path):
        return "path.raw-character"
    return "path.bad-escape" if _BAD_ESCAPE.search(path) else None
