"""Rows on a terminal: laid out by rich, which takes a while to import."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from deltamirror.cli.output import GAP, Grid, cell, is_numeric


def show(grid: Grid, rows: Sequence[Sequence[object]]) -> None:
    """Write some rows of a grid."""
    console = Console(highlight=False)
    console.print(laid_out(grid, rows, width=console.width))


def laid_out(grid: Grid, rows: Sequence[Sequence[object]], *, width: int) -> Table:
    """Some rows of a grid as a terminal of this width shows them."""
    return _drawn(*_fitting(grid, rows, width), [grid.colour(row) for row in rows])


def _fitting(
    grid: Grid, rows: Sequence[Sequence[object]], width: int
) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
    """The columns and rows for a terminal of this width: optional columns give way until the others fit."""
    kept = list(range(len(grid.columns)))
    widths = [max(map(len, (name, *(cell(row[index]) for row in rows)))) for index, name in enumerate(grid.columns)]
    for name in grid.optional:
        if sum(widths[index] for index in kept) + len(GAP) * (len(kept) - 1) > width:
            kept.remove(grid.columns.index(name))
    return [grid.columns[index] for index in kept], [[row[index] for index in kept] for row in rows]


def _drawn(columns: Sequence[str], rows: Sequence[Sequence[object]], colours: Sequence[str]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for index, name in enumerate(columns):
        table.add_column(name, justify="right" if is_numeric(rows, index) else "left", overflow="fold")
    for row, colour in zip(rows, colours, strict=True):
        table.add_row(*(Text(cell(value)) for value in row), style=colour)
    return table
