"""The one place that knows how to take secrets out of addresses and texts."""

import re
from typing import Final

__all__ = ["MASK", "redact_text", "redact_url"]

MASK: Final = "***"

# Greedy up to the last "@": a password may hold any character when somebody forgot to escape it. An
# "@" further on in the query then hides too much, which is the safe way to be wrong.
_USERINFO_OF_URL: Final = re.compile(r"(://[^\s:]*:).*@", re.DOTALL)
_USERINFO_IN_TEXT: Final = re.compile(r"(://[^\s:]*:)\S*@")
_PARAMETER: Final = re.compile(r"(?i)\b(\w*(?:password|passwd|pwd|token|secret|secret_key))=('[^']*'|[^\s&;,'\"]+)")


def redact_url(url: str) -> str:
    """``url`` without its password and without secret parameters.

    >>> redact_url("postgresql://me:hunter2@db/lake?sslpassword=x")
    'postgresql://me:***@db/lake?sslpassword=***'
    """
    return _redact_parameters(_USERINFO_OF_URL.sub(rf"\1{MASK}@", url))


def redact_text(text: str) -> str:
    """``text`` with every address and ``password=…`` in it redacted, as for logs and error messages."""
    return _redact_parameters(_USERINFO_IN_TEXT.sub(rf"\1{MASK}@", text))


def _redact_parameters(text: str) -> str:
    return _PARAMETER.sub(rf"\1={MASK}", text)
