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
from sqlalchemy import bindparam, select

from deltamirror.errors import Conflict, TokenReused
from deltamirror.txnlog.database import Row
from deltamirror.txnlog.request import Committed
from deltamirror.txnlog.schema import tokens
from deltamirror.txnlog.superseding import txn_token

__all__ = ["FIND_TOKEN", "TokenUse"]

_C = tokens.c
FIND_TOKEN = select(_C.token, _C.content, _C.committed_at, _C.versions).where(
    (_C.token == bindparam("token")) | (_C.token == bindparam("adopted"))
)
"""The answers that a token has: to its use, or to its transaction as it came back from a log."""


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

    def answer(self, rows: Sequence[Row], tables: Collection[str]) -> Committed | None:
        """The answer to an earlier use; ``tables`` are those that the transaction changes."""
        found = {token: (bytes(content), time, text) for token, content, time, text in rows}
        if (used := found.get(self.token)) is not None:
            content, committed_at, versions = used
            if content != self.content:
                raise self._reused()
            return _committed(committed_at, versions)
        if (used := found.get(txn_token(self.txn_id))) is not None:
            return self._whole(_committed(*used[1:]), tables)
        return None

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
