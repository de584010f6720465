"""Groups of commands whose modules are imported when they are typed, so that no command waits for those of others."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """A command whose module is imported when it is typed, and its line in the help of its group."""

    module: str
    attribute: str
    summary: str

    def load(self) -> click.Command:
        """The command itself."""
        with _uncollected():
            module = import_module(f"deltamirror.cli.{self.module}")
        command: click.Command = getattr(module, self.attribute)
        return command


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without looking for garbage: what imports make stays, and to look at it all along takes a tenth of a command."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


class LazyGroup(click.Group):
    """A group of such commands, by their names, in the order in which its help shows them."""

    def __init__(self, *args: Any, known: Mapping[str, LazyCommand], **options: Any) -> None:
        super().__init__(*args, **options)
        self._known = known

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return list(self._known)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        found = self._known.get(cmd_name)
        return None if found is None else found.load()

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by their summaries."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in self._known.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command by the list, and what else there is as every command does."""
        found = [name for name in self._known if name.startswith(incomplete)]
        items = [CompletionItem(name, help=self._known[name].summary) for name in found]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]
