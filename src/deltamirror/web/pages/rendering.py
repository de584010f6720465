"""HTML from templates: every text is escaped, and errors are redacted first."""

import math
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from deltamirror.config import redact_text
from deltamirror.ops.advice import advice, errors_of, guide, remedy_of
from deltamirror.ops.alerts.silencing import words_of
from deltamirror.ops.wording import counted, duration, moment
from deltamirror.pipeline.failures.breaker import reason
from deltamirror.pipeline.failures.policy import way_out
from deltamirror.web.pages.asked import LONGEST_REASON, SILENCES

_HERE: Final = Path(__file__).parent
STATIC: Final = _HERE / "static"


def render(template: str, **values: Any) -> str:
    """A page."""
    return _ENVIRONMENT.get_template(template).render(**values)


def _time(milliseconds: int | None) -> Markup:
    """A time of the log: for people to the second, for programs to the millisecond."""
    if milliseconds is None:
        return Markup("–")
    exact = moment(milliseconds)
    return Markup('<time datetime="{}" title="{}">{} UTC</time>').format(exact.replace(" ", "T"), exact, exact[:19])


def _ago(milliseconds: int | None, now: int) -> str:
    return "–" if milliseconds is None else f"{duration(max(now - milliseconds, 0))} ago"


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _size(value: int | None) -> str:
    """A number of bytes, in the unit that it has at least one of."""
    if value is None:
        return "–"
    power = min(max(value.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    return f"{value / 1024**power:,.{1 if power else 0}f} {_UNITS[power]}"


_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def _share(value: float) -> str:
    """Per cent, rounded down: 100 % is all of it."""
    return f"{math.floor(value * 1000) / 10:g} %"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:g} s" if value < _IN_SECONDS else duration(int(value * 1000))


_IN_SECONDS: Final = 120


def _prose(text: str | None) -> Markup:
    """A sentence without its secrets; texts in backticks are code."""
    parts = redact_text(text or "").split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if odd % 2 else part for odd, part in enumerate(parts)
    )


def _query(**values: object) -> str:
    """The query of an address, without what has no value."""
    return urlencode({name: str(value) for name, value in values.items() if value not in (None, "")})


_ENVIRONMENT: Final = Environment(
    loader=FileSystemLoader(_HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters.update(
    time=_time,
    ago=_ago,
    number=_number,
    size=_size,
    share=_share,
    seconds=_seconds,
    duration=duration,
    counted=counted,
    milliseconds=lambda value: f"{value:,.1f} ms",
    prose=_prose,
    redacted=lambda text: redact_text(text or ""),
    segment=lambda text: quote(text, safe=""),
)
_ENVIRONMENT.globals.update(
    advice=advice,
    errors_of=errors_of,
    guide=guide,
    query=_query,
    longest_reason=LONGEST_REASON,
    remedy_of=remedy_of,
    silence_lengths=tuple(SILENCES),
    store_reason=reason,
    way_out=way_out,
    words_of=words_of,
)
