"""``deltamirror verify``: whether the logs of tables say what the database says."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Final

import click

from deltamirror.cli.failure import one_line
from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.opening import local_engine
from deltamirror.cli.output import Lines, answer, counted
from deltamirror.cli.parameters import whole_number
from deltamirror.cli.reconcile import spelled_versions
from deltamirror.cli.runners import RUNNERS, exported_runner
from deltamirror.cli.validate import finding_lines
from deltamirror.config import redact_text
from deltamirror.errors import Diverged, Late
from deltamirror.ops.verify.report import Level, TableVerified
from deltamirror.ops.verify.verifying import Verifier, Versions
from deltamirror.wiring import open_logs

_LEVELS: Final = [level.value for level in Level]


@click.command(epilog="Example: deltamirror verify orders --level paranoid")
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@click.option("--all", "every_table", is_flag=True, help="Verify all tables of the catalog.")
@click.option(
    "--level",
    type=click.Choice(_LEVELS),
    default=Level.STRICT.value,
    show_default=True,
    metavar="|".join(_LEVELS),
    help="What is looked at: the listing; every object, rule and state; and what a reader sees.",
)
@click.option(
    "--version",
    type=int,
    callback=whole_number(0),
    metavar="N",
    help="Compare the state of this version; otherwise that of the newest published one.",
)
@click.option("--all-versions", is_flag=True, help="Compare the states of all versions in the log.")
@click.option(
    "--repair", "repairs", is_flag=True, help="Repair what is safe to repair, as `repair` does, and verify again."
)
@click.option(
    "--replace-altered",
    is_flag=True,
    help="With --repair: replace commits that another writer changed, after saving them aside.",
)
@click.option(
    "--runner",
    type=RUNNERS,
    metavar="spark|local",
    help="Read large logs on Spark, or all in this process; over the setting mirror.runner.",
)
@with_invocation
def verify(
    invocation: Invocation,
    *,
    tables: tuple[str, ...],
    every_table: bool,
    level: str,
    version: int | None,
    all_versions: bool,
    repairs: bool,
    replace_altered: bool,
    runner: str | None,
) -> None:
    """Check that the logs of tables say what the database says.

    basic lists the log, and reads objects that are missing, have another size or were touched since they were put.
    strict reads every object, holds it against its digest and against the rules of `validate`, and compares states: of
    the log, and of the SQL rows (files, protocol, metadata, transactions, domains), each with the committed lines. Each
    SQL row of a version and its files is held against the lines, too.
    paranoid also reads all rows of the newest version, or of --version, with delta-rs where the extra delta-rs is
    installed and knows the table's features, and otherwise by the catalog's own scan; the answer says which.

    Nothing is changed, unless --repair asks for it. The exit status is 0 if all is the same, 2 if something is not, and
    3 if versions only wait to be published.
    """
    _check(tables, every_table=every_table, version=version, all_versions=all_versions)
    if replace_altered and not repairs:
        raise click.UsageError("--replace-altered is for --repair")
    runner = exported_runner(invocation.lasting(), runner)
    with local_engine(invocation) as engine, open_logs(engine, runner=runner) as logs:
        verifier = Verifier(logs, level=Level(level), versions=Versions(version, every=all_versions))
        found = verifier.run(tables)
        if repairs:
            found = tuple(verifier.repaired(each, replace_altered=replace_altered) for each in found)
    document = {"level": level, "tables": [_document(each) for each in found]}
    answer(document, Lines(tuple(_lines(found))), json=invocation.json)
    if status := _exit_status(found):
        raise click.exceptions.Exit(status)


def _check(tables: Sequence[str], *, every_table: bool, version: int | None, all_versions: bool) -> None:
    if bool(tables) == every_table:
        raise click.UsageError("name tables, or give --all")
    if version is not None and (all_versions or len(tables) != 1):
        raise click.UsageError("--version is for one table, and goes without --all-versions")


def _exit_status(found: Sequence[TableVerified]) -> int:
    if any(table.is_drift for table in found):
        return Diverged.exit_status
    failed = (table.error.exit_status for table in found if table.error is not None)
    return next(failed, Late.exit_status if any(table.is_late for table in found) else 0)


def _document(table: TableVerified) -> dict[str, object]:
    error = table.error
    told = None if error is None else {**error.as_json(), "message": redact_text(error.message)}
    return {**asdict(table), "late": table.late, "drift": table.is_drift, "error": told}


def _lines(found: Sequence[TableVerified]) -> Iterator[str]:
    for table in found:
        yield from (f"{table.table}, {line}" for line in _told(table))
        yield from finding_lines(table.findings)
        yield f"{table.table}: {_summary(table)}."


def _told(table: TableVerified) -> Iterator[str]:
    for versions, what in (
        (table.missing, "gone from the log"),
        (table.altered, "changed after publication"),
        (table.foreign, "put there by another writer"),
        (table.checkpoints, "checkpoint gone or changed"),
        (table.checksums, "version checksum gone or changed"),
        (table.late_checksums, "version checksum not written yet"),
    ):
        if versions:
            yield f"{spelled_versions(versions)}: {what}"
    yield from (f"{key}: misleads readers" for key in table.misleading)
    yield from (f"{key}: no object, but something else of this name" for key in table.obstacles)
    for each in table.differences:
        yield f"version {each.version}, {each.compared}: {each.first} (B: the committed lines)"
    for row in table.rows:
        place = f"version {row.version}, {row.table}.{row.column}{f' of {row.subject}' if row.subject else ''}"
        yield f"{place}: {one_line(row.found)}, expected {one_line(row.expected)}; {row.remedy}"
    if table.error is not None:
        yield f"{table.error.code}: {one_line(table.error.message)}"


def _summary(table: TableVerified) -> str:
    if table.is_drift:
        verdict = f"drift; `deltamirror verify {table.table} --repair` repairs what is safe"
    elif table.error is not None:
        verdict = "not verified"
    elif table.late:
        verdict = f"late by {counted(table.late, 'version')}"
    elif table.is_late:
        verdict = f"late by {counted(len(table.late_checksums), 'version checksum')}"
    else:
        verdict = "the log says what the database says"
    reader = f", read by {table.reader}" if table.reader else ""
    looked = f"{counted(table.checked, 'object')} read, {counted(table.versions, 'state')} compared{reader}"
    return f"{verdict} ({looked})"
