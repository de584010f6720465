"""``deltamirror table drop|rename|pause|resume``: the life of a table after it was created."""

import click

from deltamirror.catalog import TableInfo
from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.opening import catalog_of
from deltamirror.cli.output import Lines, answer, counted
from deltamirror.errors import Refused
from deltamirror.txnlog.queue.pause import is_paused, pause_all, resume_all
from deltamirror.txnlog.tables.registry import MirrorState


@click.command(epilog="Example: deltamirror table drop orders --yes")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--unpublished", is_flag=True, help="Also when versions are not published; they are lost.")
@with_invocation
def drop(invocation: Invocation, *, name: str, yes: bool, unpublished: bool) -> None:
    """Take table NAME out of the catalog.

    Data files and _delta_log/ stay where they are.
    """
    with catalog_of(invocation) as catalog:
        location = catalog.table(name).location
        if not yes and invocation.json:
            raise click.UsageError("with --json the command does not ask; give --yes")
        if not yes:
            _ask(f"Drop {name} from the catalog? Its files at {location} stay.")
        catalog.drop_table(name, unpublished=unpublished)
    said = Lines((f"Dropped {name} from the catalog. No file at {location} was deleted.",))
    answer({"table": name, "location": location, "dropped": True}, said, json=invocation.json)


@click.command(epilog="Example: deltamirror table rename orders sales.orders")
@click.argument("name")
@click.argument("new_name")
@with_invocation
def rename(invocation: Invocation, *, name: str, new_name: str) -> None:
    """Give table NAME the name NEW_NAME.

    Its location and its log stay. Settings, access tokens and silences that go by names count for the new one from here
    on; transactions on the old name are refused.
    """
    with catalog_of(invocation) as catalog:
        location = catalog.rename_table(name, new_name).location
    document = {"table": new_name, "renamed_from": name, "location": location}
    answer(document, Lines((f"Renamed {name} to {new_name}. It stays at {location}.",)), json=invocation.json)


@click.command(epilog="Example: deltamirror table pause orders")
@click.argument("name", required=False)
@click.option("--all", "all_", is_flag=True, help="All tables, also those that are created later.")
@click.option("--unpublished", is_flag=True, help="Also when versions are not published; they wait for `resume`.")
@with_invocation
def pause(invocation: Invocation, *, name: str | None, all_: bool, unpublished: bool) -> None:
    """Stop mirroring table NAME, or --all tables.

    Commits go on in the catalog, and wait there to be published. Services that run take notice with their next pass;
    units under way are finished. With --all, versions that are not published are no objection.
    """
    _require_one(name, all_=all_)
    with catalog_of(invocation) as catalog:
        if name is None:
            pause_all(catalog.database)
            _answer_all(invocation, MirrorState.PAUSED, "All tables are paused: commits wait to be published.")
        else:
            catalog.pause(name, unpublished=unpublished)
            said = f"{name} is paused: commits from here on wait to be published."
            _answer_state(invocation, catalog.table(name).info(), said)


@click.command(epilog="Example: deltamirror table resume --all")
@click.argument("name", required=False)
@click.option("--all", "all_", is_flag=True, help="All tables but those that were paused by name.")
@with_invocation
def resume(invocation: Invocation, *, name: str | None, all_: bool) -> None:
    """Mirror table NAME again, or --all tables.

    The versions that wait are published first.
    """
    _require_one(name, all_=all_)
    with catalog_of(invocation) as catalog:
        if name is None:
            resume_all(catalog.database)
            _answer_all(
                invocation, MirrorState.ACTIVE, "Tables are mirrored again, but for those that were paused by name."
            )
        else:
            catalog.resume(name)
            info = catalog.table(name).info()
            with catalog.database.read() as connection:
                held = "; but all tables are paused: `deltamirror table resume --all`" if is_paused(connection) else "."
            said = f"{name} is active: {counted(info.unpublished, 'version')} to publish{held}"
            _answer_state(invocation, info, said)


def _require_one(name: str | None, *, all_: bool) -> None:
    if (name is None) != all_:
        raise click.UsageError("name a table, or give --all")


def _answer_all(invocation: Invocation, state: MirrorState, sentence: str) -> None:
    answer({"all": True, "state": state}, Lines((sentence,)), json=invocation.json)


def _answer_state(invocation: Invocation, info: TableInfo, sentence: str) -> None:
    document = {"table": info.name, "state": info.state, "head": info.head, "unpublished": info.unpublished}
    answer(document, Lines((sentence,)), json=invocation.json)


def _ask(question: str) -> None:
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort as error:
        raise click.UsageError("no answer; give --yes to drop without being asked") from error
    if not agreed:
        raise Refused("not dropped: the answer was no")
