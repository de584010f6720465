"""The mirror's side of a catalog without a mirror: claims, and outcomes as a worker would hand them in."""

from collections.abc import Sequence

from sqlalchemy import update

from deltamirror import Catalog
from deltamirror.errors import DeltaMirrorError, Unavailable
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.database.schema import leases
from deltamirror.txnlog.queue.claims import Claim, claim
from deltamirror.txnlog.queue.outcomes import CommitRecord, Recorded, record_checkpoint, record_commits
from deltamirror.txnlog.queue.status import TableStatus, table_status
from deltamirror.work import CheckpointOutcome, CommitOutcome, Failure, Lane, Lease, Published, Stage

HOUR = 3600.0


def claimed(
    catalog: Catalog,
    *,
    lane: Lane = Lane.COMMITS,
    owner: str = "me",
    seconds: float = HOUR,
    limit: int = 100,
    table_ids: Sequence[int] | None = None,
) -> list[Claim]:
    """The tables that a service gets."""
    return claim(catalog.database, lane=lane, owner=owner, seconds=seconds, limit=limit, table_ids=table_ids)


def end_leases(database: Database) -> None:
    """Let time go by until all leases are over."""
    with database.write() as session:
        session.execute(update(leases).values(expires_at=0))


def published(lease: Lease, *versions: int, checksum: bytes | None = None) -> CommitOutcome:
    """These versions are in the log; version 7 took 7 milliseconds."""
    done = tuple(Published(version=each, already=False, num_bytes=100, milliseconds=each + 0.2) for each in versions)
    return CommitOutcome(table_id=lease.table_id, lease=lease, published=done, checksum=checksum)


def failed(lease: Lease, version: int, *before: int, error: DeltaMirrorError | None = None) -> CommitOutcome:
    """A version could not be put, after others that could."""
    failure = Failure(
        error=error or Unavailable("the store is away"), stage=Stage.PUT, version=version, key=f"{version}"
    )
    done = published(lease, *before).published
    return CommitOutcome(table_id=lease.table_id, lease=lease, published=done, failure=failure)


def record(catalog: Catalog, outcome: CommitOutcome | CheckpointOutcome, *, wait: float = HOUR) -> Recorded:
    """Record an outcome; what failed waits as many times this long as it was tried."""
    if isinstance(outcome, CommitOutcome):
        [recorded] = record_commits(
            catalog.database, [CommitRecord(outcome)], retry=lambda _, attempts: wait * attempts
        )
        return recorded
    return record_checkpoint(catalog.database, outcome, retry=lambda _, attempts: wait * attempts)


def work_on(catalog: Catalog, table: str = "t", *, upto: int | None = None) -> None:
    """Publish a table, as far as its records go."""
    table_id = status_of(catalog, table).table_id
    [found] = claimed(catalog, table_ids=[table_id])
    last = found.head if upto is None else upto
    assert record(catalog, published(found.lease, *range(found.published + 1, last + 1))).held


def write_checkpoint(catalog: Catalog, version: int, *, digest: bytes = b"digest") -> Recorded:
    """Write the checkpoint that the one table waits for, as far as its records go."""
    [found] = claimed(catalog, lane=Lane.CHECKPOINTS)
    assert found.checkpoint == version
    outcome = CheckpointOutcome(
        table_id=found.table_id,
        lease=found.lease,
        version=version,
        name=f"{version:020}.checkpoint.parquet",
        digest=digest,
        num_rows=7,
        num_files=5,
        num_bytes=1234,
        milliseconds=17.4,
    )
    return record(catalog, outcome)


def status_of(catalog: Catalog, table: str = "t") -> TableStatus:
    """How far the mirror of a table is."""
    with catalog.database.read() as connection:
        return table_status(connection, table)
