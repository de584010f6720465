"""Results as tables that read well in a terminal and in Markdown."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Table:
    """A title, names of columns, and rows of text."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def text(self) -> str:
        """The table in Markdown, padded so that columns line up."""
        rows = [self.header, *self.rows]
        widths = [max(len(row[column]) for row in rows) for column in range(len(self.header))]
        rule = "|".join(["", "-" * (widths[0] + 2), *(f"{'-' * (width + 1)}:" for width in widths[1:]), ""])
        body = [_line(row, widths) for row in self.rows]
        return "\n".join([f"{self.title}", "", _line(self.header, widths), rule, *body])


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (
        text.ljust(width) if column == 0 else text.rjust(width)
        for column, (text, width) in enumerate(zip(row, widths, strict=True))
    )
    return f"| {' | '.join([first, *others])} |"


@dataclass(frozen=True, slots=True)
class Result:
    """What one suite measured: a table for people, all figures for programs."""

    name: str
    table: Table
    figures: dict[str, Any] = field(default_factory=dict)


def rate(value: float) -> str:
    """A rate with as many digits as mean something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def spread(values: Sequence[float]) -> str:
    """The range of repeated measurements."""
    return f"{rate(min(values))}–{rate(max(values))}" if len(values) > 1 else rate(statistics.median(values))
