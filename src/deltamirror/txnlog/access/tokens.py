"""Access tokens in SQL: a name, rights, tables and an end; of the token itself only its digest.

A token is ``dm_ID_SECRET``. The id finds the row; the secret has 256 bits of chance, so that its sha256 needs neither
salt nor stretching, and is compared in constant time.
"""

import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import Connection, bindparam, insert, or_, select, update
from sqlalchemy.sql import ColumnElement

from deltamirror.errors import AlreadyExists, InvalidInput, NotFound
from deltamirror.txnlog.access.patterns import TablePattern
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.schema import access_tokens

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,99}")
_TOKEN: Final = re.compile(r"dm_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_UNKNOWN: Final = bytes(32)
"""Compared with where there is no such id, so that the answer takes as long."""


class Right(StrEnum):
    """What a token allows."""

    READ = "read"  # pages and numbers
    OPERATE = "operate"  # pause, resume, repair, silence; and read
    WRITE = "write"  # commit


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    """An access token as the catalog knows it."""

    id: str
    name: str
    rights: tuple[Right, ...]
    tables: TablePattern
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    last_used_at: int | None
    """By the minute or so; None: never."""
    is_live: bool
    """Whether it is neither revoked nor past its end."""

    def allows(self, right: Right) -> bool:
        """Whether this may be done with it; an operator also reads."""
        return right in self.rights or (right is Right.READ and Right.OPERATE in self.rights)


@dataclass(frozen=True, slots=True)
class Issued:
    """A new token. Its text is known here, and nowhere else."""

    token: AccessToken
    text: str


def issue_token(
    database: Database, name: str, *, rights: Iterable[Right], tables: TablePattern, seconds: float | None
) -> Issued:
    """Make a token that lasts for so long; without ``seconds`` until it is revoked."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name!r} is not a name of a token", hint="letters, digits, '_', '-', '.' and '@', such as ci-reader"
        )
    token_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    lasts = None if seconds is None else CLOCK + int(seconds * 1000)
    with database.write() as session:
        if session.execute(_ALL.where(access_tokens.c.name == name, _LIVE)).first() is not None:
            raise AlreadyExists(
                f"there is a token {name!r} already",
                hint=f"choose another name, or revoke it first: `deltamirror token revoke {name}`",
            )
        session.execute(
            insert(access_tokens).values(
                token_id=token_id,
                name=name,
                digest=_digest(secret),
                rights=",".join(right for right in Right if right in set(rights)),
                tables=tables.text,
                created_at=CLOCK,
                expires_at=lasts,
            )
        )
        row = session.execute(_ALL.where(access_tokens.c.token_id == token_id)).mappings().one()
    return Issued(_token(row), f"dm_{token_id}_{secret}")


def revoke_token(database: Database, name: str) -> AccessToken:
    """End a token at once, by its name or its id."""
    with database.write() as session:
        named = or_(access_tokens.c.name == name, access_tokens.c.token_id == name)
        found = session.execute(_ALL.where(named, access_tokens.c.revoked_at.is_(None))).first()
        if found is None:
            raise NotFound(f"there is no token {name!r}", hint="`deltamirror token list` shows all of them")
        own = access_tokens.c.token_id == found.token_id
        session.execute(update(access_tokens).where(own).values(revoked_at=CLOCK))
        return _token(session.execute(_ALL.where(own)).mappings().one())


def all_tokens(connection: Connection) -> list[AccessToken]:
    """All tokens, revoked ones included, by name."""
    ordered = _ALL.order_by(access_tokens.c.name, access_tokens.c.created_at)
    return [_token(row) for row in connection.execute(ordered).mappings()]


def has_tokens(connection: Connection, right: Right) -> bool:
    """Whether any token that can be used allows this."""
    return any(token.is_live and token.allows(right) for token in all_tokens(connection))


def token_by_id(connection: Connection, token_id: str) -> AccessToken | None:
    """A token that can be used; None once it is revoked or past its end."""
    row = connection.execute(_LIVE_BY_ID, {"token_id": token_id}).mappings().first()
    return None if row is None else _token(row)


def verified_token(database: Database, text: str) -> AccessToken | None:
    """The token of this text, if it can be used; None for any other text. Asked with every request of a writer."""
    parts = _TOKEN.fullmatch(text)
    rows = [] if parts is None else database.glance(_LIVE_BY_ID, {"token_id": parts[1]})
    found = dict(zip(_COLUMNS, rows[0], strict=True)) if rows else None
    stored = _UNKNOWN if found is None else bytes(found["digest"])
    is_equal = hmac.compare_digest(stored, _digest(text if parts is None else parts[2]))
    return _token(found) if found is not None and is_equal else None


def touch_token(database: Database, token_id: str) -> None:
    """Write down that a token was used."""
    with database.write() as session:
        own = access_tokens.c.token_id == token_id
        session.execute(update(access_tokens).where(own).values(last_used_at=CLOCK))


def _digest(secret: str) -> bytes:
    return sha256(secret.encode()).digest()


_LIVE: Final[ColumnElement[bool]] = access_tokens.c.revoked_at.is_(None) & or_(
    access_tokens.c.expires_at.is_(None), access_tokens.c.expires_at > CLOCK
)
_ALL: Final = select(access_tokens, _LIVE.label("is_live"))
_COLUMNS: Final = tuple(column.name for column in _ALL.selected_columns)
_LIVE_BY_ID: Final = _ALL.where(access_tokens.c.token_id == bindparam("token_id"), _LIVE)


def _token(row: Mapping[Any, Any]) -> AccessToken:
    return AccessToken(
        id=row["token_id"],
        name=row["name"],
        rights=tuple(Right(right) for right in row["rights"].split(",")),
        tables=TablePattern(row["tables"]),
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
        last_used_at=row["last_used_at"],
        is_live=bool(row["is_live"]),
    )
