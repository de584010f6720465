"""What others committed since a transaction read the table, and whether it may follow them."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec
from sqlalchemy import Connection, select
from sqlalchemy.engine import Row

from deltamirror.delta.conflicts import (
    Adopted,
    CommitFacts,
    ConflictKind,
    ConflictReason,
    IsolationLevel,
    ReadSet,
    adopt,
    concerning,
    find_conflict,
)
from deltamirror.errors import Conflict, NotFound
from deltamirror.txnlog.content.chunks import commit_actions
from deltamirror.txnlog.content.projection import staged_keys
from deltamirror.txnlog.database.schema import versions


@dataclass(frozen=True, slots=True, kw_only=True)
class TableClaim:
    """A transaction's claim on one table: what it did, what it read, and up to which version that was checked."""

    table: str
    table_id: int
    read_version: int
    checked_version: int
    facts: CommitFacts
    reads: ReadSet
    isolation: IsolationLevel
    adopted: Adopted
    stage: int | None = None
    """The commit id of the stage that holds the transaction's files, where they are not among the facts."""

    @property
    def depends_on_files(self) -> bool:
        """Whether it matters which files a winner added or removed."""
        return self.stage is not None or self.reads.reads_anything or bool(self.facts.removed or self.facts.added)


def require_no_conflict(connection: Connection, standing: TableClaim, head: int) -> TableClaim:
    """Hold the transaction against every winner up to ``head``; the standing that it has after them."""
    if head == standing.checked_version:
        return standing
    for version, operation, winner in _winners(connection, standing, head):
        before = standing.adopted
        reason = find_conflict(
            standing.facts,
            standing.reads,
            winner,
            isolation=standing.isolation,
            protocol_before=before.protocol,
            metadata_before=before.metadata,
        ) or _removed_from_stage(connection, standing, winner)
        if reason is not None:
            raise Conflict(
                f"table {standing.table!r} was read at version {standing.read_version}; version {version} "
                f"({operation or 'an unnamed operation'}) came first and conflicts: {reason.detail}",
                hint="read the table again and compute the transaction anew",
                table=standing.table,
                reason=reason.kind.value,
                read_version=standing.read_version,
                actual_version=head,
                winner_version=version,
                winner_operation=operation or "",
            )
        after = adopt(winner, protocol_before=before.protocol, metadata_before=before.metadata)
        enabled = before.row_tracking_enabled or after.row_tracking_enabled
        standing = replace(standing, adopted=replace(after, row_tracking_enabled=enabled))
    return replace(standing, checked_version=head)


def _winners(connection: Connection, standing: TableClaim, head: int) -> Iterator[tuple[int, str | None, CommitFacts]]:
    c = versions.c
    since = (c.table_id == standing.table_id) & (c.version > standing.checked_version) & (c.version <= head)
    rows = connection.execute(select(versions).where(since).order_by(c.version)).all()
    if not rows or rows[0].version != standing.checked_version + 1 or not rows[0].num_chunks:
        raise _pruned(standing, head)
    for row in rows:
        if row.changes_metadata or row.changes_protocol or standing.depends_on_files:
            try:
                actions = commit_actions(connection, row.commit_id)
                written = partial(_written, connection, standing)
                facts = CommitFacts.of(concerning(actions, standing.reads, written))
            except NotFound as error:
                raise _pruned(standing, head) from error
            yield row.version, row.operation, facts
        else:
            yield row.version, row.operation, _facts_without_files(row)


def _pruned(standing: TableClaim, head: int) -> Conflict:
    """For a transaction that is older than the history of its table: nothing says what those commits did."""
    return Conflict(
        f"table {standing.table!r} was read at version {standing.read_version}, and commits after it were pruned",
        hint="read the table again and compute the transaction anew",
        table=standing.table,
        reason="history-pruned",
        read_version=standing.read_version,
        actual_version=head,
    )


def _written(connection: Connection, standing: TableClaim, paths: Collection[str]) -> set[str]:
    """Which of these files the transaction adds or removes; of staged ones, which may be many, the first."""
    facts = standing.facts
    found = {path for path in paths if path in facts.removed or path in facts.added}
    staged = _staged(connection, standing, paths)
    return found | {min(staged)} if staged else found


def _staged(connection: Connection, standing: TableClaim, paths: Collection[str]) -> set[str]:
    """Which of these files are among those that the transaction has staged."""
    if standing.stage is None or not paths:
        return set()
    keys = staged_keys(connection, standing.table_id, standing.stage, list(paths))
    return {path for path, _ in keys}.intersection(paths)


def _removed_from_stage(connection: Connection, standing: TableClaim, winner: CommitFacts) -> ConflictReason | None:
    """The rule that two commits may not remove one file, for files that are staged."""
    if not (shared := _staged(connection, standing, winner.removed.keys())):
        return None
    detail = f"{min(shared)}, which the transaction writes, was removed"
    return ConflictReason(ConflictKind.CONCURRENT_DELETE_DELETE, detail)


def _facts_without_files(row: Row[Any]) -> CommitFacts:
    return CommitFacts(
        domains=frozenset(msgspec.json.decode(row.domains) if row.domains else ()),
        app_ids=frozenset(msgspec.json.decode(row.app_ids) if row.app_ids else ()),
        is_blind_append=row.is_blind_append,
        operation=row.operation,
    )
