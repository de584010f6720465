"""The root of the command line, and how it turns errors into exit statuses."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

import click

from deltamirror.cli.failure import EXIT_CLOSED_PIPE, EXIT_USAGE, failure_of, report
from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.lazy import LazyCommand, LazyGroup

COMMANDS: Final[Mapping[str, LazyCommand]] = {
    "adopt": LazyCommand("adopt", "adopt_", "Take in versions that other writers put into the logs of tables."),
    "alert": LazyCommand("alert", "alert", "Look at alerts, test channels, and silence what is known."),
    "checkpoint": LazyCommand("checkpoint", "checkpoint", "Write the checkpoint of the newest published version."),
    "clean": LazyCommand("clean", "clean", "Delete the part of a table's log that is past its retention."),
    "commit": LazyCommand("commit", "commit", "Commit the actions in FILE (`-` for standard input) to TABLE."),
    "config": LazyCommand("settings", "config", "Look at the settings."),
    "demo": LazyCommand("demo", "demo", "Show what deltamirror does, in a tour of less than a minute."),
    "diff": LazyCommand("diff", "diff", "Compare two tables, or two versions of one table."),
    "health": LazyCommand("health", "health", "Show whether everything works, and what to do if not."),
    "import": LazyCommand("importing", "import_", "Import the Delta table at LOCATION, with its history."),
    "init": LazyCommand("catalog", "init", "Create the catalog, or upgrade an older one."),
    "mirror": LazyCommand("mirror", "mirror", "Publish the commits of all tables to their _delta_log/."),
    "optimize": LazyCommand("optimize", "optimize", "Put fewer, larger files in the place of small ones."),
    "prune": LazyCommand("prune", "prune", "Delete versions from the database that the log does not hold."),
    "rebuild": LazyCommand("rebuild", "rebuild_", "Write the log of a table again, as the database has it."),
    "reconcile": LazyCommand("reconcile", "reconcile", "Compare logs with the database, and publish what is missing."),
    "repair": LazyCommand("repair", "repair_", "End the quarantine of a table, and publish what is missing."),
    "report": LazyCommand("report", "report_", "Show the failed attempts to mirror a table, and what to do."),
    "restore": LazyCommand("restore", "restore", "Bring back an earlier version of a table, as one more version."),
    "serve": LazyCommand("serve", "serve", "Serve the status page, its numbers as JSON, and the commit API."),
    "status": LazyCommand("status", "status", "Show how far the tables are published, and what failed."),
    "table": LazyCommand("table", "table", "Create, look at, change and drop tables."),
    "token": LazyCommand("token", "token", "Issue, list and revoke the tokens of `deltamirror serve`."),
    "top": LazyCommand("top", "top", "Watch the mirror: lag, backlog, failures, circuits, services."),
    "vacuum": LazyCommand("vacuum", "vacuum", "Delete data files that no version within retention needs."),
    "validate": LazyCommand("validate", "validate", "Check the log of any Delta table against the protocol."),
    "verify": LazyCommand("verify", "verify", "Check that the logs of tables say what the database says."),
}
"""All commands, in order. Showing them imports none of the libraries that they work with."""


class CommandLine(LazyGroup):
    """The root: errors of its commands end in one line and an exit status."""

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
            # The rest of the buffer goes nowhere: the interpreter would complain about it on its way out.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(EXIT_CLOSED_PIPE) from error


@click.group(
    cls=CommandLine,
    known=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="deltamirror", message="deltamirror %(version)s")
@with_invocation
def cli(_: Invocation) -> None:
    """Delta Lake tables whose transaction log lives in a SQL database, mirrored to _delta_log/ for every reader.

    Begin with `deltamirror demo`, a tour that leaves nothing behind, or with `deltamirror init`.
    """


def main() -> NoReturn:
    """The entry point of the command ``deltamirror``."""
    cli.main(prog_name="deltamirror")
