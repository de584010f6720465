"""``deltamirror diff``: whether two tables, or two versions of one, are the same."""

from collections.abc import Iterator

import click

from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.opening import catalog_of
from deltamirror.cli.output import Lines, answer, counted
from deltamirror.deltalog.checkpoint.state import CheckpointState
from deltamirror.errors import Diverged
from deltamirror.ops.diff.comparing import DIFFERING, ONLY_IN_A, ONLY_IN_B, ComparedDifference, compare
from deltamirror.ops.diff.sides import Side, location_state, parse_side, table_state
from deltamirror.wiring import open_location


@click.command(epilog="Example: deltamirror diff orders@3 orders@5")
@click.argument("a")
@click.argument("b")
@with_invocation
def diff(invocation: Invocation, *, a: str, b: str) -> None:
    """Compare two tables, or two versions of one table.

    A and B are TABLE[@VERSION] of the catalog, or LOCATION[@VERSION] of any Delta table.
    A location has a slash: ./orders. Without a version, the newest is meant. Protocol, metadata, transactions, domains
    and data files are compared. The exit status is 0 if they are equal, and 2 if they differ: then the first difference
    is told, and how many there are of each kind.
    """
    sides = parse_side(a), parse_side(b)
    one, other = (_state(invocation, side) for side in sides)
    found = compare(one, other)
    names = [f"{side.place} at version {state.version}" for side, state in zip(sides, (one, other), strict=True)]
    document = {
        "equal": found.equal,
        "a": _document(sides[0], one),
        "b": _document(sides[1], other),
        "first": found.first,
        "counts": found.counts,
    }
    answer(document, Lines(tuple(_lines(found, *names))), json=invocation.json)
    if not found.equal:
        raise click.exceptions.Exit(Diverged.exit_status)


def _state(invocation: Invocation, side: Side) -> CheckpointState:
    """The state of one side; a catalog is needed only where a table of it is named."""
    if side.is_location:
        return location_state(open_location(invocation.loaded().settings, side.place), side.version)
    with catalog_of(invocation) as catalog:
        return table_state(catalog.database, side.place, side.version)


def _document(side: Side, state: CheckpointState) -> dict[str, object]:
    place = {"location" if side.is_location else "table": side.place}
    return {**place, "version": state.version, "files": state.files.num_rows}


def _lines(found: ComparedDifference, one: str, other: str) -> Iterator[str]:
    if found.equal:
        yield f"Equal: {one}, and {other}."
        return
    yield f"A is {one}, B is {other}. They differ:"
    yield f"{found.first}."
    yield from (f"  {_counted(kind, count)}" for kind, count in found.counts.items())


def _counted(kind: str, count: int) -> str:
    match kind.partition("."):
        case (only, "", "") if only == ONLY_IN_A:
            return f"{counted(count, 'file')} in A only"
        case (only, "", "") if only == ONLY_IN_B:
            return f"{counted(count, 'file')} in B only"
        case (both, "", "") if both == DIFFERING:
            return f"{counted(count, 'file')} in both, with other fields"
        case (_, ".", field):
            return f"{counted(count, 'file')} with another {field}"
        case _:
            return f"{kind}: {counted(count, 'difference')}"
