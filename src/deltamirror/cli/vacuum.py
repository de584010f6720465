"""``deltamirror vacuum``: data files that no version within retention needs, deleted or shown."""

from collections.abc import Iterator
from contextlib import ExitStack

import click

from deltamirror.catalog.maintenance.vacuum import Vacuumed
from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.opening import catalog_of
from deltamirror.cli.output import counted, moment, say, write_json_list
from deltamirror.cli.parameters import span_or_none
from deltamirror.cli.progress import Advance, shown
from deltamirror.config import LogSettings


@click.command(epilog="Example: deltamirror vacuum orders --dry-run")
@click.argument("table")
@click.option(
    "--retain",
    callback=span_or_none,
    metavar="TIME",
    help="How long files stay after a commit removed them: 90s, 15m, 2h or 30d.  [default: the table's]",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option(
    "--no-retention-check",
    is_flag=True,
    help="Take a shorter time than the table's: no reader and no transaction may be at work that takes longer.",
)
@with_invocation
def vacuum(
    invocation: Invocation, *, table: str, retain: float | None, dry_run: bool, no_retention_check: bool
) -> None:
    """Delete data files that no version within retention needs.

    That is, files that a commit removed longer ago than delta.deletedFileRetentionDuration of the table (7 days unless
    it is set), and files that are older than that and that no commit has ever named. Versions from before that time
    cannot be read afterwards. Files of commits that are not published stay, as do hidden ones and those outside of the
    table's folder. Two commits, VACUUM START and VACUUM END, record it.
    """
    settings = invocation.lasting().settings
    with catalog_of(invocation) as catalog, _Progress(settings.log, quiet=invocation.json) as progress:
        done = catalog.table(table).vacuum(
            retain, dry_run=dry_run, retention_check=not no_retention_check, progress=progress
        )
    if invocation.json:
        write_json_list(_document(done, dry_run=dry_run), "files", done.paths() if dry_run else ())
        return
    for line in _lines(done, dry_run=dry_run):
        say(line)


class _Progress(ExitStack):
    """Shows how many files are deleted, once it is known of how many."""

    def __init__(self, log: LogSettings, *, quiet: bool) -> None:
        super().__init__()
        self._log, self._quiet = log, quiet
        self._advance: Advance | None = None
        self._deleted = 0

    def __call__(self, deleted: int, total: int) -> None:
        if self._advance is None:
            view = shown(total, quiet=self._quiet, log=self._log, done="deleted", unit="files")
            self._advance = self.enter_context(view)
        self._advance(deleted - self._deleted)
        self._deleted = deleted


def _document(done: Vacuumed, *, dry_run: bool) -> dict[str, object]:
    return {
        "table": done.table,
        "dry_run": dry_run,
        "retention": done.retention,
        "cutoff": done.cutoff,
        "num_unpublished": done.num_unpublished,
        "num_files": done.num_files,
        "num_bytes": done.num_bytes,
        "num_deleted": done.num_deleted,
        "version": done.version,
    }


def _lines(done: Vacuumed, *, dry_run: bool) -> Iterator[str]:
    if dry_run:
        yield from done.paths()
    size = f"{counted(done.num_files, 'file')}, {done.num_bytes:,} bytes"
    if dry_run or not done.num_files:
        yield f"{'Would be deleted' if dry_run else 'Nothing to delete'}: {size}."
    else:
        yield f"Deleted: {counted(done.num_deleted, 'file')} of {size}; it is version {done.version} of {done.table}."
    if done.num_unpublished:
        yield f"Files that unpublished commits removed stay: {counted(done.num_unpublished, 'version')} to publish."
    yield f"Versions of {done.table} since {moment(done.cutoff)} can be read as before."
