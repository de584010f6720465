"""What waits to be published, and what has to be known to plan it: for all tables of a pass by a few queries."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, case, func, select
from sqlalchemy.engine import Row
from sqlalchemy.sql import Select

from deltamirror.txnlog.database.lists import one_of
from deltamirror.txnlog.database.number_rows import number_rows, rows_value
from deltamirror.txnlog.database.schema import (
    checkpoints,
    checksums,
    heads,
    metadata,
    mirror_status,
    tables,
    versions,
)
from deltamirror.txnlog.queue.backlog import ENDED_FILES, WORK, numbers_by_commit, work_of
from deltamirror.txnlog.queue.claims import Claim
from deltamirror.work import CommitWork, Status

_SUMMED_VERSIONS: Final = 1_000
"""Of how many versions the bytes are summed for all tables at once: without checkpoints it would be all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What waits of one table. Line and checksum are as they are stored: one that is damaged is its table's matter."""

    commits: Sequence[CommitWork]
    """From the first unpublished version on, up to the next that is published; without their chunks."""
    changes: Mapping[int, int]
    """By how many files each of them, by its commit id, changes what the table has."""
    follows: bool
    """Whether the log has the version before the first."""
    metadata_version: int
    """The version that the newest metadata is of."""
    metadata_line: str
    last_checkpoint: int | None
    """The newest that was asked for."""
    written_checkpoint: int | None
    """The newest that was written."""
    began_at: int | None
    """When its version was committed, or the first of the log; None where that is not known."""
    bytes_before: int | None
    """How many bytes the published commits since then have; None where these are many."""
    checksum: bytes | None
    """The one of the version before the first, if the mirror computed it."""


def waiting_commits(connection: Connection, claims: Sequence[Claim], *, most: int) -> dict[int, Waiting]:
    """What waits of each claimed table, ``most`` so many versions; tables that are gone are left out."""
    ids = {"table_ids": [claim.table_id for claim in claims]}
    commits, added = _commits(connection, claims, most)
    every = [work for some in commits.values() for work in some]
    ended = numbers_by_commit(connection, ENDED_FILES, every)
    seeds = {row.table_id: row for row in connection.execute(_CHECKSUMS, ids)}
    facts = {row.table_id: row for row in connection.execute(_FACTS, ids)}
    return {
        claim.table_id: Waiting(
            commits=(mine := commits[claim.table_id]),
            changes={each.commit_id: added[each.commit_id] - ended.get(each.commit_id, 0) for each in mine},
            follows=bool(row.has_last) and claim.published >= claim.log_start,
            metadata_version=row.metadata_version,
            metadata_line=row.line,
            last_checkpoint=row.last_checkpoint,
            written_checkpoint=row.written_checkpoint,
            began_at=row.began_at,
            bytes_before=None if row.bytes_before is None else int(row.bytes_before),
            checksum=_checksum_of(seeds.get(claim.table_id), claim.published),
        )
        for claim in claims
        if (row := facts.get(claim.table_id)) is not None
    }


def _commits(
    connection: Connection, claims: Sequence[Claim], most: int
) -> tuple[dict[int, list[CommitWork]], dict[int, int]]:
    """The commits of each table up to the head that was claimed, and how many files each commit adds."""
    commits: dict[int, list[CommitWork]] = defaultdict(list)
    added: dict[int, int] = {}
    next_version = {claim.table_id: claim.published + 1 for claim in claims}
    wanted = (
        (claim.table_id, version)
        for claim in claims
        for version in range(claim.published + 1, min(claim.head, claim.published + most) + 1)
    )
    for row in connection.execute(_COMMITS, {"wanted": rows_value(wanted)}):
        if row.version == next_version[row.table_id]:
            next_version[row.table_id] += 1
            commits[row.table_id].append(work_of(row))
            added[row.commit_id] = row.num_added
    return commits, added


def _checksum_of(row: Row[Any] | None, version: int) -> bytes | None:
    return bytes(row.data) if row is not None and row.version == version else None


def _commits_query() -> Select[Any]:
    """Version by version: how few lie in a range, PostgreSQL does not know, and would begin with the states of all."""
    c, status, wanted = versions.c, mirror_status.c, number_rows("wanted", "table_id", "version")
    own = (status.table_id == c.table_id) & (status.version == c.version)
    return (
        WORK.add_columns(c.table_id, c.num_added)
        .join(wanted, (c.table_id == wanted.c.table_id) & (c.version == wanted.c.version))
        .join(mirror_status, own)
        .where(status.state != Status.SUCCESS)
        .order_by(None)
        .order_by(c.table_id, c.version)
    )


def _facts_query() -> Select[Any]:
    c, last = versions.c, tables.c.published_version
    # Each by itself, by the key: an aggregate of several would read all checkpoints that the tables ever had.
    newest = (
        select(func.max(checkpoints.c.version))
        .where(checkpoints.c.table_id == tables.c.table_id, checkpoints.c.version <= last)
        .correlate(tables)
    )
    asked_for = (
        select(
            tables.c.table_id,
            newest.scalar_subquery().label("version"),
            newest.where(checkpoints.c.state == Status.SUCCESS).scalar_subquery().label("written"),
        )
        .where(one_of(tables.c.table_id, "table_ids"))
        .subquery("asked_for")
    )
    own = c.table_id == tables.c.table_id
    began_at = select(c.committed_at).where(own, c.version == func.coalesce(asked_for.c.version, tables.c.log_start))
    since = (own, c.version > func.coalesce(asked_for.c.version, -1), c.version <= last)
    bytes_before = select(func.coalesce(func.sum(c.num_bytes), 0)).where(*since).scalar_subquery()
    are_few = last - func.coalesce(asked_for.c.version, tables.c.log_start) <= _SUMMED_VERSIONS
    last_commits = select(func.count()).where(own, c.version == last, c.num_chunks > 0)
    return (
        select(
            tables.c.table_id,
            heads.c.metadata_version,
            metadata.c.line,
            asked_for.c.version.label("last_checkpoint"),
            asked_for.c.written.label("written_checkpoint"),
            began_at.scalar_subquery().label("began_at"),
            case((are_few, bytes_before)).label("bytes_before"),
            last_commits.scalar_subquery().label("has_last"),
        )
        .join(heads, heads.c.table_id == tables.c.table_id)
        .join(metadata, (metadata.c.table_id == tables.c.table_id) & (metadata.c.version == heads.c.metadata_version))
        .join(asked_for, asked_for.c.table_id == tables.c.table_id)
        .where(one_of(tables.c.table_id, "table_ids"))
    )


_COMMITS = _commits_query()
_FACTS = _facts_query()
_CHECKSUMS = select(checksums).where(one_of(checksums.c.table_id, "table_ids"))
