"""What is never shown: secrets as values, and how they are taken out of addresses and texts."""

import re
from typing import Final, NoReturn

__all__ = ["MASK", "Secret", "redact_text", "redact_url"]

MASK: Final = "***"

# Greedy up to the last "@", and a user of anything but colons: either may hold any character when its writer forgot to
# escape it. An "@" further on in the query then hides too much, which is the safe way to be wrong.
_USERINFO_OF_URL: Final = re.compile(r"(://[^:]*:|\A[^\s:/@]*:(?!//)).*@", re.DOTALL)
_USERINFO_IN_TEXT: Final = re.compile(r"(://[^\s:]*:)\S*@")
_NAME: Final = (
    r"(?i)\b([\w-]*(?:password|passwd|pwd|token|secret|credentials?|signature|sig|[_-]key|api_?key|account_?key"
    r"|access_?key|authorization))"
)
_VALUE: Final = r"('[^']*'|\"[^\"]*\"|(?:bearer|basic)\s+[^\s&;,'\"]+|[^\s&;,'\"]+)"
_PARAMETER_OF_URL: Final = re.compile(rf"{_NAME}=[^&;]+")
_PARAMETER_IN_TEXT: Final = re.compile(rf"{_NAME}={_VALUE}")
_HEADER_IN_TEXT: Final = re.compile(rf"(?i)\b(authorization['\"]?: ?){_VALUE}")
_CREDENTIAL: Final = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}")


class Secret:
    """A text that prints as ``***`` and does not pickle: it reaches no log, page, report or other process."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text, for whoever hands it to the service that it is for."""
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return MASK

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret does not travel: every process finds its own")


def redact_url(url: str) -> str:
    """``url`` without its password and without secret parameters.

    >>> redact_url("postgresql://me:hunter2@db/lake?sslpassword=x")
    'postgresql://me:***@db/lake?sslpassword=***'
    """
    return _PARAMETER_OF_URL.sub(rf"\1={MASK}", _USERINFO_OF_URL.sub(rf"\1{MASK}@", url))


def redact_text(text: str) -> str:
    """``text`` with every address and ``password=…`` in it redacted, as for logs and error messages."""
    named = _PARAMETER_IN_TEXT.sub(rf"\1={MASK}", _USERINFO_IN_TEXT.sub(rf"\1{MASK}@", text))
    return _CREDENTIAL.sub(rf"\1 {MASK}", _HEADER_IN_TEXT.sub(rf"\1{MASK}", named))
