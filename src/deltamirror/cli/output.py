"""Results on standard output: one JSON document, a table on a terminal, aligned text elsewhere."""

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain, islice
from typing import Final, TypeAlias

import click
import msgspec

from deltamirror.ops.wording import counted, duration, moment

__all__ = [
    "GAP",
    "Fields",
    "Grid",
    "Lines",
    "answer",
    "broken",
    "cell",
    "counted",
    "duration",
    "is_numeric",
    "moment",
    "say",
    "write_json_list",
]

# A terminal table is laid out as a whole; past this many rows, aligned text is streamed there, too.
LAID_OUT_ROWS: Final = 1_000

GAP: Final = "  "


@dataclass(frozen=True, slots=True)
class Lines:
    """Sentences."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fields:
    """Names with values, one a line."""

    values: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows under headings. Numbers are set to the right; ``empty`` is said where there is no row."""

    columns: tuple[str, ...]
    rows: Iterable[Sequence[object]]
    empty: str
    optional: tuple[str, ...] = ()
    """Columns that a narrow terminal does without, in this order."""
    colour: Callable[[Sequence[object]], str] = lambda _: ""
    """The colour of a row on a terminal that has colours, unless ``NO_COLOR`` is set."""


View: TypeAlias = Lines | Fields | Grid


def answer(document: Mapping[str, object], view: View, *, json: bool) -> None:
    """Write the result of a command: ``document`` where JSON was asked for, otherwise ``view``."""
    if json:
        _write_json(document)
        return
    match view:
        case Lines(lines):
            for line in lines:
                say(line)
        case Fields(values):
            _write_fields(values)
        case Grid():
            _write_grid(view)


def say(sentence: str) -> None:
    """Write a line; on a terminal it is broken between words."""
    for line in sentence.split("\n"):
        click.echo(_fitted_to_terminal(line, len(line) - len(line.lstrip()) + 2))


def broken(line: str, columns: int, *, indent: int = 2) -> str:
    """A line in as many as fit this width, broken between words; all but the first of them are indented."""
    margin = " " * indent
    return textwrap.fill(
        line, columns, subsequent_indent=margin, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    )


def _fitted_to_terminal(line: str, indent: int) -> str:
    """A line as a terminal shows it; elsewhere as it is."""
    if not sys.stdout.isatty():
        return line
    return broken(line, shutil.get_terminal_size().columns, indent=indent)


def _write_json(document: Mapping[str, object]) -> None:
    # On one line, or indented where a person looks at it.
    data = msgspec.json.encode(document)
    click.echo(msgspec.json.format(data.decode()) if sys.stdout.isatty() else data)


def write_json_list(head: Mapping[str, object], name: str, items: Iterable[object]) -> None:
    """Write one JSON document that ends in a list of any length, without holding its text in memory."""
    sys.stdout.flush()
    stream = sys.stdout.buffer
    stream.write(msgspec.json.encode(head)[:-1] + b',"' + name.encode() + b'":[')
    for index, item in enumerate(items):
        stream.write((b",\n" if index else b"\n") + msgspec.json.encode(item))
    stream.write(b"]}\n")
    stream.flush()


def _write_fields(values: Mapping[str, object]) -> None:
    width = max(map(len, values), default=0)
    for name, value in values.items():
        head, *more = cell(value).split("\n")
        for line in (f"{name:<{width}}  {head}".rstrip(), *(f"{'':<{width}}  {each}" for each in more)):
            click.echo(_fitted_to_terminal(line, width + 2))


def _write_grid(grid: Grid) -> None:
    rows = iter(grid.rows)
    first = list(islice(rows, LAID_OUT_ROWS))
    following = list(islice(rows, 1))
    if not first:
        click.echo(grid.empty)
    elif sys.stdout.isatty() and not following:
        import_module("deltamirror.cli.terminal").show(grid, first)  # with a library that a pipe does not wait for
    else:
        sys.stdout.writelines(f"{line}\n" for line in _aligned(grid.columns, first, chain(following, rows)))
        sys.stdout.flush()


def _aligned(
    columns: Sequence[str], first: Sequence[Sequence[object]], following: Iterable[Sequence[object]]
) -> Iterator[str]:
    right = [is_numeric(first, index) for index in range(len(columns))]
    cells = [[cell(value) for value in row] for row in first]
    widths = [max(len(row[index]) for row in [columns, *cells]) for index in range(len(columns))]
    for row in chain([columns], cells, ([cell(value) for value in row] for row in following)):
        yield GAP.join(
            f"{cell:>{width}}" if to_right else f"{cell:<{width}}"
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ).rstrip()


def is_numeric(rows: Sequence[Sequence[object]], index: int) -> bool:
    """Whether a column has numbers only, which are set to the right."""
    return all(isinstance(row[index], int | None) for row in rows)


def cell(value: object) -> str:
    """A value as people read it."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case _:
            return str(value)
