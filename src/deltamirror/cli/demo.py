"""``deltamirror demo``: a tour of the Python interface, on a catalog made for it."""

import shlex
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import click
from rich.console import Console

from deltamirror.catalog import Catalog
from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.output import Lines, answer
from deltamirror.cli.runners import RUNNERS
from deltamirror.cli.tour import CHAPTERS, Chapter
from deltamirror.config import CatalogSettings, MirrorSettings, Settings
from deltamirror.errors import AlreadyExists, MissingExtra, PermissionDenied
from deltamirror.wiring import open_catalog

CATALOG_FILE: Final = "deltamirror.db"
WIDTH: Final = 100
INTRODUCTION: Final = (
    "deltamirror keeps the transaction log of Delta Lake tables in a SQL database, and mirrors it to the files that "
    f"every Delta reader knows. Here is what that gives, in {len(CHAPTERS)} short chapters. The code that you see is "
    "the code that runs."
)


@click.command(epilog="Example: deltamirror demo --runner local")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Keep the tables and the catalog in this folder, which must not have a catalog yet.",
)
@click.option(
    "--runner",
    type=RUNNERS,
    default="spark",
    metavar="spark|local",
    help="Mirror on a Spark of its own, which needs Java, or without Spark; on Spark unless given.",
)
@with_invocation
def demo(invocation: Invocation, *, folder: Path | None, runner: Literal["spark", "local"]) -> None:
    """Show what deltamirror does, in a tour of less than a minute.

    It works on an SQLite file and small Parquet files in a temporary folder, which is deleted at the end; with
    --folder they are kept, to be looked at. The settings and --catalog are not used.
    """
    with _lake(folder) as lake:
        settings = _settings(lake, runner)
        with open_catalog(settings) as catalog:
            told = [_Told(chapter, catalog, lake, settings) for chapter in CHAPTERS]
            try:
                _tell(invocation, told, folder, runner)
            except MissingExtra as error:
                hint = f"{error.hint}; or go without Spark: `{_command()} demo --runner local`"
                raise replace(error, hint=hint) from error


def _tell(invocation: Invocation, told: Sequence["_Told"], folder: Path | None, runner: str) -> None:
    if invocation.json:
        chapters = [chapter.document() for chapter in told]
        answer({"folder": folder and str(folder), "chapters": chapters}, Lines(()), json=True)
    else:
        _narrate(told, folder, runner)


@dataclass(frozen=True, slots=True)
class _Told:
    """A chapter, and what it runs on."""

    chapter: Chapter
    catalog: Catalog
    lake: Path
    settings: Settings

    def outcome(self) -> list[str]:
        return list(self.chapter.run(self.catalog, self.lake, self.settings))

    def document(self) -> dict[str, object]:
        return {"title": self.chapter.title, "code": self.chapter.code, "outcome": self.outcome()}


@contextmanager
def _lake(folder: Path | None) -> Iterator[Path]:
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="deltamirror-demo-") as made:
            yield Path(made)
        return
    if (folder / CATALOG_FILE).exists():
        message = f"{folder / CATALOG_FILE} exists already"
        raise AlreadyExists(message, hint="name another folder, or delete this one", location=str(folder))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"cannot make the folder {folder}: {error.strerror}"
        raise PermissionDenied(message, hint="name a folder that you may write to") from error
    yield folder.resolve()


def _settings(lake: Path, runner: Literal["spark", "local"]) -> Settings:
    url = f"sqlite:///{lake / CATALOG_FILE}"
    return Settings(catalog=CatalogSettings(url=url), mirror=MirrorSettings(runner=runner))


def _narrate(told: Sequence[_Told], folder: Path | None, runner: str) -> None:
    terminal = shutil.get_terminal_size((WIDTH, 0)).columns
    console = Console(highlight=False, markup=False, width=min(WIDTH, terminal))
    console.print(textwrap.fill(INTRODUCTION, console.width), end="\n\n")
    for number, each in enumerate(told, 1):
        console.rule(f"{number}. {each.chapter.title}", align="left", characters="─", style="bold")
        console.print(textwrap.fill(each.chapter.text, console.width), end="\n\n")
        console.print(textwrap.indent(each.chapter.code, "    "), style="cyan", soft_wrap=True)
        console.print()
        for line in each.outcome():
            console.print(f"  {line}", style="green", soft_wrap=True)
        console.print()
    console.rule("What to try next", align="left", characters="─", style="bold")
    for line in _suggestions(folder, runner):
        console.print(line, soft_wrap=True)


def _suggestions(folder: Path | None, runner: str) -> list[str]:
    place = shlex.quote(str(folder or "lake"))
    command = _command()
    local = " --runner local" if runner == "local" else ""
    keep = [] if folder else [f"    {command} demo --folder {place}{local}    # the same again, and keep it"]
    return [
        *keep,
        f"    cd {place}",
        f"    {command} table list",
        f"    {command} table history orders",
        f"    {command} table files orders --version 1",
        f"    {command} table alter orders --add-column 'note string'",
        f"    {command} status",
        f"    {command} mirror --once{local}",
        f"    {command} --help",
    ]


def _command() -> str:
    """The command as it has to be typed: from `make demo`, it is in a virtual environment off the path."""
    beside = Path(sys.executable).with_name("deltamirror")
    return shlex.quote(str(beside)) if shutil.which("deltamirror") is None and beside.exists() else "deltamirror"
