"""``deltamirror table``: the commands about one table, and the list of them."""

import click

from deltamirror.cli.definition import alter, create
from deltamirror.cli.fence import fence, unfence
from deltamirror.cli.life import drop, pause, rename, resume
from deltamirror.cli.views import files, history, list_, show

__all__ = ["table"]


@click.group(epilog="Example: deltamirror table show orders")
def table() -> None:
    """Create, look at, change and drop tables."""


for _command in (create, alter, list_, show, history, files, rename, drop, pause, resume, fence, unfence):
    table.add_command(_command)
