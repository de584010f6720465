"""The root of the command line, and how it turns errors into exit statuses."""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NoReturn

import click

from deltamirror.cli.adopt import adopt_
from deltamirror.cli.catalog import init
from deltamirror.cli.checkpoint import checkpoint
from deltamirror.cli.clean import clean
from deltamirror.cli.commit import commit
from deltamirror.cli.demo import demo
from deltamirror.cli.diff import diff
from deltamirror.cli.failure import EXIT_CLOSED_PIPE, EXIT_USAGE, failure_of, report
from deltamirror.cli.importing import import_
from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.mirror import mirror
from deltamirror.cli.rebuild import rebuild_
from deltamirror.cli.reconcile import reconcile
from deltamirror.cli.repair import repair_
from deltamirror.cli.report import report_
from deltamirror.cli.settings import config
from deltamirror.cli.status import status
from deltamirror.cli.table import table

__all__ = ["CommandLine", "cli", "main"]


class CommandLine(click.Group):
    """A group whose errors end in one line and a stable exit status; usage errors exit with 64."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> NoReturn:
        """Run the command that ``args`` name, and leave the process with its exit status."""
        arguments = list(sys.argv[1:] if args is None else args)
        try:
            status = super().main(arguments, prog_name, complete_var, standalone_mode=False, **extra)
        except click.exceptions.NoArgsIsHelpError as help_text:
            click.echo(help_text.format_message(), err=True)
            status = EXIT_USAGE
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 -- the outermost frame: all become an exit status
            failure = failure_of(error)
            report(failure, json="--json" in arguments, trace=error if "--debug" in arguments else None)
            status = failure.exit_status
        sys.exit(status if isinstance(status, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a reader that closed the pipe ends it without a word."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            # What is left in the buffer goes nowhere: the interpreter would complain about it on its way out.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(EXIT_CLOSED_PIPE) from error


def _release() -> str:
    try:
        return version("deltamirror")
    except PackageNotFoundError:
        return "from a source folder"


@click.group(cls=CommandLine, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(_release(), message="deltamirror %(version)s")
@with_invocation
def cli(_: Invocation) -> None:
    """Delta Lake tables whose transaction log lives in a SQL database, mirrored to _delta_log/ for every reader.

    Begin with `deltamirror demo`, a tour that leaves nothing behind, or with `deltamirror init`.
    """


for _command in (
    init,
    config,
    table,
    import_,
    commit,
    mirror,
    status,
    report_,
    reconcile,
    repair_,
    adopt_,
    checkpoint,
    clean,
    rebuild_,
    diff,
    demo,
):
    cli.add_command(_command)


def main() -> NoReturn:
    """The entry point of the command ``deltamirror``."""
    cli.main(prog_name="deltamirror")
