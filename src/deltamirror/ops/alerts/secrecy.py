"""Texts about channels without their secrets.

The address of a channel is itself a secret: the path of a chat service's webhook is all that a stranger needs to write
there. Servers and libraries repeat pieces of it, decoded or escaped in ways of their own. So every piece is taken out,
in all of these spellings; of an address by HTTP, only its host may be shown.
"""

import base64
import json
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

from deltamirror.config import MASK, AlertChannel, redact_text

_SHORTEST: Final = 3
"""Shorter pieces are found in any text, and tell nothing."""
_BETWEEN: Final = re.compile(r"[/?#&;=:@,\s]+")
_AUTHORITY_ENDS: Final = re.compile(r"[/?#]")
_BACKSLASH: Final = re.compile(r"\\|%5c", re.IGNORECASE)
_ESCAPE: Final = f"(?:{_BACKSLASH.pattern})*"
_is_host = re.compile(r"(?:\[[0-9A-Fa-f:.]*\]|[\w.-]*)(?::[0-9]*)?").fullmatch


def without_secrets(settings: AlertChannel, text: str) -> str:
    """A text of a server or of a library about a channel, without the secrets of the channel."""
    url = "" if settings.url is None else settings.url.reveal()
    keys = [secret.reveal() for secret in (settings.bearer, settings.signing_key) if secret is not None]
    pieces = _pieces(url, host_is_secret=settings.kind == "apprise")
    plain = {_plain(form) for piece in pieces for form in (piece, unquote(piece))}
    secrets = {piece for piece in plain if len(piece) >= _SHORTEST} | {_plain(key) for key in keys}
    for piece in sorted(secrets - {""}, key=len, reverse=True):
        text = re.sub(_pattern(piece), MASK, text, flags=re.IGNORECASE)
    return redact_text(" ".join(text.split()))


def login_of(url: str) -> tuple[str, str]:
    """An address without the user and the password in it, and these as HTTP sends them; empty without any."""
    scheme, _, rest = url.partition("://")
    authority = _AUTHORITY_ENDS.split(rest, maxsplit=1)[0]
    userinfo, at, host = authority.rpartition("@")
    login = base64.b64encode(unquote(userinfo).encode()).decode() if at else ""
    return f"{scheme}://{host}{rest.removeprefix(authority)}", login


def _pieces(url: str, *, host_is_secret: bool) -> Iterator[str]:
    """Everything of an address that may be secret: as a whole, part by part, and word by word."""
    rest = url.partition("://")[2]
    authority = _AUTHORITY_ENDS.split(rest, maxsplit=1)[0]
    userinfo, _, host = authority.rpartition("@")
    behind = rest.removeprefix(authority)
    yield from (url, rest, userinfo, login_of(url)[1])
    if host_is_secret or "@" in behind or not _is_host(host):  # where the host ends is not sure
        yield from _words(rest)
        return
    path, _, query = behind.partition("?")
    yield from (behind, path, path.strip("/"), query, *_words(userinfo), *_words(behind))


def _words(part: str) -> list[str]:
    return _BETWEEN.split(part)


def _plain(piece: str) -> str:
    return _BACKSLASH.sub("", piece)


def _pattern(piece: str) -> str:
    """A regular expression for a piece, every letter of it as it is, encoded or escaped.

    Of backslashes there may be any number before each letter, whether they belong to the piece or escape the letter:
    so there is one way to match a text, and no text takes long.
    """
    return "".join(f"{_ESCAPE}(?:{'|'.join(_spellings(letter))})" for letter in piece)


def _spellings(letter: str) -> list[str]:
    """A letter as it is, percent-encoded, as Python and JSON escape it, and as bytes that were read as Latin-1."""
    encoded = letter.encode(errors="replace")
    escaped = [repr(letter)[1:-1], repr(encoded)[2:-1], json.dumps(letter)[1:-1]]
    between = [" ", "+"] if letter in " +" else []
    found = {"".join(f"%{byte:02x}" for byte in encoded), *escaped, encoded.decode("latin-1"), *between, letter}
    return [_ESCAPE.join(map(re.escape, each.strip("\\").split("\\"))) for each in sorted(found, key=len, reverse=True)]
