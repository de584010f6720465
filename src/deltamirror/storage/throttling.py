"""How long a pause a store that throttles asks for, where only a header of its answer says so.

The client does not hand headers on. So after such an answer the same object is asked for once more, by a signed HEAD of
our own: if that is throttled as well, its answer has the header.
"""

import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import obstore
from obstore.exceptions import BaseError

AskedPause = Callable[[str], float | None]
"""For how many seconds a store asks for a pause, by the path of an object; None where it does not say."""

_SECONDS: Final = 2.0
_VALID: Final = timedelta(seconds=60)
_THROTTLED: Final = (429, 503)


def asked_pause_of(client: Any, *, ca_file: str | None) -> AskedPause:
    """The question for one bucket, by the credentials of its client."""
    return partial(_asked_pause, client, ca_file)


def _asked_pause(client: Any, ca_file: str | None, path: str) -> float | None:
    try:
        # The address holds a signature: it is never shown.
        address = Request(obstore.sign(client, "HEAD", path, _VALID), method="HEAD")  # noqa: S310  that of the endpoint
        with urlopen(address, timeout=_SECONDS, context=ssl.create_default_context(cafile=ca_file)):  # noqa: S310
            return None
    except HTTPError as answer:
        with answer:
            found = answer.headers.get("retry-after") if answer.code in _THROTTLED else None
        return None if found is None else seconds_in(found, now=datetime.now(UTC))
    except (BaseError, HTTPException, OSError, ValueError):
        return None  # a bonus: without it the pauses grow by themselves


def seconds_in(header: str, *, now: datetime) -> float | None:
    """The seconds that a ``Retry-After`` stands for: a number of them, or a date."""
    if header.strip().isdecimal():
        return float(header)
    try:
        date = parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now.timestamp())
