"""Pruning histories: versions that logs do not hold any more, and settings do not keep, go from the database, too."""

import logging
from dataclasses import dataclass, replace

from deltamirror.config import LiveSettings, settings_for
from deltamirror.deltalog.checkpoint.state import tombstones_after
from deltamirror.deltalog.retention import DAY, cutoff
from deltamirror.errors import Refused
from deltamirror.pipeline.service.turns import Turns, logged_trouble
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.pruning import FirstKept, History, PruningTurn, first_kept, history_of
from deltamirror.txnlog.tables.registry import TableInfo, table_again, table_info
from deltamirror.work import CheckpointOutcome

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """What pruning the history of a table comes to."""

    table: str
    raised_from: int
    """The oldest version that the catalog has before it."""
    history_start: int
    """And after it."""
    log_start: int
    """The oldest version that the log has to hold: it, and all later ones, stay."""
    cutoff: int
    """The version that was the newest at this time stays, and all later ones."""
    num_files: int = 0
    """How many rows of files were deleted."""


class Pruner:
    """Prunes the histories of tables, in turns with the processes that compare, clean or rebuild their logs."""

    def __init__(self, database: Database, live: LiveSettings, *, turns: Turns) -> None:
        self._database, self._live, self._turns = database, live, turns

    def plan(self, table: str, *, keep: int | None = None) -> Pruning:
        """What would be pruned, with so many milliseconds kept, or as settings say. Nothing is changed."""
        return self._planned(self._known(table).table, keep)[0]

    def prune(self, table: str, *, keep: int | None = None, waits: bool = True) -> Pruning:
        """Prune the history, and what an earlier pruning left behind.

        ``LeaseLost`` if another process has the turn, at once or after waiting for a while; ``Refused`` where neither
        the caller nor the settings say how long versions are kept.
        """
        known = self._known(table)
        self._kept(known, keep)  # Refused before a turn is waited for
        table_id = known.table.id
        with self._turns.at(table_id, table, waits=waits) as lease:
            turn = PruningTurn(self._database, lease, seconds=self._turns.seconds)
            found, first = self._planned(known.table, keep)
            if found.history_start > found.raised_from:
                # A checkpoint that is being built may begin with the first version of the history.
                with self._turns.without_checkpoints(table_id, table, waits=waits):
                    turn.begin(found.history_start)
            return self._carried_out(found, first, turn)

    def prune_after(self, outcome: CheckpointOutcome) -> None:
        """Prune the history of a table that has got a checkpoint, if that is due. Trouble is for the service's log."""
        with logged_trouble(_log, outcome, "the history of table %r is not pruned"):
            if self._is_due(outcome.table):
                _say(self.prune(outcome.table, waits=False))

    def _is_due(self, table: str) -> bool:
        known = self._known(table)
        if self._days(known) is None:
            return False
        found = self.plan(table)
        return known.is_unfinished or found.history_start > found.raised_from

    def _known(self, table: str) -> History:
        with self._database.read() as connection:
            return history_of(connection, table_info(connection, table))

    def _planned(self, table: TableInfo, keep: int | None) -> tuple[Pruning, FirstKept]:
        with self._database.read() as connection:
            known = history_of(connection, table_again(connection, table.id, table.name))
            until = cutoff(known.at, self._kept(known, keep))
            first = first_kept(connection, known.table, cutoff=until)
        found = Pruning(
            table=table.name,
            raised_from=known.table.history_start,
            history_start=first.version,
            log_start=known.table.log_start,
            cutoff=until,
        )
        return found, first

    def _carried_out(self, found: Pruning, first: FirstKept, turn: PruningTurn) -> Pruning:
        """The bytes of commits go last: as long as there are any, the next pruning begins again."""
        deleted = turn.delete_ended_files(first.version)
        expired = tombstones_after(first.metadata, committed_at=first.committed_at)
        turn.delete_tombstones(first.version, expired=expired)
        turn.delete_versions(first.version)
        return replace(found, num_files=deleted)

    def _kept(self, known: History, keep: int | None) -> int:
        """For how many milliseconds versions are kept: as asked for, or as settings say."""
        if keep is not None:
            return keep
        if (days := self._days(known)) is None:
            hint = "say for how long: --keep 90d, or the setting history.keep"
            raise Refused(f"every version of table {known.table.name!r} is kept", hint=hint, table=known.table.name)
        return int(days * DAY)

    def _days(self, known: History) -> float | None:
        own = settings_for(self._live.current, known.table.name, known.metadata.configuration)
        return own.history.keep


def _say(done: Pruning) -> None:
    said = "the history of table %r begins with version %d: earlier ones are pruned"
    fields = {"table": done.table, "version": done.history_start}
    _log.info(said, done.table, done.history_start, extra=fields)
