"""How late versions were, as pictures over time: the geometry of small SVGs, and what they say in words."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from deltamirror.ops.wording import duration
from deltamirror.txnlog.queue.table_records import Lag

_LEAST_MS: Final = 10.0
_MOST_MS: Final = 3_600_000.0
_LEVELS: Final = ((100, "0.1 s"), (1_000, "1 s"), (10_000, "10 s"), (60_000, "1 min"), (600_000, "10 min"))
_TICKS: Final = 5


@dataclass(frozen=True, slots=True)
class Mark:
    """A label beside an axis."""

    at: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparkline:
    """A line without axes, of the size of a word; the scale is logarithmic and the same for all tables."""

    width: int
    height: int
    line: str
    """The points of a polyline; empty where nothing was published."""
    level: float
    """Where one second is."""
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A line over the time of commits, with axes."""

    width: int
    height: int
    line: str
    area: str
    levels: tuple[Mark, ...]
    times: tuple[Mark, ...]
    left: int
    bottom: int
    words: str


def sparkline_of(lags: Sequence[Lag], *, waiting_ms: int, now: int, width: int = 120, height: int = 28) -> Sparkline:
    """The last versions of a table; at its end, for how long the oldest unpublished one waits."""
    points = [(lag.committed_at, lag.milliseconds) for lag in lags]
    if waiting_ms:
        points.append((now, waiting_ms))
    return Sparkline(
        width=width,
        height=height,
        line=_line(_placed(points, 2, 2, width - 4, height - 4)),
        level=_height(1_000, 2, height - 4),
        words=_words(lags, waiting_ms),
    )


def chart_of(lags: Sequence[Lag], *, since: int, now: int, width: int = 720, height: int = 220) -> Chart:
    """The versions of a table since a time."""
    left, bottom, top = 56, height - 28, 12
    scale = (now - since) or 1
    across = width - left - 12
    points = [
        (left + min((lag.committed_at - since) / scale, 1) * across, _height(lag.milliseconds, top, bottom - top))
        for lag in lags
    ]
    area = f"{_line([(points[0][0], bottom)])} {_line(points)} {_line([(points[-1][0], bottom)])}" if points else ""
    times = [since + scale * tick // (_TICKS - 1) for tick in range(_TICKS)]
    return Chart(
        width=width,
        height=height,
        line=_line(points),
        area=area,
        levels=tuple(Mark(_height(ms, top, bottom - top), text) for ms, text in _LEVELS),
        times=tuple(Mark(round(left + (at - since) / scale * across, 1), _clock(at, scale)) for at in times),
        left=left,
        bottom=bottom,
        words=_words(lags, 0),
    )


def _placed(points: Sequence[tuple[int, int]], x: int, y: int, width: int, height: int) -> list[tuple[float, float]]:
    if not points:
        return []
    first, last = points[0][0], points[-1][0]
    span = (last - first) or 1
    placed = [(x + (at - first) / span * width, _height(ms, y, height)) for at, ms in points]
    return placed if len(placed) > 1 else [(x, placed[0][1]), (x + width, placed[0][1])]


def _height(milliseconds: float, top: float, height: float) -> float:
    """Where a length of time is between the top, an hour, and the bottom, a hundredth of a second."""
    bounded = min(max(float(milliseconds), _LEAST_MS), _MOST_MS)
    share = math.log(bounded / _LEAST_MS) / math.log(_MOST_MS / _LEAST_MS)
    return round(top + height * (1 - share), 1)


def _line(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _words(lags: Sequence[Lag], waiting_ms: int) -> str:
    waiting = f"; the oldest version waits for {duration(waiting_ms)}" if waiting_ms else ""
    if not lags:
        return f"Nothing was published{waiting}."
    longest = max(lag.milliseconds for lag in lags)
    return f"Last {duration(lags[-1].milliseconds)}, longest {duration(longest)} of {len(lags)} versions{waiting}."


def _clock(at: int, scale: int) -> str:
    shown = "%H:%M:%S" if scale < 600_000 else "%H:%M" if scale <= 86_400_000 else "%d %b"
    return datetime.fromtimestamp(at / 1000, UTC).strftime(shown)
