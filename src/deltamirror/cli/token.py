"""``deltamirror token issue|list|revoke``: who may read, operate and write over HTTP."""

import re
from typing import Final

import click

from deltamirror.cli.database import database_of
from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.output import Grid, Lines, answer, moment
from deltamirror.cli.parameters import names
from deltamirror.txnlog.access.patterns import TablePattern
from deltamirror.txnlog.access.tokens import AccessToken, Right, all_tokens, issue_token, revoke_token

_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_LIFETIME: Final = re.compile(r"([1-9][0-9]{0,5})([smhdw])")


@click.group(epilog="Example: deltamirror token list")
def token() -> None:
    """Issue, list and revoke the tokens of `deltamirror serve`."""


def _lifetime(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """A length of time such as 30d, in seconds; a click callback."""
    if value is None:
        return None
    found = _LIFETIME.fullmatch(value)
    if found is None:
        raise click.BadParameter(f"`{value}` is not a length of time such as 12h or 30d", context, parameter)
    return int(found[1]) * _UNITS[found[2]]


def _rights(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[Right, ...]:
    """Rights by their names; a click callback."""
    asked = names(context, parameter, values)
    if wrong := [each for each in asked if each not in list(Right)]:
        raise click.BadParameter(f"`{wrong[0]}` is none of {', '.join(Right)}", context, parameter)
    return tuple(map(Right, asked))


@token.command(epilog='Example: deltamirror token issue ada --rights operate --tables "sales.*" --expires 30d')
@click.argument("name")
@click.option(
    "--rights",
    callback=_rights,
    multiple=True,
    required=True,
    metavar="RIGHT",
    help="read, operate (pause, resume, repair, silence; and read), write (commit); repeatable.",
)
@click.option("--tables", default="*", show_default=True, metavar="PATTERN", help='Only these tables: "sales.*".')
@click.option("--expires", callback=_lifetime, metavar="TIME", help="How long it lasts: 12h, 30d; otherwise for ever.")
@with_invocation
def issue(invocation: Invocation, *, name: str, rights: tuple[Right, ...], tables: str, expires: int | None) -> None:
    """Make a token, and show it once.

    The catalog keeps a digest of it: who loses the token needs another one.
    """
    pattern = TablePattern(tables)
    with database_of(invocation) as opened:
        issued = issue_token(opened.database, name, rights=rights, tables=pattern, seconds=expires)
    until = "until it is revoked" if issued.token.expires_at is None else f"until {moment(issued.token.expires_at)}"
    what = f"{name} may {', '.join(issued.token.rights)} ({tables}) {until}. The token is shown this once:"
    document = {**_document(issued.token), "token": issued.text}
    answer(document, Lines((what, issued.text)), json=invocation.json)


@token.command("list", epilog="Example: deltamirror token list --json")
@with_invocation
def list_(invocation: Invocation) -> None:
    """List the tokens, with what they allow and when they were last used."""
    with database_of(invocation) as opened, opened.database.read() as connection:
        found = all_tokens(connection)
    columns = ("NAME", "ID", "STATE", "RIGHTS", "TABLES", "EXPIRES", "LAST USED")
    rows = [
        (t.name, t.id, _state(t), ",".join(t.rights), t.tables.text, moment(t.expires_at), moment(t.last_used_at))
        for t in found
    ]
    empty = "No tokens. `deltamirror token issue` makes one."
    answer({"tokens": [_document(each) for each in found]}, Grid(columns, rows, empty), json=invocation.json)


@token.command(epilog="Example: deltamirror token revoke ada")
@click.argument("name")
@with_invocation
def revoke(invocation: Invocation, *, name: str) -> None:
    """End a token, and every session that it signed in.

    NAME is the token's name, or its id.
    """
    with database_of(invocation) as opened:
        revoked = revoke_token(opened.database, name)
    answer(_document(revoked), Lines((f"The token {revoked.name} ({revoked.id}) is revoked.",)), json=invocation.json)


def _state(found: AccessToken) -> str:
    return "live" if found.is_live else "revoked" if found.revoked_at is not None else "expired"


def _document(found: AccessToken) -> dict[str, object]:
    return {
        "name": found.name,
        "id": found.id,
        "state": _state(found),
        "rights": found.rights,
        "tables": found.tables.text,
        "created_at": found.created_at,
        "expires_at": found.expires_at,
        "revoked_at": found.revoked_at,
        "last_used_at": found.last_used_at,
    }
