"""Whether the path of a file action names one file, the same one for every reader.

Decided is the decoded path: ``%2e%2e/b`` is ``../b``. Delta Spark parses every path of a log as a URI, and fails for
the whole table at the first that is none. Beyond that, readers differ in what they make of ``.``, ``..`` and ``//``:
Hadoop normalises them, object stores take them for names.
"""

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from deltamirror.delta.paths import canonical_path

PLAIN_PATH: Final = r"[A-Za-z0-9_=+,-][A-Za-z0-9_=.+,~-]*+(?:/[A-Za-z0-9_=+,~-][A-Za-z0-9_=.+,~-]*+)*+"
"""Matches nearly all paths that writers make; no name in one is empty or begins with a point.

Such a path is in order, unless it is below ``LOG_FOLDER`` or longer than ``LONGEST_PATH``.
"""

LOG_FOLDER: Final = "_delta_log/"
LONGEST_PATH: Final = 4_096
"""In bytes: what operating systems take."""

_WINDOWS: Final = re.compile(r"[A-Za-z]:(?:[\\/]|$)|\\\\")
# What a URI has to encode: Java's rule, which leaves letters outside of ASCII as they are.
_RAW: Final = re.compile(r'[\x00-\x20\x7f"#<>?\[\]^`{|}\x80-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]')
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*):(?P<authority>//[^/]*)?(?=/)")

_is_plain = re.compile(PLAIN_PATH).fullmatch


def is_plain_path(path: str) -> bool:
    """Whether the path is surely in order."""
    return _is_plain(path) is not None and len(path) <= LONGEST_PATH and not path.startswith(LOG_FOLDER)


def broken_path_rule(path: str, *, verbatim: bool = False) -> str | None:
    """The rule that the path breaks, without the name of its action.

    Another writer may lawfully spell a path otherwise than Delta Spark, and name files outside of the table, as a
    shallow clone does: only Delta Spark reads those.
    """
    return _broken_text(path) or _broken_place(path) or (None if verbatim else _unlike_ours(path))


def _broken_text(path: str) -> str | None:
    """The rule of URIs that the text breaks."""
    if not path:
        return "path.empty"
    if _WINDOWS.match(path):
        return "path.absolute-windows"
    if "\\" in path:
        return "path.backslash"
    if _RAW.search(path):
        return "path.raw-character"
    if _BAD_ESCAPE.search(path):
        return "path.bad-escape"
    if ":" in path.partition("/")[0] and not _SCHEME.match(path):
        return "path.colon"
    return None


def _broken_place(path: str) -> str | None:
    """The rule that the decoded path breaks."""
    try:
        physical = unquote_to_bytes(path)
    except UnicodeEncodeError:
        return "path.not-text"
    if len(physical) > LONGEST_PATH:
        return "path.long"
    try:
        decoded = physical.decode()
    except UnicodeDecodeError:
        return "path.not-text"
    if _CONTROL.search(decoded):
        return "path.not-text"
    if decoded.startswith(LOG_FOLDER):
        return "path.log"
    scheme = _SCHEME.match(path)
    names = (decoded if scheme is None else decoded[scheme.end() :]).removeprefix("/").split("/")
    is_home = names[0] == "~" or (len(names) > 1 and names[0].startswith("~"))
    if is_home and scheme is None and not decoded.startswith("/"):
        return "path.home"
    return _broken_names(names)


def _broken_names(names: list[str]) -> str | None:
    if ".." in names:
        return "path.parent"
    if "" in names:
        return "path.empty-name"
    if "." in names:
        return "path.point"
    # Of a file, Hadoop makes the name of its checksum, which has a scheme then.
    return "path.colon" if ":" in names[-1] else None


def _unlike_ours(path: str) -> str | None:
    if path.startswith("/") or _SCHEME.match(path):
        return "path.absolute"
    return None if path == canonical_path(path) else "path.spelling"
