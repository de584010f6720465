"""What a request asks for, read from its address or its form: bounded, and wrong values are named."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeVar
from urllib.parse import parse_qs

from starlette.requests import ClientDisconnect, Request

from deltamirror.errors import InvalidInput
from deltamirror.txnlog.access.patterns import TablePattern
from deltamirror.txnlog.queue.overview import Show, Sort, Wanted
from deltamirror.web.pages.gathering import WINDOWS

E = TypeVar("E", bound=StrEnum)

_LONGEST_SEARCH: Final = 255
_LARGEST: Final = 2**63 - 1
_MOST_PAGES: Final = 1_000_000
_SIZES: Final = (1, 100)
_FIELDS: Final = 10
_LONGEST_NAME: Final = 1_000
LONGEST_REASON: Final = 500
SILENCES: Final[Mapping[str, float]] = {"15min": 900.0, "1h": 3_600.0, "4h": 14_400.0, "1d": 86_400.0, "7d": 604_800.0}
"""How long notifications may be silenced from the page, in seconds."""


def wanted_of(request: Request, visible: TablePattern) -> Wanted:
    """The part of the tables that the query names."""
    query = request.query_params
    least, most = _SIZES
    return Wanted(
        search=_printable(query.get("search", "").strip()[:_LONGEST_SEARCH]),
        show=_choice(Show, query.get("show"), Show.ALL, "show"),
        sort=_choice(Sort, query.get("sort"), Sort.ATTENTION, "sort"),
        page=number_of(query, "page", least=1, most=_MOST_PAGES) or 1,
        size=number_of(query, "size", least=least, most=most) or 25,
        visible=visible,
    )


def window_of(request: Request) -> str:
    """How far back a picture goes."""
    asked = request.query_params.get("window", "1h")
    if asked not in WINDOWS:
        raise InvalidInput(f"window: {asked[:20]!r} is none of {', '.join(WINDOWS)}")
    return asked


def number_of(values: Mapping[str, str], name: str, *, least: int = 0, most: int = _LARGEST) -> int | None:
    """A whole number, if it is given."""
    text = values.get(name) or ""
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > len(str(_LARGEST)) or not least <= int(text) <= most:
        raise InvalidInput(f"{name}: {text[:20]!r} is not a number from {least} to {most}")
    return int(text)


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a form, each with its last value."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise InvalidInput("expected a form (application/x-www-form-urlencoded)")
    try:
        body = (await request.body()).decode()
        fields = parse_qs(body, keep_blank_values=True, max_num_fields=_FIELDS, errors="strict")
    except ClientDisconnect as error:
        raise InvalidInput("the form is too large") from error
    except ValueError as error:
        raise InvalidInput("the form cannot be read") from error
    return {name: values[-1] for name, values in fields.items()}


def text_of(values: Mapping[str, str], name: str) -> str:
    """A name that was given, of bounded length; empty if none was."""
    text = values.get(name) or ""
    if len(text) > _LONGEST_NAME or not text.isprintable():
        raise InvalidInput(f"{name}: {text[:20]!r}… is no name of a rule, a table or a silence")
    return text


def silence_of(form: Mapping[str, str]) -> tuple[float, str]:
    """For how many seconds alerts are to be silenced, and why."""
    asked, reason = form.get("for", ""), _printable(form.get("reason", "").strip())
    if asked not in SILENCES:
        raise InvalidInput(f"for: {asked[:20]!r} is none of {', '.join(SILENCES)}")
    if not 0 < len(reason) <= LONGEST_REASON:
        raise InvalidInput(f"reason: say why, for the others, in at most {LONGEST_REASON} letters")
    return SILENCES[asked], reason


def local_path(address: str) -> str:
    """An address to go on at after signing in, if it is one of ours; otherwise the overview."""
    is_ours = address.startswith("/") and not address.startswith("//")
    return address if is_ours and address.isprintable() and "\\" not in address else "/"


def _choice(kind: type[E], text: str | None, default: E, name: str) -> E:
    if not text:
        return default
    if text not in list(kind):
        raise InvalidInput(f"{name}: {text[:20]!r} is none of {', '.join(kind)}")
    return kind(text)


def _printable(text: str) -> str:
    return "".join(letter for letter in text if letter.isprintable())
