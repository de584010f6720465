"""What is never shown: secrets as values, and how they are taken out of addresses and texts.

An address is taken apart by the rules of URLs, and a part of it is shown only where it is known to hold no secret. One
that leaves open where its password ends cannot be taken apart: of it the scheme is shown, and ``unclear_url`` refuses
it before a driver reads it in another way, and names a piece of the password as the host that it did not find.
"""

import re
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple, NoReturn
from urllib.parse import unquote, unquote_plus

MASK: Final = "***"

_SHOWN_PARAMETERS: Final = frozenset(
    [
        "application_name",
        "client_encoding",
        "connect_timeout",
        "dbname",
        "fallback_application_name",
        "gssencmode",
        "host",
        "hostaddr",
        "keepalives",
        "keepalives_count",
        "keepalives_idle",
        "keepalives_interval",
        "load_balance_hosts",
        "options",
        "port",
        "require_auth",
        "service",
        "sslcert",
        "sslcrl",
        "sslkey",
        "sslmode",
        "sslnegotiation",
        "sslrootcert",
        "target_session_attrs",
        "tcp_user_timeout",
        "user",
        "use_ssl",
        "user_agent",
        "user_id",
        "session_id",
    ]
)
"""Of libpq and of Spark Connect, which sends every name that it does not know to the server as a header."""
_HIDDEN_PARAMETERS: Final = frozenset(
    ["authorization", "headers", "motherduck_token", "password", "sig", "sslpassword", "token"]
)
"""Their names help to find them, and are shown; any other name may itself be the end of a secret."""
FILE_SCHEMES: Final = ("sqlite", "duckdb")
"""Catalogs that are files: their addresses have no host and no login."""
_SHORTEST_PIECE: Final = 3

_is_scheme = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*").fullmatch
_HOST: Final = r"(?:\[[0-9A-Fa-f:.]*\]|[\w.*-]*)(?::[0-9]*)?"
_is_host = re.compile(rf"{_HOST}(?:,{_HOST})*").fullmatch
_is_plain_value = re.compile(r"[\w.,/:%+=-]*").fullmatch
_is_plain_text = re.compile(r"[\w./\\\[\]*,:-]*").fullmatch
_USERINFO_IN_TEXT: Final = re.compile(r"(://[^\s:]*:)\S*@")
_NAME: Final = (
    r"(?i)\b([\w-]*(?:password|passwd|pwd|token|secret|credentials?|signature|sig|[_-]key|api_?key|account_?key"
    r"|access_?key|authorization))"
)
_VALUE: Final = r"('[^']*'|\"[^\"]*\"|(?:bearer|basic)\s+[^\s&;,'\"]+|[^\s&;,'\"]+)"
_PARAMETER_IN_TEXT: Final = re.compile(rf"{_NAME}={_VALUE}")
_HEADER_IN_TEXT: Final = re.compile(rf"(?i)\b(authorization['\"]?: ?){_VALUE}")
_CREDENTIAL: Final = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}")


class Secret:
    """A text that prints as ``***`` and does not pickle: it reaches no log, page, report or other process."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text, to be handed to the service that it is for."""
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return MASK

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret does not travel: every process finds its own")


class _Parts(NamedTuple):
    """An address in pieces, none of them decoded."""

    scheme: str
    authority: str
    path: str
    path_parameters: tuple[str, ...]
    query: tuple[str, ...]
    fragment: str
    is_file: bool

    @property
    def parameters(self) -> Iterator[tuple[str, str]]:
        for each in (*self.path_parameters, *self.query):
            name, _, value = each.partition("=")
            yield name, value


def _split(url: str) -> _Parts:
    scheme, _, rest = url.partition("://")
    is_file = scheme.partition("+")[0] in FILE_SCHEMES
    rest, _, fragment = (rest, "", "") if is_file else rest.partition("#")
    rest, _, query = rest.partition("?")
    authority, slash, path = rest.partition("/")
    path, *parameters = [path] if is_file else path.split(";")
    pairs = tuple(query.split("&")) if query else ()
    return _Parts(scheme, authority, slash + path, tuple(parameters), pairs, fragment, is_file)


