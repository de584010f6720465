"""``deltamirror table list|history``: what the database alone tells of tables and their versions."""

from dataclasses import asdict

import click

from deltamirror.arguments import table_name
from deltamirror.cli.database import database_of
from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.output import Grid, answer, moment
from deltamirror.cli.parameters import whole_number
from deltamirror.txnlog.tables import history as versions
from deltamirror.txnlog.tables.registry import TableInfo, list_tables


@click.command("list", epilog="Example: deltamirror table list --json")
@with_invocation
def list_(invocation: Invocation) -> None:
    """List the tables of the catalog."""
    with database_of(invocation) as opened, opened.database.read() as connection:
        tables = list_tables(connection, opened.switch)
    columns = ("TABLE", "HEAD", "UNPUBLISHED", "STATE", "CHANGED", "LOCATION")
    rows = [(t.name, t.head, t.unpublished, t.state, moment(t.head_timestamp), t.location) for t in tables]
    empty = "No tables. `deltamirror table create` makes one."
    answer({"tables": [table_document(info) for info in tables]}, Grid(columns, rows, empty), json=invocation.json)


@click.command(epilog="Example: deltamirror table history orders --limit 10")
@click.argument("name")
@click.option("--limit", type=int, callback=whole_number(1), metavar="N", help="Only the newest N versions.")
@with_invocation
def history(invocation: Invocation, *, name: str, limit: int | None) -> None:
    """Show the commits of table NAME, the newest first."""
    with database_of(invocation) as opened:
        entries = versions.history(opened.database, table_name(name), limit=limit)
    columns = ("VERSION", "TIME", "OPERATION", "ADDED", "REMOVED", "LINES", "BYTES", "KIND")
    grid = Grid(columns, [_history_row(entry) for entry in entries], empty="No commits.")
    answer({"table": name, "history": entries}, grid, json=invocation.json)


def table_document(info: TableInfo) -> dict[str, object]:
    """A table at a glance, as ``--json`` shows it."""
    return {**asdict(info), "unpublished": info.unpublished}


def _history_row(entry: versions.HistoryEntry) -> tuple[object, ...]:
    counts = (entry.num_added, entry.num_removed, entry.num_lines, entry.num_bytes)
    return entry.version, moment(entry.timestamp), entry.operation, *counts, entry.kind
