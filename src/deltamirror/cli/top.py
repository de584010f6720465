"""``deltamirror top``: the mirror at a glance, drawn again every few seconds."""

import os
import select
import signal
import sys
import termios
import time
import tty
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Final, Self

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from deltamirror.cli.database import CatalogDatabase, database_of
from deltamirror.cli.failure import one_line
from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.output import answer, broken, counted, moment, say
from deltamirror.cli.overview import Backlog, StatusOverview
from deltamirror.cli.status import document, failure_lines, grid
from deltamirror.cli.terminal import laid_out
from deltamirror.config import redact_url
from deltamirror.errors import DeltaMirrorError
from deltamirror.txnlog.tables.registry import MirrorState

_INTERVAL: Final = 2.0
_SHORTEST: Final = 0.1
_QUIT: Final = (b"q", b"Q", b"\x03", b"")
"""Ctrl-C is here for terminals that send it as a key; nothing at all is a terminal that was closed."""
_MOVES: Final = {
    b"\x1b[A": -1, b"\x1bOA": -1, b"k": -1, b"\x1b[B": 1, b"\x1bOB": 1, b"j": 1, b"\x1b[5~": -10, b"\x1b[6~": 10
}  # fmt: skip


@click.command(epilog="Example: deltamirror top --interval 5")
@click.option("--once", is_flag=True, help="Show it once, and end; so it does where there is no terminal.")
@click.option(
    "--interval",
    type=click.FloatRange(min=_SHORTEST),
    default=_INTERVAL,
    metavar="SECONDS",
    help=f"How long to wait before the database is asked again; {_INTERVAL:g} unless given.",
)
@with_invocation
def top(invocation: Invocation, *, once: bool, interval: float) -> None:
    """Watch the mirror: lag, backlog, failures, circuits, services.

    The tables that lag most come first; below them, what failed with what to do about it, the stores whose circuit is
    not closed, and the services that hold leases. The arrows and the page keys move through the tables; q or Ctrl-C
    ends it. The exit status is 0. With --json, or where there is no terminal, it is shown once.
    """
    with database_of(invocation) as opened:
        if once or invocation.json or not sys.stdout.isatty():
            _show_once(_Look.of(opened), json=invocation.json)
        else:
            with suppress(KeyboardInterrupt):
                _watch(opened, interval)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What the database said, and when."""

    catalog: str
    at: int
    overview: StatusOverview
    trouble: str = ""
    """Why the database could not be asked after that."""

    @classmethod
    def of(cls, opened: CatalogDatabase) -> Self:
        """Ask the database, and let others open it, where only one process can have it open."""
        overview = StatusOverview.of(opened).by_lag()
        opened.database.let_go()
        return cls(catalog=redact_url(opened.settings.catalog.url), at=int(time.time() * 1000), overview=overview)

    def renewed(self, opened: CatalogDatabase) -> "_Look":
        """Ask again; without an answer, what was known before, and why there is none."""
        try:
            return _Look.of(opened)
        except DeltaMirrorError as error:
            return replace(self, trouble=one_line(f"{error.code}: {error.message}; {error.hint}"))

    @property
    def head(self) -> str:
        """Which catalog, and when."""
        return f"{self.catalog}  {moment(self.at)}"

    @property
    def summary(self) -> str:
        """All tables in one line."""
        tables = self.overview.tables
        failing = sum(table.error is not None or table.checkpoint_error is not None for table in tables)
        states = Counter(table.state for table in tables)
        stopped = {str(state): states[state] for state in (MirrorState.QUARANTINED, MirrorState.PAUSED)}
        counts = [f"{number:,} {what}" for what, number in {"failing": failing, **stopped}.items() if number]
        shut = len(self.overview.store_lines())
        circuits = [f"{counted(shut, 'circuit')} not closed"] if shut else []
        return f"{', '.join([counted(len(tables), 'table'), *counts, *circuits])}; {Backlog.of(tables)}"

    def notes(self) -> list[str]:
        """What there is to know besides the tables, the most urgent first."""
        overview = self.overview
        services = [service.line() for service in overview.services()] or ["no service holds a lease"]
        paused = ["mirroring is paused for all tables; `deltamirror table resume --all` ends it"]
        trouble = [f"the database does not answer: {self.trouble}"] if self.trouble else []
        told = [*trouble, *(paused if overview.all_paused else []), *overview.store_lines()]
        return [*told, *services, *failure_lines(overview.tables)]

    def document(self) -> dict[str, object]:
        """As ``--json`` shows it."""
        backlog, services = Backlog.of(self.overview.tables), self.overview.services()
        own = {"at": self.at, "backlog": asdict(backlog), "services": [asdict(service) for service in services]}
        return {**own, **document(self.overview)}


def _show_once(look: _Look, *, json: bool) -> None:
    if not json:
        say(look.head)
        say(look.summary)
    answer(look.document(), grid(look.overview.tables), json=json)
    if not json:
        for note in look.notes():
            say(note)


def _watch(opened: CatalogDatabase, interval: float) -> None:
    """Draw until the user has seen enough. Only the lines of the screen are written over, so that nothing flickers."""
    console, first, look = Console(highlight=False), 0, _Look.of(opened)
    with _keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        due = time.monotonic() + interval
        while True:
            live.update(_frame(look, first, width=console.width, height=console.height), refresh=True)
            key = keys.pressed(within=due - time.monotonic())
            if key in _QUIT:
                return
            if key is None:
                look, due = look.renewed(opened), time.monotonic() + interval
            first = min(max(first + _MOVES.get(key or b"", 0), 0), max(len(look.overview.tables) - 1, 0))


def _frame(look: _Look, first: int, *, width: int, height: int) -> RenderableType:
    """The screen: at most half of it are notes, and the rest are tables from the ``first`` on."""
    head = [line for each in (look.head, look.summary) for line in _lines(each, width)]
    notes = _notes(look.notes(), width=width, room=height // 2)
    room = max(height - len(head) - len(notes) - 4, 1)  # two empty lines, the headings, and how many tables are left
    tables = look.overview.tables
    shown = grid(tables[first : first + room])
    above, below = first, max(len(tables) - first - room, 0)
    elsewhere = f"{counted(above, 'table')} above, {below:,} below: arrows" if above or below else ""
    body = laid_out(shown, list(shown.rows), width=width) if tables else Text(shown.empty)
    return Group(_text(head), Text(), body, Text(elsewhere, style="dim"), Text(), _text(notes))


def _notes(sentences: Sequence[str], *, width: int, room: int) -> list[str]:
    """The first of the sentences, as many as there is room for, and how many there are besides."""
    shown: list[str] = []
    for index, sentence in enumerate(sentences):
        lines = _lines(sentence, width)
        if len(shown) + len(lines) >= room and (index + 1 < len(sentences) or len(shown) + len(lines) > room):
            return [*shown, f"{len(sentences) - index:,} more: `deltamirror status` shows them"]
        shown += lines
    return shown


def _lines(sentence: str, width: int) -> list[str]:
    return broken(sentence, width).splitlines()


def _text(lines: Sequence[str]) -> Text:
    return Text("\n".join(lines), overflow="fold")


class _Keys:
    """The keys of a terminal, as they are pressed; there are none where standard input is no terminal."""

    def __init__(self, streams: Sequence[int]) -> None:
        self._streams = streams

    def pressed(self, *, within: float) -> bytes | None:
        """The next key, or None if there is none within so many seconds."""
        ready, _, _ = select.select(self._streams, [], [], max(within, 0))
        return os.read(ready[0], 32) if ready else None


@contextmanager
def _keys() -> Iterator[_Keys]:
    """Read keys without waiting for Return, and without showing them; SIGTERM ends it as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    stream = sys.stdin.fileno() if sys.stdin.isatty() else None
    modes = None if stream is None else termios.tcgetattr(stream)
    try:
        if stream is not None:
            tty.setcbreak(stream)
        yield _Keys([] if stream is None else [stream])
    finally:
        if stream is not None and modes is not None:
            termios.tcsetattr(stream, termios.TCSADRAIN, modes)
        signal.signal(signal.SIGTERM, before)
