"""Repairing the log of one table, because an operator asks for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from deltamirror.ops.reconcile.aside import changing, save
from deltamirror.ops.reconcile.examination import Findings, Look
from deltamirror.ops.reconcile.failures import diverged, gone, lost_commits, not_ours, obstructed, place_gone
from deltamirror.ops.reconcile.table_logs import Logs
from deltamirror.ops.stored_commits import stored_chunks
from deltamirror.publish.assembly import commit_data
from deltamirror.steps import Step
from deltamirror.storage.store import Replaced, Store
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.backlog import commit_work
from deltamirror.txnlog.queue.expected_objects import KeptLog, kept_log
from deltamirror.work import ObjectDifference

_ADOPT: Final = (
    "they are not replaced, since readers may have seen them: `deltamirror adopt {table}` takes them in; or move them "
    "out of the log, and repair again"
)
_REPLACE: Final = "`deltamirror repair {table} --replace-altered` saves them aside, and puts what the database has"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """What a repair came to."""

    table: str
    checked: int
    """How many objects of the log were read."""
    missing: tuple[int, ...]
    """Versions that were gone, and are there again."""
    replaced: tuple[int, ...]
    """Versions that had other bytes, and have their own again."""
    saved: tuple[str, ...]
    """Where the other bytes are kept, and what misled readers."""
    misleading: tuple[str, ...]
    """Objects that readers went by, and that said something else than the database: no reader finds them any more."""
    checkpoints: tuple[int, ...]
    """Checkpoints that were gone or had other bytes, and are written again."""
    checksums: int
    """How many version checksums were missing or said something else, and are written again."""
    published: int
    """The newest version in the log."""


def repair(logs: Logs, table: str, *, replace_altered: bool = False, begin_anew: bool = False) -> Repaired:
    """Compare the whole log of a table, end its quarantine, and publish what is missing, or failed however often.

    A store whose circuit is open is tried at once. An altered commit is replaced only if that is asked for, after its
    bytes were saved aside; otherwise it is ``Diverged``. Foreign commits are never replaced, and ``Diverged``. Then the
    quarantine stays, also where altered commits were replaced, and others are foreign. Checkpoints that are empty, or
    lack parts, are set aside: the operator knows that no other writer is writing one. Where nothing is left at the
    table's location, not even its folder, the log is written again only if it is to ``begin_anew``.
    """
    database = logs.engine.database
    with database.read() as connection:
        log = kept_log(connection, table)
    logs.engine.breakers.end_pause(log.location)
    with logs.turn(log, waits=True) as turn:
        findings = logs.examine(log, Look(full=True, takes_unusable=True))
        if findings.is_place_gone and not begin_anew:
            raise place_gone(log).error
        _require_replaceable(log, findings, replace_altered=replace_altered)
        turn.take_back(diverged(database, log, each) for each in findings.altered)
        saved = [_replace(database, log, logs.store(log), each) for each in findings.altered]
        _require_ours(log, findings)
        turn.take_back(lost_commits(log, findings))
        saved += logs.set_aside(log, findings, turn, waits=True)
        for each in findings.checkpoints:
            turn.take_checkpoint_back(gone(log, each))
        if findings.obstacles:
            raise obstructed(log, findings.obstacles)
        turn.lift_quarantine()
        mirrored = logs.engine.mirror_again(log.table_id, table)
        checksums = logs.write_checksums(log, findings)
        turn.end(cursor=log.log_start, full=True)
    return Repaired(
        table=table,
        checked=findings.checked,
        missing=_versions(findings.missing),
        replaced=_versions(findings.altered),
        saved=tuple(key for key in saved if key),
        misleading=tuple(each.meta.key for each in findings.misleading),
        checkpoints=_versions(findings.checkpoints),
        checksums=checksums,
        published=mirrored.published,
    )


def _require_replaceable(log: KeptLog, findings: Findings, *, replace_altered: bool) -> None:
    if findings.altered and not replace_altered:
        raise not_ours(log, findings, findings.altered[0], hint=_REPLACE.format(table=log.name))


def _require_ours(log: KeptLog, findings: Findings) -> None:
    if findings.foreign:
        raise not_ours(log, findings, findings.foreign[0], hint=_ADOPT.format(table=log.name))


def _replace(database: Database, log: KeptLog, store: Store, altered: ObjectDifference) -> str:
    """Put what the database has in the place of an object, after its bytes were saved; where they are.

    A superseded version beyond the head has no place: it goes.
    """
    found = store.read(altered.key)
    if found is None:
        return ""  # gone since it was compared: the mirror puts it there
    saved = save(store, found)
    with database.read() as connection:
        commits = commit_work(connection, log.table_id, first=altered.version, last=altered.version)
    if not commits:
        with Step.DELETE_ALTERED:
            store.delete([altered.key])
        return saved
    data = commit_data(commits[0], partial(stored_chunks, database), table=log.name)
    with Step.REPLACE_ALTERED:
        put = store.replace(altered.key, data, if_match=found.meta.etag)
    if not isinstance(put, Replaced):
        raise changing(store, altered.key)
    return saved


def _versions(found: Sequence[ObjectDifference]) -> tuple[int, ...]:
    return tuple(sorted(each.version for each in found))
