"""``deltamirror health``: whether a process, or a catalog with all of its services, is well, and what to do if not."""

import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

import click
import msgspec

from deltamirror.cli.database import unchecked_database_of
from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.output import Grid, answer, moment, say
from deltamirror.cli.parameters import not_empty
from deltamirror.config import redact_text, redact_url
from deltamirror.errors import Unavailable
from deltamirror.ops.health import HealthReport, HealthState, PartHealth, check

EXIT_DEGRADED: Final = 4
_EXIT: Final = {HealthState.OK: 0, HealthState.DEGRADED: EXIT_DEGRADED, HealthState.FAILED: Unavailable.exit_status}
_ANSWERS_WITHIN: Final = 30.0
_LARGEST_ANSWER: Final = 1024 * 1024


@click.command(epilog="Example: deltamirror health --url http://127.0.0.1:9180")
@click.option("--url", callback=not_empty, metavar="URL", help="Ask the process that listens there: mirror --listen.")
@with_invocation
def health(invocation: Invocation, *, url: str | None) -> None:
    """Show whether everything works, and what to do if not.

    The parts are database, stores, progress, reconciler, Spark and settings. Without --url the catalog is checked, by
    what all services recorded in it and by a request to each of its stores: commits that no service takes, or that one
    holds and does not publish; logs that no reconciler compares. With --url one process tells of itself, by /readyz.
    Each part is ok, degraded (it works, and an operator should look) or failed, with a reason and what to do. The exit
    status is 0 if all parts are ok, 4 if one is degraded, and 20 if one failed or the process does not answer.
    """
    report = _asked(url) if url is not None else _looked_at(invocation)
    answer(report.document(), _grid(report), json=invocation.json)
    if not invocation.json:
        for part in report.parts:
            if part.advice and part.state is not HealthState.OK:
                say(f"{part.name}: {part.advice}")
    if status := _EXIT[report.state]:
        raise click.exceptions.Exit(status)


def _looked_at(invocation: Invocation) -> HealthReport:
    with unchecked_database_of(invocation) as opened:
        return check(opened.database, opened.settings)


def _grid(report: HealthReport) -> Grid:
    rows = [(part.name, part.state.value, moment(part.since), part.reason) for part in report.parts]
    return Grid(("PART", "STATE", "SINCE", "REASON"), rows, "No part.", optional=("SINCE",), colour=_colour)


def _colour(row: Sequence[object]) -> str:
    return {HealthState.FAILED.value: "red", HealthState.DEGRADED.value: "yellow"}.get(str(row[1]), "")


class _Part(msgspec.Struct):
    name: str
    state: HealthState
    reason: str
    advice: str
    since: int


class _Answer(msgspec.Struct):
    parts: list[_Part]


def _asked(url: str) -> HealthReport:
    """What a process tells of itself. Anything else than such an answer is no health."""
    place = _readyz(url)
    shown = redact_url(place)
    try:
        told = msgspec.json.decode(_fetched(place), type=_Answer)
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise Unavailable(
            f"{shown} does not answer with its health: {redact_text(str(error))}",
            hint="check that `deltamirror mirror --follow --listen` runs there, and the port",
        ) from error
    return HealthReport(tuple(PartHealth(**msgspec.structs.asdict(part)) for part in told.parts))


def _readyz(url: str) -> str:
    full = url if "://" in url else f"http://{url}"
    parts = urlsplit(full)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise click.UsageError("--url is the address of a process that listens, such as http://127.0.0.1:9180")
    return full if parts.path.strip("/") else f"{full.rstrip('/')}/readyz"


def _fetched(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=_ANSWERS_WITHIN) as response:  # noqa: S310  only http and https
            return bytes(response.read(_LARGEST_ANSWER))
    except urllib.error.HTTPError as error:
        if error.code != 503:  # which is how a process says that it is not well, with the reasons
            raise
        with error:
            return error.read(_LARGEST_ANSWER)
