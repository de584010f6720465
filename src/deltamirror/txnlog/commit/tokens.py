"""Idempotency tokens: a transaction that comes back with its token gets the answer that it got before.

The id of such a transaction follows from its token and content. It is in the commitInfo of its commits, so that one
which a restored database lacks is recognised once its commits are adopted from the log.
"""

import hashlib
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, bindparam, select

from deltamirror.errors import Conflict, TokenReused
from deltamirror.txnlog.commit.request import Committed
from deltamirror.txnlog.content.superseded import txn_token
from deltamirror.txnlog.database.access import Row
from deltamirror.txnlog.database.schema import tables as known_tables
from deltamirror.txnlog.database.schema import tokens
from deltamirror.txnlog.database.schema import versions as known_versions

_C = tokens.c
FIND_TOKEN = select(_C.token, _C.content, _C.txn_id, _C.committed_at, _C.versions).where(
    (_C.token == bindparam("token")) | (_C.token == bindparam("adopted"))
)
"""The answers that a token has: to its use, or to its transaction as it came back from a log."""

_TABLE = select(known_tables.c.created_at, known_tables.c.history_start).where(known_tables.c.name == bindparam("name"))
_TXN_ID = (
    select(known_versions.c.txn_id)
    .join(known_tables, known_tables.c.table_id == known_versions.c.table_id)
    .where(known_tables.c.name == bindparam("name"), known_versions.c.version == bindparam("version"))
)


@dataclass(frozen=True, slots=True)
class TokenUse:
    """A token, and a digest of what it is used for."""

    token: str
    content: bytes

    @property
    def txn_id(self) -> str:
        """The id of the transaction."""
        name = self.token.encode(errors="surrogatepass")
        digest = hashlib.sha256(len(name).to_bytes(8) + name + self.content).digest()
        return str(uuid.UUID(bytes=digest[:16], version=5))

    @property
    def values(self) -> dict[str, Any]:
        """What ``FIND_TOKEN`` is asked with."""
        return {"token": self.token, "adopted": txn_token(self.txn_id)}

    def answer(self, connection: Connection, rows: Sequence[Row], tables: Collection[str]) -> Committed | None:
        """The answer to an earlier use, which ``FIND_TOKEN`` found; ``tables`` are those that are changed now.

        A table that was dropped and created again has nothing of the transaction: that is a conflict, since neither
        the old answer nor another commit is what the token was used for.
        """
        found = {token: (bytes(content), *rest) for token, content, *rest in rows}
        if (used := found.get(self.token)) is not None:
            if used[0] != self.content:
                raise self._reused()
            return self._in_same_tables(connection, *used[1:])
        if (used := found.get(txn_token(self.txn_id))) is not None:
            return self._whole(self._in_same_tables(connection, *used[1:]), tables)
        return None

    def _in_same_tables(self, connection: Connection, txn_id: str, committed_at: int, versions: str) -> Committed:
        committed = _committed(committed_at, versions)
        for name, version in committed.versions.items():
            table = connection.execute(_TABLE, {"name": name}).one_or_none()
            if table is None:
                continue  # dropped: the answer is still true
            if version < table.history_start and committed_at >= table.created_at:
                continue  # pruned: no row says any more which transaction it was, and the table is as old as that
            if connection.execute(_TXN_ID, {"name": name, "version": version}).scalar() != txn_id:
                raise Conflict(
                    f"the token {self.token!r} was used for version {version} of a table {name!r} that was dropped; "
                    "the table that has this name now is another one",
                    hint="to commit to the new table, choose another token",
                    table=name,
                    reason="table-replaced",
                )
        return committed

    def _whole(self, found: Committed, tables: Collection[str]) -> Committed:
        if not (missing := set(tables) - found.versions.keys()):
            return found
        raise Conflict(
            f"the transaction of token {self.token!r} is in the logs of {', '.join(sorted(found.versions))}, "
            f"but not of {', '.join(sorted(missing))}",
            hint="adopt these logs, too; what was never published before the database was restored is gone",
            table=min(missing),
            reason="partly-applied",
        )

    def _reused(self) -> TokenReused:
        return TokenReused(
            f"the token {self.token!r} was used for another transaction",
            hint="a token belongs to one transaction: choose another one",
            token=self.token,
        )


def _committed(committed_at: int, versions: str) -> Committed:
    return Committed(versions=msgspec.json.decode(versions), timestamp=committed_at, already_applied=True)
