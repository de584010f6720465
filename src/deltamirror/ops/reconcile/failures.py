"""Findings as failures: what is recorded of a commit or checkpoint that is not in the log as it should be."""

from collections.abc import Iterator, Sequence
from typing import Final

from deltamirror.delta.names import commit_key
from deltamirror.errors import Diverged, InvalidLocation, NotFound
from deltamirror.ops.reconcile.examination import Findings
from deltamirror.ops.stored_commits import file_digest
from deltamirror.pipeline.failures.policy import unblock
from deltamirror.storage.store import Obstacle
from deltamirror.txnlog.content.superseded import explained
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.backlog import commit_work
from deltamirror.txnlog.queue.expected_objects import KeptLog
from deltamirror.work import Failure, ObjectDifference, Stage

_NAMED: Final = 3


def gone(log: KeptLog, found: ObjectDifference) -> Failure:
    """An object that was put is not there, or, of a checkpoint, not as it was put."""
    state = "has other bytes" if found.found else "is gone"
    error = NotFound(
        f"{found.key} was put to {log.location}, and {state}",
        hint="it is written again",
        table=log.name,
        version=found.version,
    )
    return Failure(error=error, stage=Stage.VERIFY, version=found.version, key=found.key)


def lost_commits(log: KeptLog, findings: Findings) -> Iterator[Failure]:
    """Commits that were put and are not there; where something else has the name of one, it cannot be put again."""
    blocked = {each.key: each for each in findings.obstacles}
    for each in findings.missing:
        if (obstacle := blocked.get(each.key)) is None:
            yield gone(log, each)
        else:
            error = obstructed(log, [obstacle])
            yield Failure(error=error, stage=Stage.VERIFY, version=each.version, key=each.key)


def place_gone(log: KeptLog) -> Failure:
    """Nothing is at the location of a table that was published there, not even its folder."""
    error = NotFound(
        f"nothing is at {log.location}, where version {log.published} of table {log.name!r} was published",
        hint=f"mount the disk, or bring the bucket back, and `deltamirror repair {log.name}`; where it is lost for "
        f"good, `deltamirror repair {log.name} --begin-anew` writes the log again",
        table=log.name,
        version=log.published,
    )
    key = commit_key(log.published)
    return Failure(error=error, stage=Stage.VERIFY, version=log.published, key=key)


def diverged(database: Database, log: KeptLog, found: ObjectDifference) -> Failure:
    """A commit object has other bytes than SQL, which may have none."""
    with database.read() as connection:
        commits = commit_work(connection, log.table_id, first=found.version, last=found.version)
    digest = file_digest(database, commits[0]) if commits else ""
    has = "has in the database" if commits else "does not have in the database"
    error = Diverged(
        f"{found.key} in {log.location} is {'not the' if commits else 'a'} version {found.version} that table "
        f"{log.name!r} {has}",
        hint=f"`deltamirror report {log.name}` shows more; `deltamirror adopt {log.name}` takes it in, and "
        f"`deltamirror repair {log.name}` ends the quarantine once it is gone or replaced",
        table=log.name,
        version=found.version,
        key=found.key,
        expected=digest,
        found=found.found,
    )
    with database.read() as connection:
        error = explained(connection, log.table_id, error)
    return Failure(error=error, stage=Stage.VERIFY, version=found.version, key=found.key)


def reason(findings: Findings) -> str:
    """Why a table is put into quarantine, in words."""
    late = [each for each in findings.altered if each.version in findings.superseded]
    changed = [each for each in findings.altered if each.version not in findings.superseded]
    told = (
        ("changed after they were published", changed),
        ("superseded versions of ours, which a worker that woke late put there", late),
        ("put there by another writer", findings.foreign),
    )
    return "; ".join(f"{what}: {_keys(found)}" for what, found in told if found)


def not_ours(log: KeptLog, findings: Findings, first: ObjectDifference, *, hint: str) -> Diverged:
    """Why a log is not touched that another writer changed, or wrote to."""
    return Diverged(
        f"the log of table {log.name!r} is not what the database has: {reason(findings)}",
        hint=hint,
        table=log.name,
        version=first.version,
        key=first.key,
        found=first.found,
    )


def obstructed(log: KeptLog, obstacles: Sequence[Obstacle]) -> InvalidLocation:
    """Something is in the place of an object, or cannot be moved out of readers' sight."""
    more = f"; and {len(obstacles) - _NAMED} more" if len(obstacles) > _NAMED else ""
    named = "; ".join(f"{each.key} {each.what}" for each in obstacles[:_NAMED])
    return InvalidLocation(
        f"in the log of table {log.name!r}, {named}{more}",
        hint=unblock(log.name),
        location=log.location,
    )


def _keys(found: Sequence[ObjectDifference]) -> str:
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return ", ".join(each.key for each in found[:_NAMED]) + more