def _has_unclear_end(url: str, parts: _Parts) -> bool:
    """Whether it is open where the user and the password end: at which ``@``, or at a ``/``, ``?`` or ``#``."""
    if parts.is_file:
        return "@" in parts.authority
    behind = url.partition("://")[2].removeprefix(parts.authority)
    odd = any(letter.isspace() or not letter.isprintable() for letter in parts.authority)
    return parts.authority.count("@") > 1 or "@" in behind or odd


def unclear_url(url: str) -> str:
    """What is wrong with an address that others may take apart in another way than we; nothing of it is repeated."""
    parts = _split(url)
    if not _has_unclear_end(url, parts) and ("#" not in url or parts.is_file):
        return ""
    named = f"`{parts.scheme}://` address" if _is_scheme(parts.scheme) else "address"
    return (
        f"the {named} has a user, a password or a parameter with `@`, `/`, `?`, `#` or a blank as it is: "
        "write it percent-encoded, so that `p@ss` is `p%40ss` (`/` is %2F, `?` is %3F, `#` is %23, a blank is %20)"
    )


def redact_url(url: str) -> str:
    """``url`` without its password, its fragment, and the parameters that may be secret.

    >>> redact_url("postgresql://me:hunter2@db/lake?sslpassword=x")
    'postgresql://me:***@db/lake?sslpassword=***'
    """
    scheme, separator, _ = url.partition("://")
    if not separator:
        return url if _is_plain_text(url) else MASK
    if not _is_scheme(scheme):
        return MASK
    parts = _split(url)
    if _has_unclear_end(url, parts) or not _is_host(parts.authority.rpartition("@")[2]):
        return f"{scheme}://{MASK}"
    path_parameters = "".join(f";{_shown_parameter(each)}" for each in parts.path_parameters)
    query = f"?{'&'.join(map(_shown_parameter, parts.query))}" if parts.query else ""
    fragment = f"#{MASK}" if parts.fragment else ""
    return f"{scheme}://{_shown_authority(parts.authority)}{parts.path}{path_parameters}{query}{fragment}"


def _shown_authority(authority: str) -> str:
    userinfo, at, host = authority.rpartition("@")
    user, colon, _ = userinfo.partition(":")
    return f"{user}{colon}{MASK if colon else ''}{at}{host}"


def _shown_parameter(parameter: str) -> str:
    name, equals, value = parameter.partition("=")
    if name in _SHOWN_PARAMETERS and _is_plain_value(value):
        return parameter
    named = name if name in _SHOWN_PARAMETERS | _HIDDEN_PARAMETERS else MASK
    return f"{named}{equals}{MASK if equals else ''}" if parameter else ""


def secret_pieces(url: str) -> frozenset[str]:
    """The password of an address and the parameters that may be secret, as they are written and decoded.

    A name that no driver knows is one of them: behind an ``&`` as it is, it is the end of a password.
    """
    parts = _split(url)
    password = parts.authority.rpartition("@")[0].partition(":")[2]
    hidden = [value for name, value in parts.parameters if name not in _SHOWN_PARAMETERS]
    hidden += [name for name, _ in parts.parameters if name not in _SHOWN_PARAMETERS | _HIDDEN_PARAMETERS]
    spelled = (spelling for each in (password, *hidden) for spelling in (each, unquote(each), unquote_plus(each)))
    return frozenset(each for each in spelled if len(each) >= _SHORTEST_PIECE)


def scrub(text: str, pieces: Collection[str]) -> str:
    """``text`` of a driver without these pieces, however it came by them: the longest first."""
    for piece in sorted(pieces, key=len, reverse=True):
        text = text.replace(piece, MASK)
    return text


def redact_text(text: str) -> str:
    """``text`` with every address and ``password=…`` in it redacted, as for logs and error messages."""
    named = _PARAMETER_IN_TEXT.sub(rf"\1={MASK}", _USERINFO_IN_TEXT.sub(rf"\1{MASK}@", text))
    return _CREDENTIAL.sub(rf"\1 {MASK}", _HEADER_IN_TEXT.sub(rf"\1{MASK}", named))
