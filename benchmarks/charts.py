"""Charts as SVG, without a library: bars of ratios to their aims, and lines of costs by size."""

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final

from benchmarks.aims import Verdict

_WIDTH: Final = 900
_LABELS: Final = 440
_ROW: Final = 20
_TOP: Final = 30
_RIGHT: Final = 150
_LEAST, _MOST = 0.1, 100.0
_REACHED, _MISSED, _INK, _FAINT = "#2e7d32", "#c62828", "#333333", "#bbbbbb"
_COLOURS: Final = ("#1565c0", "#2e7d32", "#ef6c00", "#6a1b9a", "#c62828", "#00838f")
_PLOT: Final = (60, 20, 640, 340)
"""Left, top, width and height of what lines are drawn in."""


def bars(title: str, verdicts: Sequence[Verdict]) -> str:
    """How far each aim is reached: what a ratio is of its aim, on a logarithmic scale from a tenth to a hundred."""
    height = _TOP + _ROW * len(verdicts) + 30
    return _svg(title, _WIDTH, height, [*_scale(height), *_bars(verdicts)])


def _across(value: float) -> float:
    share = math.log(min(max(value, _LEAST), _MOST) / _LEAST) / math.log(_MOST / _LEAST)
    return _LABELS + share * (_WIDTH - _LABELS - _RIGHT)


def _scale(height: int) -> Iterator[str]:
    for value in (0.1, 1.0, 10.0, 100.0):
        at = _across(value)
        yield _line((at, _TOP - 6), (at, height - 24), _INK if value == 1.0 else _FAINT)
        yield _text("the aim" if value == 1.0 else f"{value:g} ×", at, height - 8, anchor="middle")


def _bars(verdicts: Sequence[Verdict]) -> Iterator[str]:
    start = _across(1.0)
    for number, verdict in enumerate(verdicts):
        top, end = _TOP + number * _ROW, _across(verdict.ratio / verdict.aim)
        left, wide = min(start, end), max(1.0, abs(end - start))
        colour = _REACHED if verdict.is_reached else _MISSED
        yield f'<rect x="{left:.1f}" y="{top}" width="{wide:.1f}" height="{_ROW - 6}" fill="{colour}"/>'
        yield _text(verdict.what, _LABELS - 8, top + 11, anchor="end")
        yield _text(f"{verdict.ratio:.3g} × of {verdict.aim:.3g} ×", _WIDTH - _RIGHT + 8, top + 11)


def lines(title: str, unit: str, costs: Mapping[str, Mapping[float, float]]) -> str:
    """Costs by size, both on logarithmic scales: each name is a line."""
    left, top, width, height = _PLOT
    sizes = sorted({size for line in costs.values() for size in line})
    values = [value for line in costs.values() for value in line.values()]
    low, high = (10 ** round_(math.log10(bound(values))) for round_, bound in ((math.floor, min), (math.ceil, max)))

    def place(size: float, value: float) -> tuple[float, float]:
        along = math.log(size / sizes[0]) / math.log(sizes[-1] / sizes[0])
        up = math.log(value / low) / math.log(high / low)
        return left + along * width, top + (1 - up) * height

    parts = [_text(unit, left, top - 6)]
    for size in sizes:
        at, _ = place(size, low)
        parts += [_line((at, top), (at, top + height), _FAINT), _text(f"{size:,.0f}", at, top + height + 16, "middle")]
    for power in range(round(math.log10(low)), round(math.log10(high)) + 1):
        _, at = place(sizes[0], 10.0**power)
        parts += [_line((left, at), (left + width, at), _FAINT), _text(f"{10.0**power:g}", left - 6, at + 4, "end")]
    for number, (name, line) in enumerate(costs.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        points = [place(size, value) for size, value in sorted(line.items())]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(_text(name, left + width + 8, points[-1][1] + 4, colour=colour))
    return _svg(title, _WIDTH, top + height + 30, parts)


def _svg(title: str, width: int, height: int, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    style = ' font-family="sans-serif" font-size="12" role="img">'
    paper = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    return "\n".join([head + style, f"<title>{escape(title)}</title>", paper, *parts, "</svg>", ""])


def _line(start: tuple[float, float], end: tuple[float, float], colour: str) -> str:
    (x1, y1), (x2, y2) = start, end
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _text(text: str, x: float, y: float, anchor: str = "start", *, colour: str = _INK) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
