"""``deltamirror checkpoint``: the checkpoint of one table, asked for."""

import click

from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.opening import checked_engine
from deltamirror.cli.output import Lines, answer
from deltamirror.cli.runners import chosen_runner, with_runner
from deltamirror.txnlog.queue.status import CheckpointStatus


@click.command(epilog="Example: deltamirror checkpoint orders --runner local")
@click.argument("table")
@with_runner
@with_invocation
def checkpoint(invocation: Invocation, *, table: str, runner: str | None, master: str | None) -> None:
    """Write the checkpoint of the newest published version.

    Nothing is written if it is there. By the runner of the mirror. With --runner local, this process writes it, and
    waits for no Spark to start.
    """
    with checked_engine(chosen_runner(invocation, runner, master)) as engine:
        (before,) = engine.status(table)
        version = engine.checkpoint(table)
        (after,) = engine.status(table)
    written = before.checkpoint is None or before.checkpoint.version < version
    _answer(invocation, table, after.checkpoint, written=written)


def _answer(invocation: Invocation, table: str, found: CheckpointStatus | None, *, written: bool) -> None:
    version, num_bytes = (None, None) if found is None else (found.version, found.num_bytes)
    said = "{0} has a checkpoint of version {1}" if written else "{0} had the checkpoint of version {1} already"
    size = "" if num_bytes is None else f" ({num_bytes:,} bytes)"
    document = {"table": table, "version": version, "num_bytes": num_bytes, "written": written}
    answer(document, Lines((f"{said.format(table, version)}{size}.",)), json=invocation.json)
