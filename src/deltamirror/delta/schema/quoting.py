"""Texts in quotes, as Spark's SQL reads them: a backslash escapes the character behind it, two quotes are one."""

import re
from collections.abc import Mapping
from typing import Final

_ESCAPE: Final = r"\\u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})|\\([01][0-7]{2})|\\(.)"
_ESCAPES: Final = {quote: re.compile(f"{_ESCAPE}|({quote}){quote}", re.DOTALL) for quote in "'\""}
_CONTROL: Final[Mapping[str, str]] = {
    "0": "\0",
    "b": "\b",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "Z": "\x1a",
    "%": "\\%",  # for LIKE, which takes the backslash away
    "_": "\\_",
}


def unquoted(text: str) -> str:
    """The text that stands between the quotes; ValueError where it names a character that there is not."""
    found = _ESCAPES[text[0]].sub(_character, text[1:-1])
    # Characters beyond 16 bits may be written as two of 16 bits.
    return found.encode("utf-16", "surrogatepass").decode("utf-16")


def quoted(text: str) -> str:
    """The text in quotes."""
    return "'{}'".format(text.replace("\\", "\\\\").replace("'", "''"))


def _character(match: re.Match[str]) -> str:
    short, long, octal, letter, quote = match.groups()
    if short or long:
        return chr(int(short or long, 16))
    if octal:
        return chr(int(octal, 8))
    return quote or _CONTROL.get(letter, letter)
