"""Every command of the command line with arguments that make sense, in an order in which all of them succeed.

The commands come from the command line itself: one that has no arguments here is an error of whoever asks.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from deltamirror.cli import cli

TABLE = "t"
ADD = (
    json.dumps(
        {"add": {"path": "a.parquet", "partitionValues": {}, "size": 10, "modificationTime": 1, "dataChange": True}}
    )
    + "\n"
)
_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "config show": (),
    "config check": (),
    "init": (),
    "table create": (TABLE, "--location", "lake/t", "--schema", "id long"),
    "table list": (),
    "table show": (TABLE,),
    "commit": (TABLE, "-"),
    "table alter": (TABLE, "--comment", "said"),
    "table fence": (TABLE,),
    "table unfence": (TABLE,),
    "table files": (TABLE,),
    "table history": (TABLE,),
    "mirror": ("--once", "--runner", "local"),
    "checkpoint": (TABLE,),
    "status": (),
    "top": ("--once",),
    "health": (),
    "alert list": (),
    "alert silence": (TABLE, "--for", "2h", "--reason", "known"),
    "token issue": ("ada", "--rights", "read"),
    "token list": (),
    "token revoke": ("ada",),
    "report": (TABLE,),
    "reconcile": ("--strategy", "full", "--runner", "local"),
    "repair": (TABLE,),
    "verify": (TABLE,),
    "adopt": (TABLE,),
    "clean": (TABLE,),
    "prune": (TABLE, "--keep", "30d"),
    "vacuum": (TABLE,),
    "restore": (TABLE, "--version", "0"),
    "optimize": (TABLE,),
    "rebuild": (TABLE, "--to", "lake/again"),
    "diff": (TABLE, "lake/again"),
    "validate": ("lake/again",),
    "import": ("lake/again", "--name", "imported", "--runner", "local"),
    "table pause": (TABLE, "--unpublished"),
    "table resume": (TABLE,),
    "table rename": (TABLE, "renamed"),
    "table drop": ("renamed", "--yes", "--unpublished"),
    "demo": ("--runner", "local"),
}
_NOT_ALONE = ("alert test", "alert unsilence", "serve")
"""What needs a channel, the answer of another command, or a signal to end."""
_WITHOUT_CATALOG = ("config show", "config check", "demo", "validate")
"""What asks no database and no store of the settings."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command as it is typed."""

    path: str
    arguments: tuple[str, ...]
    stdin: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """All that is typed after ``deltamirror``."""
        return (*self.path.split(), *self.arguments)

    @property
    def needs_catalog(self) -> bool:
        """Whether it cannot succeed without the database."""
        return self.path not in _WITHOUT_CATALOG


def subcommands(group: click.Group) -> dict[str, click.Command]:
    """The commands of a group by their names, each of them imported."""
    context = click.Context(group)
    found = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}


def command_paths(group: click.Group = cli, above: str = "") -> Iterator[str]:
    """Every command that does something, by the words that name it."""
    for name, command in subcommands(group).items():
        if isinstance(command, click.Group):
            yield from command_paths(command, f"{above}{name} ")
        else:
            yield f"{above}{name}"


def command_lines(*, without: Sequence[str] = (), folder: Path | None = None) -> list[CommandLine]:
    """All of them, in order; a command that is not known here is named by the ``KeyError``."""
    known = {path: _ARGUMENTS[path] for path in command_paths() if path not in _NOT_ALONE}
    return [
        CommandLine(path, tuple(_placed(word, folder) for word in known[path]), ADD if path == "commit" else "")
        for path in _ARGUMENTS
        if path not in without
    ]


def _placed(word: str, folder: Path | None) -> str:
    return str(folder / word) if folder is not None and word.startswith("lake/") else word
