"""``deltamirror repair``: the log of one table made whole, because an operator asks for it."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

import click

from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.opening import local_engine
from deltamirror.cli.output import Lines, answer, counted
from deltamirror.ops.reconcile.repair import Repaired, repair
from deltamirror.wiring import open_logs


@click.command("repair", epilog="Example: deltamirror repair orders --replace-altered")
@click.argument("table")
@click.option(
    "--replace-altered",
    is_flag=True,
    help="Replace commits that another writer changed by those of the database, after saving them aside.",
)
@click.option(
    "--begin-anew",
    is_flag=True,
    help="Write the log again though nothing is at the table's location, not even its folder.",
)
@with_invocation
def repair_(invocation: Invocation, *, table: str, replace_altered: bool, begin_anew: bool) -> None:
    """End the quarantine of a table, and publish what is missing.

    The whole log is compared with the database first. Versions that failed past mirror.attempts are published, too; a
    store whose circuit is open is probed at once.
    Commits that another writer changed are replaced only with --replace-altered; the changed bytes are kept in
    _delta_log/_deltamirror/. Foreign commits are not replaced: the command ends with exit status 2, and the
    quarantine stays. Checkpoints, compactions, checksums and a pointer that say something else than the database are
    kept there, too, where no reader finds them. Where nothing is at the table's location, which a disk that is not
    mounted looks like, nothing is written without --begin-anew.
    """
    with local_engine(invocation) as engine, open_logs(engine) as logs:
        done = repair(logs, table, replace_altered=replace_altered, begin_anew=begin_anew)
    answer(asdict(done), Lines(tuple(_lines(done))), json=invocation.json)


def _lines(done: Repaired) -> Iterator[str]:
    if done.missing:
        yield f"Written again: {_versions(done.missing)}."
    if done.replaced:
        yield f"Replaced: {_versions(done.replaced)}."
    for key in done.misleading:
        yield f"Misled readers, and is moved away: {key}"
    for key in done.saved:
        yield f"Saved: {key}"
    if done.checkpoints:
        yield f"Checkpoints written again: {_versions(done.checkpoints)}."
    if done.checksums:
        yield f"Version checksums written again: {done.checksums}."
    yield f"{done.table} is published up to version {done.published} ({counted(done.checked, 'object')} compared)."


def _versions(versions: Sequence[int]) -> str:
    return f"{'version' if len(versions) == 1 else 'versions'} {', '.join(map(str, versions))}"
