"""The row of ``dl_imports``: what an import is of, whose it is, and how far it is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, and_, delete, insert, or_, select, update
from sqlalchemy.engine import Row as ResultRow
from sqlalchemy.sql import ColumnElement

from deltamirror.errors import LeaseLost, Refused
from deltamirror.txnlog.database.access import Session
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.schema import (
    app_transactions,
    chunks,
    domains,
    file_ends,
    files,
    imports,
    metadata,
    mirror_status,
    protocols,
    removes,
    versions,
)
from deltamirror.txnlog.imports.part_rows import ImportProgress, StoredParts
from deltamirror.txnlog.imports.parts import LAST_VERSION, imported_commit_id
from deltamirror.txnlog.tables.registry import fresh_table_id

_ABANDONED_AFTER = 60_000
"""Milliseconds after which an import that was not touched has no owner any more."""

_PROJECTIONS = (
    versions, mirror_status, files, removes, file_ends, metadata, protocols, app_transactions, domains
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What an import is of: two of the same go on where the other was."""

    name: str
    location: str
    first: int
    base: str | None

    @property
    def base_version(self) -> int | None:
        """The version whose state comes from a checkpoint."""
        return None if self.base is None else self.first


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRecord:
    """An import, and its owner."""

    table_id: int
    source: Source
    owner: str

    def move(self, session: Session, before: ImportProgress, after: ImportProgress) -> None:
        """Move on, if the import is ours and where we left it; until the transaction ends no other process gets it."""
        moved = {"next_version": after.next_version, "next_part": after.next_part, "touched_at": CLOCK}
        moving = update(imports).where(self._is_mine(before)).values(moved).returning(imports.c.table_id)
        if session.execute(moving).first() is None:
            raise self.lost()

    def let_go(self, session: Session, at: ImportProgress) -> bool:
        """Delete the row; False if the import is another process's."""
        taken = delete(imports).where(self._is_mine(at)).returning(imports.c.table_id)
        return session.execute(taken).first() is not None

    def lost(self) -> LeaseLost:
        """The error for an owner that is none any more."""
        return LeaseLost(
            f"another process took over the import of {self.source.location}",
            hint="it was untouched for a minute; begin again once the other one has ended",
            table=self.source.name,
        )

    def _is_mine(self, at: ImportProgress) -> ColumnElement[bool]:
        c = imports.c
        return and_(
            c.table_id == self.table_id,
            c.owner == self.owner,
            c.next_version == at.next_version,
            c.next_part == at.next_part,
        )


def claim_import(session: Session, source: Source, *, owner: str, is_gone: Callable[[str], bool]) -> ImportRecord:
    """The record of an import: one that was abandoned, or another. Other records of its location are discarded."""
    found = None
    for row in session.execute(select(imports).where(imports.c.location == source.location)).all():
        free = _is_free(row, owner, gone=is_gone(row.owner))
        if _source(row) == source:
            _take(session, row, owner, free)
            found = row.table_id
        else:
            _discard(session, row, free)
    table_id = _insert(session, source, owner) if found is None else found
    return ImportRecord(table_id=table_id, source=source, owner=owner)


def load_progress(connection: Connection, table_id: int) -> ImportProgress:
    """How far an import is, by what it stored."""
    c = imports.c
    at = connection.execute(select(c.next_version, c.next_part).where(c.table_id == table_id)).one()
    before = (versions.c.table_id == table_id) & (versions.c.version == at.next_version - 1)
    previous = connection.execute(select(versions.c.committed_at).where(before)).scalar_one_or_none()
    return ImportProgress(
        next_version=at.next_version,
        next_part=at.next_part,
        previous=-1 if previous is None else previous,
        tally=_tally(connection, table_id, at.next_version),
    )


def delete_rows(session: Session, table_id: int) -> None:
    """Delete all that an import stored."""
    first, last = (imported_commit_id(table_id, version) for version in (0, LAST_VERSION))
    session.execute(delete(chunks).where(chunks.c.commit_id.between(first, last)))
    for table in _PROJECTIONS:
        session.execute(delete(table).where(table.c.table_id == table_id))


def _insert(session: Session, source: Source, owner: str) -> int:
    table_id = fresh_table_id(session.connection)
    session.execute(
        insert(imports).values(
            table_id=table_id,
            name=source.name,
            location=source.location,
            first_version=source.first,
            base_name=source.base,
            next_version=source.first,
            next_part=0,
            owner=owner,
            started_at=CLOCK,
            touched_at=CLOCK,
        )
    )
    return table_id


def _take(session: Session, row: ResultRow[Any], owner: str, free: ColumnElement[bool]) -> None:
    taking = update(imports).where(free).values(owner=owner, touched_at=CLOCK)
    if session.execute(taking.returning(imports.c.table_id)).first() is None:
        raise _busy(row)


def _discard(session: Session, row: ResultRow[Any], free: ColumnElement[bool]) -> None:
    if session.execute(delete(imports).where(free).returning(imports.c.table_id)).first() is None:
        raise _busy(row)
    delete_rows(session, row.table_id)


def _is_free(row: ResultRow[Any], owner: str, *, gone: bool) -> ColumnElement[bool]:
    """Whether the import has no other owner who may be alive, when that is decided."""
    c = imports.c
    unowned = c.owner == (row.owner if gone else owner)
    return and_(c.table_id == row.table_id, or_(unowned, c.touched_at <= CLOCK - _ABANDONED_AFTER))


def _source(row: ResultRow[Any]) -> Source:
    return Source(name=row.name, location=row.location, first=row.first_version, base=row.base_name)


def _busy(row: ResultRow[Any]) -> Refused:
    return Refused(
        f"{row.location} is being imported by {row.owner}, as {row.name!r}",
        hint="wait until that is complete; an import that died can be taken over a minute later",
        table=row.name,
    )


def _tally(connection: Connection, table_id: int, version: int) -> StoredParts | None:
    own = (versions.c.table_id == table_id) & (versions.c.version == version)
    row = connection.execute(select(versions).where(own)).one_or_none()
    if row is None:
        return None
    of_file = (mirror_status.c.table_id == table_id) & (mirror_status.c.version == version)
    digests = select(chunks.c.digest).where(chunks.c.commit_id == row.commit_id).order_by(chunks.c.chunk)
    return StoredParts(
        version=version,
        committed_at=row.committed_at,
        modified=connection.execute(select(mirror_status.c.published_at).where(of_file)).scalar_one(),
        txn_id=row.txn_id,
        operation=row.operation,
        is_blind_append=row.is_blind_append,
        changes_metadata=row.changes_metadata,
        changes_protocol=row.changes_protocol,
        app_ids=tuple(msgspec.json.decode(row.app_ids or "[]")),
        domains=tuple(msgspec.json.decode(row.domains or "[]")),
        num_lines=row.num_lines,
        num_bytes=row.num_bytes,
        num_added=row.num_added,
        num_removed=row.num_removed,
        digests=tuple(bytes(each) for each in connection.execute(digests).scalars()),
    )
