"""``deltamirror config``: which settings hold, where they come from, and what is wrong with them."""

from collections.abc import Mapping
from dataclasses import replace

import click

from deltamirror.arguments import table_name
from deltamirror.cli.database import database_of
from deltamirror.cli.failure import failure_of, report
from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.output import Grid, Lines, answer, say
from deltamirror.config import Key, Loaded, Secret, Settings, keys, redact_url, settings_for, shown_blocks
from deltamirror.config.overrides import ignored_properties, origins_for
from deltamirror.errors import InvalidSettings
from deltamirror.txnlog.content.state import load_state


@click.group(epilog="Example: deltamirror config check")
def config() -> None:
    """Look at the settings."""


@config.command(epilog="Example: deltamirror config show --json")
@click.option("--table", metavar="NAME", help="The settings as they hold for one table of the catalog.")
@with_invocation
def show(invocation: Invocation, *, table: str | None) -> None:
    """Show every setting, its value, and where the value comes from.

    For one table, its properties and the blocks [[tables]] of the file count, too. Passwords are not shown.
    """
    loaded, ignored = invocation.loaded(), list[tuple[str, str]]()
    document: dict[str, object] = {"file": _name(loaded)}
    if table is not None:
        properties = _properties(invocation, table)
        origins = origins_for(loaded, table, properties)
        loaded = replace(loaded, settings=settings_for(loaded.settings, table, properties), origins=origins)
        ignored = list(ignored_properties(properties))
        document |= {"table": table, "ignored": [{"property": name, "expected": kind} for name, kind in ignored]}
    shown = _shown(loaded)
    rows = [(entry["key"], _in_a_row(entry["value"]), entry["origin"]) for entry in shown]
    answer({**document, "settings": shown}, Grid(("SETTING", "VALUE", "FROM"), rows, empty=""), json=invocation.json)
    if not invocation.json:
        for name, kind in ignored:
            say(f"the table property {name} is ignored: its value has to be {kind}")


@config.command(epilog="Example: deltamirror config check --config lake.toml")
@with_invocation
def check(invocation: Invocation) -> None:
    """Find everything that is wrong with the settings.

    Each problem is shown with its file and line, or its variable. The database is not asked. Exit status 10 when
    something is wrong.
    """
    loaded, problems = invocation.examined()
    for problem in problems:
        if not invocation.json:
            report(failure_of(problem), json=False)
    if invocation.json or not problems:
        document = {"file": _name(loaded), "problems": [problem.as_json() for problem in problems]}
        answer(document, Lines((f"The settings are good ({_name(loaded) or 'no file'}).",)), json=invocation.json)
    if problems:
        raise click.exceptions.Exit(InvalidSettings.exit_status)


def _properties(invocation: Invocation, table: str) -> Mapping[str, str]:
    with database_of(invocation) as opened:
        return load_state(opened.database, table_name(table)).metadata.configuration


def _in_a_row(value: object) -> object:
    """A value on one line: of blocks, their names."""
    if isinstance(value, list):
        return ", ".join(block["name"] for block in value) or "none"
    return "none" if value is None else value


def _name(loaded: Loaded) -> str | None:
    return None if loaded.file is None else str(loaded.file)


def _shown(loaded: Loaded) -> list[dict[str, object]]:
    return [
        {"key": key.path, "value": _value(loaded.settings, key), "origin": loaded.origins[key.path]}
        for key in keys(Settings)
    ]


def _value(settings: Settings, key: Key) -> object:
    value = getattr(getattr(settings, key.section), key.name)
    if isinstance(value, Secret):
        return str(value)
    if key.blocks is not None:
        return shown_blocks(value)
    # Any other text is no address, nor has it room for a password: the name of a profile or a file.
    return redact_url(value) if isinstance(value, str) and not {":", "="}.isdisjoint(value) else value
