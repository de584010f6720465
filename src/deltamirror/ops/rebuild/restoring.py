"""The log of a table again in its own place: lost objects are published again, and nothing else is touched."""

from deltamirror.errors import Refused
from deltamirror.ops.rebuild.rebuilding import Rebuilt
from deltamirror.ops.rebuild.target import wanted_versions
from deltamirror.ops.reconcile.examination import Findings, Look
from deltamirror.ops.reconcile.failures import gone, not_ours, place_gone
from deltamirror.ops.reconcile.table_logs import Logs
from deltamirror.txnlog.queue.backlog import commit_work
from deltamirror.txnlog.queue.expected_objects import KeptLog, kept_log, kept_log_again
from deltamirror.txnlog.tables.registry import table_again, table_info


def restore_log(logs: Logs, table: str, *, versions: range | None = None) -> Rebuilt:
    """Publish again what is gone from the log of a table: all, or the commits of ``versions``, and its checkpoints.

    The engine publishes it, as it publishes everything. Other bytes than the database has are ``Diverged``, and so are
    foreign commits; then nothing is changed, neither there nor in the database.
    """
    database = logs.engine.database
    with database.read() as connection:
        log, info = kept_log(connection, table), table_info(connection, table)
    logs.engine.breakers.end_pause(log.location)
    with logs.turn(log, waits=True) as turn:
        with database.read() as connection:
            log, info = kept_log_again(connection, log), table_again(connection, info.id, table)
        wanted = wanted_versions(info, info.location, versions)
        findings = logs.examine(log, Look(full=True))
        if findings.is_place_gone:
            raise place_gone(log).error
        _require_ours(log, findings)
        _require_predecessor(log, findings, wanted[0])
        logs.require_mirrored(table)
        missing = [each for each in findings.missing if each.version in wanted]
        turn.take_back(gone(log, each) for each in missing)
        logs.set_aside(log, findings, turn, waits=True)
        for each in findings.checkpoints:
            turn.take_checkpoint_back(gone(log, each))
        mirrored = logs.engine.mirror_again(log.table_id, table, wanted[-1])
        logs.write_checksums(log, findings)
        turn.end(cursor=log.log_start, full=True)
    with database.read() as connection:
        there = len(commit_work(connection, log.table_id, first=wanted[0], last=wanted[-1]))
    return Rebuilt(
        first=wanted[0],
        last=wanted[-1],
        versions=len(missing),
        already=there - len(missing),
        checkpoint=mirrored.checkpoint,
    )


def _require_ours(log: KeptLog, findings: Findings) -> None:
    for found, command in ((findings.altered, "repair"), (findings.foreign, "adopt")):
        if found:
            hint = (
                f"nothing was changed: `deltamirror report {log.name}` shows more, and "
                f"`deltamirror {command} {log.name}` is for such commits"
            )
            raise not_ours(log, findings, found[0], hint=hint)


def _require_predecessor(log: KeptLog, findings: Findings, first: int) -> None:
    """Refuse to put versions behind a gap: readers would take them for the whole table, or fail."""
    if first - 1 in {each.version for each in findings.missing}:
        raise Refused(
            f"version {first - 1} of table {log.name!r} is gone from its log, too: {first} is not put without it",
            hint=f"`deltamirror rebuild {log.name}` writes all that is gone, in order",
            table=log.name,
        )
