"""``deltamirror adopt``: the foreign commits in the log of a table become part of its history."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

import click

from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.opening import local_engine
from deltamirror.cli.output import Lines, answer, counted
from deltamirror.config import redact_text
from deltamirror.deltalog.gaps import spelled
from deltamirror.errors import DeltaMirrorError
from deltamirror.ops.adopt.adoption import Adoption, Adoptions, adopt_all
from deltamirror.wiring import open_logs

_NAMED: Final = 20


@click.command("adopt", epilog="Example: deltamirror adopt orders --dry-run")
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@click.option("--all", "every", is_flag=True, help="Every table whose log holds versions that the database lacks.")
@click.option("--dry-run", is_flag=True, help="Show what would come of it, and change nothing.")
@click.option(
    "--drop-conflicting",
    is_flag=True,
    help="Leave out commits that cannot follow the foreign commits. Without it, nothing is adopted then.",
)
@click.option(
    "--split-transactions",
    is_flag=True,
    help="Leave them out also where other tables keep their part of the same transaction.",
)
@with_invocation
def adopt_(
    invocation: Invocation,
    *,
    tables: tuple[str, ...],
    every: bool,
    dry_run: bool,
    drop_conflicting: bool,
    split_transactions: bool,
) -> None:
    """Take in versions that other writers put into the logs of tables.

    These are versions that the database lacks: another writer wrote them, or the database was restored from a backup.
    They come in as they are. Commits of the database that wait to be published go after them, with other versions, as
    far as Delta's rules for conflicts allow it; `deltamirror report` shows which versions they have since. The table
    leaves its quarantine. Nothing in the log is changed.
    """
    if every == bool(tables):
        raise click.UsageError("name the tables to adopt, or give --all")
    if split_transactions and not drop_conflicting:
        raise click.UsageError("--split-transactions only adds to --drop-conflicting")
    with local_engine(invocation) as engine, open_logs(engine) as logs:
        done = adopt_all(
            logs, tables, drop_conflicting=drop_conflicting, split_transactions=split_transactions, dry_run=dry_run
        )
    if len(tables) == 1 and done.failed:
        raise next(iter(done.failed.values()))
    answer(_document(done, dry_run=dry_run), Lines(tuple(_lines(done, dry_run=dry_run))), json=invocation.json)
    for error in done.failed.values():
        raise click.exceptions.Exit(error.exit_status)


def _document(done: Adoptions, *, dry_run: bool) -> dict[str, object]:
    return {
        "dry_run": dry_run,
        "tables": [_adoption_document(each) for each in done.adopted],
        "failures": [_failure_document(name, error) for name, error in done.failed.items()],
    }


def _adoption_document(adoption: Adoption) -> dict[str, object]:
    told = asdict(adoption)
    moved = [{"version": before, "new_version": since} for before, since in adoption.rebased.items()]
    return {**told, "rebased": moved, "refused": adoption.refused or None}


def _failure_document(table: str, error: DeltaMirrorError) -> dict[str, object]:
    return {"table": table, "code": error.code, "message": redact_text(error.message), "hint": error.hint}


def _lines(done: Adoptions, *, dry_run: bool) -> Iterator[str]:
    for adoption in done.adopted:
        yield from _told(adoption, dry_run=dry_run)
    for name, error in done.failed.items():
        yield f"{name}: {error.code}: {redact_text(error.message)}; {error.hint}"
    if not done.adopted and not done.failed:
        yield "Nothing to adopt."


def _told(adoption: Adoption, *, dry_run: bool) -> Iterator[str]:
    verb = "would be adopted" if dry_run else "adopted"
    yield f"{adoption.table}, {spelled([range(adoption.adopted[0], adoption.adopted[-1] + 1)])}: {verb}"
    for before, since in list(adoption.rebased.items())[:_NAMED]:
        yield f"  version {before} of ours is version {since}"
    if len(adoption.rebased) > _NAMED:
        yield f"  and {counted(len(adoption.rebased) - _NAMED, 'more version')}"
    for lost in adoption.dropped:
        others = f"; {', '.join(lost.tables)} of the same transaction keep it" if lost.tables else ""
        yield f"  version {lost.version} of ours is dropped: {redact_text(lost.reason)}{others}"
    if adoption.refused:
        yield f"  refused without --drop-conflicting or --split-transactions: {redact_text(adoption.refused)}"
