"""Versions that leave the history of a table because foreign commits are in the log in their place.

Their bytes stay, and so does the record of them: a worker that wakes late may still put one of them into the log, and a
writer that asks what became of its transaction is told the version that it has since.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.engine import Row

from deltamirror.batches import batched
from deltamirror.errors import Diverged
from deltamirror.txnlog.content.chunks import read_commit
from deltamirror.txnlog.database.access import Session
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.schema import (
    app_transactions,
    checkpoints,
    checksums,
    domains,
    metadata,
    mirror_status,
    protocols,
    superseded,
    tokens,
    versions,
)

_AT_ONCE = 500
_BY_VERSION = (versions, mirror_status, metadata, protocols, app_transactions, domains, checkpoints)


@dataclass(frozen=True, slots=True, kw_only=True)
class Superseded:
    """A version of ours that is no longer part of the history."""

    version: int
    commit_id: int
    committed_at: int
    txn_id: str
    kind: str
    operation: str | None
    num_bytes: int
    num_chunks: int
    digest: bytes
    """The sha256 of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSuperseded:
    """What is kept of a version that an adoption superseded."""

    version: int
    lineage: int
    txn_id: str
    operation: str | None
    superseded_at: int
    new_version: int | None
    reason: str | None


def supersede(session: Session, table_id: int, first: int, *, lineage: int) -> list[Superseded]:
    """Take all versions from ``first`` on out of the history; they are kept under the lineage that they are of."""
    c = versions.c
    rows = session.execute(select(versions).where(c.table_id == table_id, c.version >= first).order_by(c.version)).all()
    taken = [_superseded(session.connection, row) for row in rows]
    if taken:
        clock = session.execute(select(CLOCK)).scalar_one()
        common = {"table_id": table_id, "lineage": lineage, "superseded_at": clock}
        kept = [{**{name: getattr(each, name) for name in Superseded.__slots__}, **common} for each in taken]
        session.execute(insert(superseded), kept)
    for projection in _BY_VERSION:
        session.execute(delete(projection).where(projection.c.table_id == table_id, projection.c.version >= first))
    session.execute(delete(checksums).where(checksums.c.table_id == table_id, checksums.c.version >= first))
    return taken


def _superseded(connection: Connection, row: Row[Any]) -> Superseded:
    digest = bytes(row.digest)
    if row.num_chunks > 1:
        whole = hashlib.sha256()
        for data in read_commit(connection, row.commit_id):
            whole.update(data)
        digest = whole.digest()
    own = {name: getattr(row, name) for name in Superseded.__slots__ if name != "digest"}
    return Superseded(**own, digest=digest)


def moved_to(
    session: Session, table_id: int, commit: Superseded, *, lineage: int, version: int | None, reason: str | None = None
) -> None:
    """Write down which version a superseded commit has since, or why it has none."""
    c = superseded.c
    own = (c.table_id == table_id) & (c.version == commit.version) & (c.lineage == lineage)
    session.execute(update(superseded).where(own).values(new_version=version, reason=reason))


def is_superseded(connection: Connection, table_id: int, version: int, digest: str) -> bool:
    """Whether bytes with this sha256 (hexadecimal) are those that a version of ours had before an adoption."""
    c = superseded.c
    query = select(c.digest).where(c.table_id == table_id, c.version == version)
    return digest in {bytes(found).hex() for found in connection.execute(query).scalars()}


def explained(connection: Connection, table_id: int, error: Diverged) -> Diverged:
    """The error that says so, where what was found in a log is a version of ours that was superseded."""
    if error.version is None or not is_superseded(connection, table_id, error.version, error.found):
        return error
    return replace(
        error,
        message=f"{error.message}: it is one of ours that was superseded, put there by a worker that woke late",
        hint=f"`deltamirror repair {error.table} --replace-altered` saves it aside, and puts what the database has",
        superseded=True,
    )


def superseded_of(connection: Connection, table_id: int, version: int | None = None) -> list[KeptSuperseded]:
    """What adoptions superseded of a table, or of one version of it, oldest first."""
    c = superseded.c
    query = select(*(c[name] for name in KeptSuperseded.__slots__)).where(c.table_id == table_id)
    if version is not None:
        query = query.where((c.version == version) | (c.new_version == version))
    return [KeptSuperseded(**row._asdict()) for row in connection.execute(query.order_by(c.lineage, c.version))]


def txn_id_of(connection: Connection, table_id: int, version: int) -> str | None:
    """The transaction that a version of a table is of, as the history is now; None where there is no such version."""
    c = versions.c
    return connection.execute(select(c.txn_id).where(c.table_id == table_id, c.version == version)).scalar()


def last_superseded(connection: Connection, table_id: int, txn_id: str) -> KeptSuperseded | None:
    """What the newest adoption that superseded a transaction's commit did to it."""
    c = superseded.c
    query = select(*(c[name] for name in KeptSuperseded.__slots__)).where(c.table_id == table_id, c.txn_id == txn_id)
    row = connection.execute(query.order_by(c.lineage.desc()).limit(1)).first()
    return None if row is None else KeptSuperseded(**row._asdict())


def follow_tokens(session: Session, table: str, moved: Mapping[str, int | None]) -> None:
    """Let tokens answer with the versions that their transactions have since; ``moved`` is by transaction.

    A token whose transaction has no version left is forgotten: a writer that comes back with it commits again.
    """
    c = tokens.c
    for some in batched(moved, _AT_ONCE):
        for row in session.execute(select(c.token, c.txn_id, c.versions).where(c.txn_id.in_(some))).all():
            answered: dict[str, int] = msgspec.json.decode(row.versions)
            if table in answered:
                _answer_otherwise(session, row.token, answered, table, moved[row.txn_id])


def _answer_otherwise(session: Session, token: str, answered: dict[str, int], table: str, version: int | None) -> None:
    changed = {name: each for name, each in answered.items() if name != table}
    if version is not None:
        changed = {**answered, table: version}
    own = tokens.c.token == token
    text = msgspec.json.encode(changed).decode()
    session.execute(update(tokens).where(own).values(versions=text) if changed else delete(tokens).where(own))


def txn_token(txn_id: str) -> str:
    """The token under which a transaction is found that came back from a log."""
    return f"txn:{txn_id}"


def note_transactions(session: Session, table: str, adopted: Mapping[str, tuple[int, int]]) -> None:
    """Let transactions be found that came back from a log: their version and time, by the id in their commitInfo."""
    c = tokens.c
    for some in batched(adopted, _AT_ONCE):
        known = c.token.in_([txn_token(txn_id) for txn_id in some])
        found = {row.txn_id: row.versions for row in session.execute(select(c.txn_id, c.versions).where(known))}
        for txn_id in some:
            version, committed_at = adopted[txn_id]
            others: dict[str, int] = msgspec.json.decode(found[txn_id]) if txn_id in found else {}
            text = msgspec.json.encode({**others, table: version}).decode()
            own, answer = txn_token(txn_id), {"versions": text, "committed_at": committed_at}
            if txn_id in found:
                session.execute(update(tokens).where(c.token == own).values(answer))
            else:
                session.execute(insert(tokens).values(token=own, content=b"", txn_id=txn_id, **answer))
