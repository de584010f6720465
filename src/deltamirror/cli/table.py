"""``deltamirror table``: the commands about one table, and the list of them."""

from collections.abc import Mapping
from typing import Final

import click

from deltamirror.cli.lazy import LazyCommand, LazyGroup

COMMANDS: Final[Mapping[str, LazyCommand]] = {
    "alter": LazyCommand("definition", "alter", "Change table NAME; all changes together are one commit."),
    "create": LazyCommand("definition", "create", "Create table NAME, with version 0 as its first commit."),
    "drop": LazyCommand("life", "drop", "Take table NAME out of the catalog."),
    "fence": LazyCommand("fence", "fence", "Make every other Delta writer refuse table NAME."),
    "files": LazyCommand("views", "files", "List the data files of table NAME, at any version."),
    "history": LazyCommand("listing", "history", "Show the commits of table NAME, the newest first."),
    "list": LazyCommand("listing", "list_", "List the tables of the catalog."),
    "pause": LazyCommand("life", "pause", "Stop mirroring table NAME, or --all tables."),
    "rename": LazyCommand("life", "rename", "Give table NAME the name NEW_NAME."),
    "resume": LazyCommand("life", "resume", "Mirror table NAME again, or --all tables."),
    "show": LazyCommand("views", "show", "Show table NAME: its columns, properties, protocol and domains."),
    "unfence": LazyCommand("fence", "unfence", "Let other Delta writers write to table NAME again."),
}
"""All commands, in order."""


@click.group(cls=LazyGroup, known=COMMANDS, epilog="Example: deltamirror table show orders")
def table() -> None:
    """Create, look at, change and drop tables."""
