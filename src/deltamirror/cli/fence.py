"""``deltamirror table fence|unfence``: whether others may write to the log of a table."""

import click

from deltamirror.catalog import Table
from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.opening import catalog_of
from deltamirror.cli.output import Lines, answer
from deltamirror.txnlog.commit.request import Committed


@click.command(epilog="Example: deltamirror table fence orders")
@click.argument("name")
@with_invocation
def fence(invocation: Invocation, *, name: str) -> None:
    """Make every other Delta writer refuse table NAME.

    A private table feature does so; readers go on. This is a commit of the table: others refuse it from when that is
    published. It shuts out DELETE, OPTIMIZE and VACUUM of other engines, too, and stock Delta jobs that commit through
    SQL by the LogStore.
    """
    with catalog_of(invocation) as catalog:
        table = catalog.table(name)
        _answer(invocation, table, table.fence(), fenced=True)


@click.command(epilog="Example: deltamirror table unfence orders")
@click.argument("name")
@with_invocation
def unfence(invocation: Invocation, *, name: str) -> None:
    """Let other Delta writers write to table NAME again.

    deltamirror finds what they write to its log.
    """
    with catalog_of(invocation) as catalog:
        table = catalog.table(name)
        _answer(invocation, table, table.unfence(), fenced=False)


def _answer(invocation: Invocation, table: Table, done: Committed | None, *, fenced: bool) -> None:
    version = table.info().head if done is None else done.versions[table.name]
    what = f"{table.name} {'has a fence' if fenced else 'has no fence'}"
    when = f" already; version {version} is still its head." if done is None else f" from version {version} on."
    document = {"table": table.name, "version": version, "fenced": fenced, "changed": done is not None}
    answer(document, Lines((what + when,)), json=invocation.json)
