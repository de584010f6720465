"""``deltamirror alert``: which alerts fire, whether channels work, and silences."""

import getpass
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

import click

from deltamirror.cli.database import database_of
from deltamirror.cli.failure import one_line
from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.output import Grid, Lines, answer, counted, moment, say
from deltamirror.cli.parameters import not_empty, span
from deltamirror.errors import NotFound
from deltamirror.ops.alerts.delivery import send_within
from deltamirror.ops.alerts.messages import trial_message
from deltamirror.ops.alerts.rules import channels_in_force
from deltamirror.ops.alerts.silencing import patterns_of, words_of
from deltamirror.txnlog.alerts import AlertRow, Silence, alerts_now, end_silence, silence, silences
from deltamirror.txnlog.alerts.deliveries import Undelivered, undelivered
from deltamirror.txnlog.alerts.records import AlertState
from deltamirror.txnlog.tables.registry import list_tables


@click.group(epilog="Example: deltamirror alert list")
def alert() -> None:
    """Look at alerts, test channels, and silence what is known."""


@alert.command("list", epilog="Example: deltamirror alert list --all")
@click.option("--all", "all_", is_flag=True, help="Also those that were resolved within the last week.")
@with_invocation
def list_(invocation: Invocation, *, all_: bool) -> None:
    """Show the alerts that fire, or are pending, the silences, and the channels that cannot be reached.

    Services evaluate the rules (`deltamirror mirror --follow`): without one, nothing changes here.
    """
    with database_of(invocation) as opened:
        rows, quiet = alerts_now(opened.database, resolved=all_), silences(opened.database)
        with opened.database.read() as connection:
            failing = undelivered(connection)
    document = {
        "alerts": [{**asdict(row), "silenced": _is_silenced(row, quiet)} for row in rows],
        "silences": [asdict(each) for each in quiet],
        "undelivered": [asdict(each) for each in failing],
    }
    answer(document, _grid(rows, quiet), json=invocation.json)
    if not invocation.json:
        _say_more(quiet, failing)


@alert.command(epilog="Example: deltamirror alert test pager")
@click.argument("channel")
@with_invocation
def test(invocation: Invocation, *, channel: str) -> None:
    """Send a message to CHANNEL, to see whether it arrives.

    The exit status is 0 once the receiver has taken it.
    """
    settings = invocation.loaded().settings
    found = next((each for each in channels_in_force(settings) if each.name == channel), None)
    if found is None:
        known = ", ".join(each.name for each in channels_in_force(settings))
        raise NotFound(f"there is no channel {channel!r}", hint=f"the settings have these: {known}")
    send_within(found, trial_message(int(time.time() * 1000)), seconds=settings.alerts.timeout)
    answer({"channel": channel, "sent": True}, Lines((f"Channel {channel} took the message.",)), json=invocation.json)


@alert.command("silence", epilog="Example: deltamirror alert silence orders --for 2h --reason outage")
@click.argument("target", metavar="RULE|TABLE")
@click.option("--for", "seconds", required=True, callback=span, metavar="TIME", help="How long: 90s, 15m, 2h, 1d.")
@click.option("--reason", required=True, callback=not_empty, metavar="TEXT", help="Why, for the others.")
@click.option("--table", callback=not_empty, metavar="TABLE", help="With a rule: of this table, or pattern, alone.")
@with_invocation
def silence_(invocation: Invocation, *, target: str, seconds: float, reason: str, table: str | None) -> None:
    """Send no notification of a rule, or of a table, for a while.

    RULE and TABLE may be patterns such as `lag-*`. The alerts fire, and are listed, all the same; one that fires still
    when the silence ends is told then.
    """
    with database_of(invocation) as opened:
        with opened.database.read() as connection:
            names = [info.name for info in list_tables(connection)]
        rule, subject = patterns_of(target, table, invocation.loaded().settings, names)
        made = silence(opened.database, seconds=seconds, reason=reason, author=_author(), rule=rule, subject=subject)
    ending = f"`deltamirror alert unsilence {made.silence_id}` ends it"
    said = f"Silenced {words_of(made)} until {moment(made.ends_at)}; {ending}."
    answer(asdict(made), Lines((said,)), json=invocation.json)


@alert.command(epilog="Example: deltamirror alert unsilence 1f0c2a9b")
@click.argument("silence_id", metavar="SILENCE")
@with_invocation
def unsilence(invocation: Invocation, *, silence_id: str) -> None:
    """End a silence before its time.

    `deltamirror alert list` shows the silences with their ids.
    """
    with database_of(invocation) as opened:
        ended = end_silence(opened.database, silence_id)
    answer(asdict(ended), Lines((f"No longer silenced: {words_of(ended)}.",)), json=invocation.json)


def _author() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in containers
        return ""


_COLUMNS: Final = ("RULE", "SUBJECT", "STATE", "SEVERITY", "SINCE", "VERSION", "SILENCED", "CAUSE")
_OPTIONAL: Final = ("SILENCED", "VERSION", "SINCE")


def _grid(rows: Sequence[AlertRow], quiet: Sequence[Silence]) -> Grid:
    shown = [
        (
            row.rule,
            row.subject or row.scope,
            row.state.value,
            row.severity,
            moment(row.since),
            row.version,
            _is_silenced(row, quiet),
            one_line(row.cause),
        )
        for row in rows
    ]
    return Grid(_COLUMNS, shown, "No alert fires.", optional=_OPTIONAL, colour=_colour)


def _colour(row: Sequence[object]) -> str:
    shown = dict(zip(_COLUMNS, row, strict=True))
    return (
        {"critical": "red", "warning": "yellow"}.get(str(shown["SEVERITY"]), "")
        if shown["STATE"] == AlertState.FIRING
        else ""
    )


def _is_silenced(row: AlertRow, quiet: Sequence[Silence]) -> bool:
    return any(each.covers(row.key) for each in quiet)


def _say_more(quiet: Sequence[Silence], failing: Sequence[Undelivered]) -> None:
    for each in quiet:
        by = f" by {each.author}" if each.author else ""
        say(f"silence {each.silence_id}: {words_of(each)} until {moment(each.ends_at)}{by}: {each.reason}")
    for bad in failing:
        say(f"channel {bad.channel}: {counted(bad.attempts, 'attempt')} failed: {one_line(bad.error)}; "
            f"`deltamirror alert test {bad.channel}` tries it")  # fmt: skip
