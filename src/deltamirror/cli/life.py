"""``deltamirror table drop|pause|resume``: the life of a table after it was created."""

import click

from deltamirror.catalog import TableInfo
from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.output import Lines, answer, counted
from deltamirror.errors import Refused

__all__ = ["drop", "pause", "resume"]


@click.command
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--unpublished", is_flag=True, help="Also when versions are not published; they are lost.")
@with_invocation
def drop(invocation: Invocation, *, name: str, yes: bool, unpublished: bool) -> None:
    """Take table NAME out of the catalog. Data files and _delta_log/ stay where they are."""
    with invocation.open() as catalog:
        location = catalog.table(name).location
        if not yes and invocation.json:
            raise click.UsageError("with --json nobody is asked; give --yes")
        if not yes:
            _ask(f"Drop {name} from the catalog? Its files at {location} stay.")
        catalog.drop_table(name, unpublished=unpublished)
    said = Lines((f"Dropped {name} from the catalog. No file at {location} was deleted.",))
    answer({"table": name, "location": location, "dropped": True}, said, json=invocation.json)


@click.command
@click.argument("name")
@click.option("--unpublished", is_flag=True, help="Also when versions are not published; they wait for `resume`.")
@with_invocation
def pause(invocation: Invocation, *, name: str, unpublished: bool) -> None:
    """Stop mirroring table NAME. Commits go on in the catalog, and wait there to be published."""
    with invocation.open() as catalog:
        catalog.pause(name, unpublished=unpublished)
        info = catalog.table(name).info()
    _answer_state(invocation, info, f"{name} is paused: what is committed from here on waits to be published.")


@click.command
@click.argument("name")
@with_invocation
def resume(invocation: Invocation, *, name: str) -> None:
    """Mirror table NAME again, beginning with the versions that wait."""
    with invocation.open() as catalog:
        catalog.resume(name)
        info = catalog.table(name).info()
    _answer_state(invocation, info, f"{name} is active: {counted(info.unpublished, 'version')} to publish.")


def _answer_state(invocation: Invocation, info: TableInfo, sentence: str) -> None:
    document = {"table": info.name, "state": info.state, "head": info.head, "unpublished": info.unpublished}
    answer(document, Lines((sentence,)), json=invocation.json)


def _ask(question: str) -> None:
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort as error:
        raise click.UsageError("nobody answered; give --yes to drop without being asked") from error
    if not agreed:
        raise Refused("not dropped: the answer was no")
