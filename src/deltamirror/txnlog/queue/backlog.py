"""What the mirror has to do, as the log knows it: commits to publish, and the facts that a checkpoint starts from."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final

from sqlalchemy import Connection, Executable, bindparam, func, select, update
from sqlalchemy.engine import Row
from sqlalchemy.sql import ColumnElement, Select

from deltamirror.batches import batched
from deltamirror.delta import lines
from deltamirror.delta.actions import Action, DomainMetadata, Metadata, Protocol, Txn
from deltamirror.delta.chunks import Chunk, compressed_chunk
from deltamirror.steps import Step
from deltamirror.txnlog.content.chunks import read_chunks
from deltamirror.txnlog.content.projection import ended_by, newest_by_key
from deltamirror.txnlog.content.rows import ADD_COLUMNS, REMOVE_COLUMNS, add_of, remove_of
from deltamirror.txnlog.content.state import in_force
from deltamirror.txnlog.database.access import Database, Session
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.lists import one_of
from deltamirror.txnlog.database.schema import (
    app_transactions,
    checkpoints,
    checksums,
    chunks,
    domains,
    file_ends,
    files,
    mirror_status,
    removes,
    tables,
    versions,
)
from deltamirror.txnlog.database.upsert import upsert
from deltamirror.work import CommitWork, Status

_COMMITS_AT_ONCE = 1_000
_ROWS_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseFacts:
    """An earlier checkpoint of ours, and the metadata that was in force when its version was committed."""

    version: int
    committed_at: int
    name: str
    digest: bytes
    metadata: Metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFacts:
    """What the log knows of a version that is to get a checkpoint."""

    version: int
    committed_at: int
    protocol: Protocol
    metadata: Metadata
    num_files: int
    base: BaseFacts | None
    """The newest earlier checkpoint that another one may build on."""


def commit_work(connection: Connection, table_id: int, *, first: int, last: int) -> list[CommitWork]:
    """The commits from one version to another, in order, without their chunks.

    The first version of an imported table is left out where its log had no commit file of it.
    """
    found = connection.execute(_WITH_FILES, {"of_table": table_id, "first": first, "last": last})
    return [work_of(row) for row in found]


def replay_work(connection: Connection, table_id: int, *, last: int, after: int | None = None) -> list[CommitWork]:
    """What leads to a version, in order, without its chunks: all commits, or those after one.

    A history that does not begin with version 0 begins with its base: the state of the first version that it has.
    """
    oldest = select(tables.c.history_start).where(tables.c.table_id == table_id).scalar_subquery()
    query = WORK.where(_at(table_id), versions.c.version <= last, versions.c.version >= oldest)
    if after is not None:
        query = query.where(versions.c.version > after)
    work = [work_of(row) for row in connection.execute(query)]
    if after is None and work and (work[0].version > 0 or not work[0].num_chunks):
        work[0] = replace(work[0], is_base=True)
    return work


def with_chunks(connection: Connection, work: Sequence[CommitWork]) -> list[CommitWork]:
    """The same commits, carrying their chunks; all of them are in memory at once."""
    carried: dict[int, list[Chunk]] = {each.commit_id: [] for each in work}
    for some in batched((each.commit_id for each in work if not each.is_base), _COMMITS_AT_ONCE):
        for row in connection.execute(_CHUNKS, {"some": some}):
            chunk = Chunk(row.codec, row.raw_bytes, bytes(row.digest), bytes(row.data))
            carried[row.commit_id].append(chunk)
    for each in work:
        if each.is_base:
            carried[each.commit_id] += fetch_chunks(connection, each)
    return [replace(each, chunks=tuple(carried[each.commit_id])) for each in work]


def with_counts(connection: Connection, work: Sequence[CommitWork], *, before: int) -> list[CommitWork]:
    """The same commits, each with how many files its version has; ``before`` is how many there were before the first.

    A commit may add a file that the table has, so that its lines alone do not tell.
    """
    added, ended = numbers_by_commit(connection, _ADDED, work), numbers_by_commit(connection, ENDED_FILES, work)
    changes = (added[each.commit_id] - ended.get(each.commit_id, 0) for each in work)
    totals = accumulate(changes, initial=before)
    next(totals)
    return [replace(each, num_files=total) for each, total in zip(work, totals, strict=True)]


def fetch_chunks(connection: Connection, work: CommitWork) -> Iterator[Chunk]:
    """The chunks of one commit, in order, as they come from the database; of a base, those of its state."""
    if not work.is_base:
        return read_chunks(connection, work.commit_id)
    table_id = select(versions.c.table_id).where(versions.c.commit_id == work.commit_id)
    return _base_chunks(connection, int(connection.execute(table_id).scalar_one()), work.version)


def checkpoint_facts(connection: Connection, table_id: int, version: int) -> CheckpointFacts:
    """What a checkpoint of this version starts from, and has to come to."""
    protocol, metadata = in_force(connection, table_id, version)
    own = {"of_table": table_id, "of_version": version}
    return CheckpointFacts(
        version=version,
        committed_at=int(connection.execute(_COMMITTED_AT, own).scalar_one()),
        protocol=protocol,
        metadata=metadata,
        num_files=count_files(connection, table_id, version),
        base=_base(connection, table_id, version),
    )


def count_files(connection: Connection, table_id: int, version: int) -> int:
    """How many files a version has: those that were added less those that ended, which is cheaper than looking."""
    upto = {"of_table": table_id, "last": version}
    return int(connection.execute(_NUM_ADDED, upto).scalar_one()) - int(
        connection.execute(_NUM_ENDED, upto).scalar_one()
    )


def bytes_since(connection: Connection, table_id: int, after: int, upto: int) -> list[tuple[int, int]]:
    """The versions after one, up to another, each with the bytes of its commit."""
    c = versions.c
    query = select(c.version, c.num_bytes).where(_at(table_id), c.version > after, c.version <= upto)
    return [(row.version, row.num_bytes) for row in connection.execute(query.order_by(c.version))]


def bytes_between(connection: Connection, table_id: int, after: int, upto: int) -> int:
    """How many bytes the commits after a version have, up to another."""
    between = {"of_table": table_id, "after": after, "last": upto}
    return int(connection.execute(_BYTES_BETWEEN, between).scalar_one())


def txn_ids(connection: Connection, table_id: int, *, first: int, last: int) -> dict[int, str]:
    """The transactions of the versions from one to another."""
    query = select(versions.c.version, versions.c.txn_id).where(_at(table_id), versions.c.version.between(first, last))
    return {row.version: row.txn_id for row in connection.execute(query)}


def checksum_seed(connection: Connection, table_id: int, version: int) -> bytes | None:
    """The ``.crc`` of a version, if it is the newest that the mirror computed for the table."""
    found = connection.execute(_CHECKSUM, {"of_table": table_id, "of_version": version}).scalar()
    return None if found is None else bytes(found)


def request_checkpoint(session: Session, table_id: int, version: int, *, reason: str) -> None:
    """Ask for a checkpoint, unless there is one. One that failed is due at once, whatever was planned for it."""
    session.execute(_ASKED, {"of_table": table_id, "of_version": version, "for_reason": reason})


def make_due(database: Database) -> None:
    """Let everything that failed be tried again at once."""
    with database.write(Step.RETRY_NOW) as session:
        for waiting in (mirror_status, checkpoints):
            failed = (waiting.c.state == Status.FAILED) & waiting.c.next_attempt_at.is_not(None)
            session.execute(update(waiting).where(failed).values(next_attempt_at=None))


def numbers_by_commit(connection: Connection, query: Select[Any], work: Sequence[CommitWork]) -> dict[int, int]:
    """A number for each commit, by a query of ``some`` commit ids and their numbers."""
    found: dict[int, int] = {}
    for some in batched((each.commit_id for each in work), _COMMITS_AT_ONCE):
        found.update((row[0], row[1]) for row in connection.execute(query, {"some": some}))
    return found


def _at(table_id: int) -> ColumnElement[bool]:
    return versions.c.table_id == table_id


WORK: Final[Select[Any]] = select(
    versions.c.version,
    versions.c.commit_id,
    versions.c.committed_at,
    versions.c.digest,
    versions.c.num_bytes,
    versions.c.num_chunks,
    versions.c.kind,
).order_by(versions.c.version)
"""What is known of commits without their chunks."""

# The statements of planning, built once: to build one costs several times as much as to run it.
_OF_TABLE: Final[ColumnElement[bool]] = versions.c.table_id == bindparam("of_table")
_UP_TO_LAST: Final[ColumnElement[bool]] = versions.c.version <= bindparam("last")
_FROM_FIRST_TO_LAST: Final[ColumnElement[bool]] = versions.c.version.between(bindparam("first"), bindparam("last"))

_WITH_FILES: Final = WORK.where(_OF_TABLE, _FROM_FIRST_TO_LAST, versions.c.num_chunks > 0)
_CHUNKS: Final = select(chunks).where(one_of(chunks.c.commit_id, "some")).order_by(chunks.c.commit_id, chunks.c.chunk)
_ADDED: Final[Select[Any]] = select(versions.c.commit_id, versions.c.num_added).where(
    one_of(versions.c.commit_id, "some")
)
ENDED_FILES: Final[Select[Any]] = (
    select(file_ends.c.commit_id, func.count())
    .where(one_of(file_ends.c.commit_id, "some"))
    .group_by(file_ends.c.commit_id)
)
_NUM_ADDED: Final = select(func.coalesce(func.sum(versions.c.num_added), 0)).where(_OF_TABLE, _UP_TO_LAST)
_NUM_ENDED: Final = select(func.count()).select_from(
    select(file_ends.c.file_commit_id, file_ends.c.file_ordinal)
    .join(versions, versions.c.commit_id == file_ends.c.commit_id)
    .where(file_ends.c.table_id == bindparam("of_table"), _UP_TO_LAST)
    .distinct()
    .subquery()
)
_BYTES_BETWEEN: Final = select(func.coalesce(func.sum(versions.c.num_bytes), 0)).where(
    _OF_TABLE, versions.c.version > bindparam("after"), _UP_TO_LAST
)
_COMMITTED_AT: Final = select(versions.c.committed_at).where(_OF_TABLE, versions.c.version == bindparam("of_version"))
_CHECKSUM: Final = select(checksums.c.data).where(
    checksums.c.table_id == bindparam("of_table"), checksums.c.version == bindparam("of_version")
)


def _newest_base() -> Select[Any]:
    """One that proved unusable may share its sidecars with all before it: none of these that has some is tried."""
    c = checkpoints.c
    own = (c.table_id == bindparam("of_table")) & (c.version < bindparam("of_version"))
    written, has_sidecars = own & (c.state == Status.SUCCESS), c.name.like("%.json")
    unusable = select(func.max(c.version)).where(written, c.digest.is_(None), has_sidecars).scalar_subquery()
    return (
        select(c.version, c.name, c.digest, versions.c.committed_at)
        .join(versions, (versions.c.table_id == c.table_id) & (versions.c.version == c.version))
        .where(written, c.digest.is_not(None), ~has_sidecars | (c.version > func.coalesce(unusable, -1)))
        .order_by(c.version.desc())
        .limit(1)
    )


def _asked() -> Executable:
    c = checkpoints.c
    asked = upsert(checkpoints).values(
        table_id=bindparam("of_table"),
        version=bindparam("of_version"),
        state=Status.PENDING,
        attempts=0,
        reason=bindparam("for_reason"),
        created_at=CLOCK,
        updated_at=CLOCK,
    )
    again = {"next_attempt_at": None, "updated_at": asked.excluded.updated_at}
    return asked.on_conflict_do_update(
        index_elements=[c.table_id, c.version], set_=again, where=c.state == Status.FAILED
    )


_NEWEST_BASE: Final = _newest_base()
_ASKED: Final = _asked()


def work_of(row: Row[Any]) -> CommitWork:
    """A commit by the columns of ``WORK``."""
    return CommitWork(
        version=row.version,
        commit_id=row.commit_id,
        committed_at=row.committed_at,
        digest=bytes(row.digest),
        num_bytes=row.num_bytes,
        num_chunks=row.num_chunks,
        is_verbatim=row.kind == "verbatim",
    )


def _base(connection: Connection, table_id: int, version: int) -> BaseFacts | None:
    """The newest checkpoint before a version that others build on."""
    row = connection.execute(_NEWEST_BASE, {"of_table": table_id, "of_version": version}).one_or_none()
    if row is None:
        return None
    _, metadata = in_force(connection, table_id, row.version)
    return BaseFacts(
        version=row.version,
        committed_at=row.committed_at,
        name=row.name,
        digest=bytes(row.digest),
        metadata=metadata,
    )


def _base_chunks(connection: Connection, table_id: int, version: int) -> Iterator[Chunk]:
    """The state of the version that a history begins with: protocol, metaData, txn, domainMetadata, remove, add.

    A file that was removed and added again has a line of each, in this order: the last one counts.
    """
    yield _chunk([*in_force(connection, table_id, version), *_named(connection, table_id, version)])
    is_before = (versions.c.table_id == table_id) & (versions.c.version <= version)
    tombstones = (
        select(*REMOVE_COLUMNS)
        .join(versions, versions.c.commit_id == removes.c.commit_id)
        .where(removes.c.table_id == table_id, is_before)
        .order_by(versions.c.version)
    )
    adds = (
        select(*ADD_COLUMNS)
        .join(versions, versions.c.commit_id == files.c.commit_id)
        .where(files.c.table_id == table_id, is_before, ~ended_by(version))
    )
    yield from _files(connection, tombstones, remove_of)
    yield from _files(connection, adds, add_of)


def _named(connection: Connection, table_id: int, version: int) -> Iterator[Action]:
    for row in connection.execute(newest_by_key(app_transactions, "app_id", table_id, version)):
        yield Txn(app_id=row.app_id, version=row.app_version, last_updated=row.last_updated)
    for row in connection.execute(newest_by_key(domains, "domain", table_id, version)):
        yield DomainMetadata(domain=row.domain, configuration=row.configuration, removed=row.removed)


def _files(connection: Connection, query: Select[Any], action_of: Callable[[Row[Any]], Action]) -> Iterator[Chunk]:
    for rows in connection.execute(query.execution_options(yield_per=_ROWS_AT_ONCE)).partitions():
        yield _chunk([action_of(row) for row in rows])


def _chunk(actions: list[Action]) -> Chunk:
    return compressed_chunk(lines.encode_commit(actions))
