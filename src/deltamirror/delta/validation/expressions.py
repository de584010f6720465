"""Whether a text can be a SQL expression at all: Delta Spark reads no table with a constraint that it cannot parse.

No parser of SQL is asked: each knows functions, types and literals that another one does not, and to refuse an
expression that Delta Spark takes would be worse than to admit one that it does not. What is judged here holds for every
expression: texts, names in backticks, comments and brackets have an end, there is one expression and not a statement,
no operator lacks what stands beside it, and no character is one that SQL does not have.
"""

import re
from typing import Final

_PIECE: Final = re.compile(
    r"""(?P<text>(?<!\w)[rR]'[^']*'|(?<!\w)[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`]|``)+`)
    |(?P<comment>/\*)
    |(?P<blank>--[^\r\n]*|\s+)
    |(?P<opening>[(\[])
    |(?P<closing>[)\]])
    |(?P<unclosed>['"`])
    |(?P<foreign>[;\#@$\\{}])
    |(?P<comma>,)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT: Final = re.compile(r"/\*|\*/")
_PAIRS: Final = {")": "(", "]": "["}
_NOT_FIRST: Final = "<>=/%&|^"
_NOT_LAST: Final = "<>=+-/%&|^~"


def sql_objection(expression: str) -> str | None:
    """Why a text is no SQL expression; None where it may be one."""
    bare, brackets, at = "", "", 0
    while found := _PIECE.match(expression, at):
        piece, at = found[0], found.end()
        match found.lastgroup:
            case "comment":
                if (at := _after_comment(expression, at)) < 0:
                    return "a comment has no end"
            case "opening":
                brackets += piece
            case "closing":
                if not brackets.endswith(_PAIRS[piece]) or bare.endswith(","):
                    return f"{piece} closes nothing"
                brackets = brackets[:-1]
            case "unclosed":
                return f"{piece} has no counterpart"
            case "foreign":
                return f"it has a {piece}"
            case "comma":
                if not brackets or bare.endswith(("(", "[", ",")):
                    return "it has a comma where no list is"
        bare += piece if found.lastgroup not in ("comment", "blank") else ""
    return f"{brackets[-1]} is not closed" if brackets else _objection_to_ends(bare)


def _objection_to_ends(bare: str) -> str | None:
    if not bare:
        return "it is empty"
    if bare[0] in _NOT_FIRST:
        return f"it begins with {bare[0]}"
    return f"it ends with {bare[-1]}" if bare[-1] in _NOT_LAST else None


def _after_comment(expression: str, at: int) -> int:
    """The place behind a comment, which may hold others; -1 where it has no end."""
    depth = 1
    for mark in _COMMENT.finditer(expression, at):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return mark.end()
    return -1
