"""``deltamirror status --slo``: how long commits take to become visible, and what is left of the error budget."""

from collections.abc import Sequence
from typing import Final

from deltamirror.cli.output import Grid
from deltamirror.ops.documents import slo_row_document
from deltamirror.ops.slo import SloReport, SloRow

__all__ = ["slo_document", "slo_grid"]

_COLUMNS: Final = ("TABLE", "WINDOW", "VERSIONS", "WAITING", "P50", "P95", "P99", "BUDGET LEFT", "BURN RATE")


def slo_document(report: SloReport) -> dict[str, object]:
    """As ``--json`` shows it; times are in seconds."""
    named = {"overall": report.overall, "tables": report.tables}
    return {name: [slo_row_document(row) for row in rows] for name, rows in named.items()}


def slo_grid(report: SloReport) -> Grid:
    """All windows, then those of each table."""
    rows = [_row(row) for row in (*report.overall, *report.tables)]
    return Grid(_COLUMNS, rows, "", optional=("P50", "VERSIONS"), colour=_colour)


def _row(row: SloRow) -> tuple[object, ...]:
    times = [_time(each) for each in (row.p50, row.p95, row.p99)]
    budgets = "  ".join(f"p{each.percent} {each.budget_left:.0%}" for each in row.objectives)
    return (
        "all tables" if row.table is None else row.table,
        row.window,
        row.versions,
        row.waiting,
        *times,
        budgets,
        f"{row.burn_rate:.2f}",
    )


def _time(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:g} s"


def _colour(row: Sequence[object]) -> str:
    return "red" if float(str(row[-1])) > 1 else ""
