"""Findings as failures: what is recorded of a commit or checkpoint that is not in the log as it should be."""

from collections.abc import Sequence
from typing import Final

from deltamirror.errors import Diverged, NotFound
from deltamirror.ops.stored import file_digest
from deltamirror.txnlog.backlog import commit_work
from deltamirror.txnlog.database import Database
from deltamirror.txnlog.kept import KeptLog
from deltamirror.work import Difference, Failure, Stage

__all__ = ["diverged", "gone", "reason"]

_NAMED: Final = 3


def gone(log: KeptLog, lost: Difference) -> Failure:
    """An object that was put is not there, or, of a checkpoint, not as it was put."""
    state = "has other bytes" if lost.found else "is gone"
    error = NotFound(
        f"{lost.key} was put to {log.location}, and {state}",
        hint="it is written again",
        table=log.name,
        version=lost.version,
    )
    return Failure(error=error, stage=Stage.VERIFY, version=lost.version, key=lost.key)


def diverged(database: Database, log: KeptLog, found: Difference) -> Failure:
    """A commit object has other bytes than SQL."""
    with database.read() as connection:
        commits = commit_work(connection, log.table_id, first=found.version, last=found.version)
    error = Diverged(
        f"{found.key} in {log.location} is not the version {found.version} that table {log.name!r} has in the database",
        hint=f"`deltamirror report {log.name}` shows more; `deltamirror repair {log.name}` ends the quarantine",
        table=log.name,
        version=found.version,
        key=found.key,
        expected=file_digest(database, commits[0]) if commits else "",
        found=found.found,
    )
    return Failure(error=error, stage=Stage.VERIFY, version=found.version, key=found.key)


def reason(*, altered: Sequence[Difference], foreign: Sequence[Difference]) -> str:
    """Why a table is put into quarantine, in words."""
    changed = f"changed after they were published: {_keys(altered)}" if altered else ""
    theirs = f"put there by somebody else: {_keys(foreign)}" if foreign else ""
    return "; ".join(each for each in (changed, theirs) if each)


def _keys(found: Sequence[Difference]) -> str:
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return ", ".join(each.key for each in found[:_NAMED]) + more
