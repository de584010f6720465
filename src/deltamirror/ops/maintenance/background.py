"""Maintaining the files of tables beside a service's other work."""

import logging
import time
from contextlib import closing

from deltamirror.catalog import Catalog
from deltamirror.config import LiveSettings
from deltamirror.errors import Conflict, DeltaMirrorError, LeaseLost
from deltamirror.ops.maintenance.chores import ChoreResult, Chores
from deltamirror.ops.maintenance.dues import pause_after
from deltamirror.ops.maintenance.measuring import Measurements
from deltamirror.ops.service_thread import ServiceThread
from deltamirror.pipeline.failures.circuit import Breakers
from deltamirror.pipeline.failures.our_errors import our_error
from deltamirror.pipeline.run.runner import Runner
from deltamirror.pipeline.service.pace import rest_of_share
from deltamirror.pipeline.service.shutdown import Ending
from deltamirror.pipeline.service.turns import Turns
from deltamirror.telemetry import metrics
from deltamirror.telemetry.mentions import Mentions
from deltamirror.telemetry.traces import traced
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.maintenance import MaintainedTable, record_done, record_failure
from deltamirror.work import Chore, Lane, Lease

_log = logging.getLogger(__name__)


class _EndOfServiceError(Exception):
    """The service ends: the chore under way is given up."""


class BackgroundMaintenance(ServiceThread):
    """A thread that optimizes, vacuums and compacts the tables that are due, one at a time. It holds up no publishing.

    Services take turns at a table, and each measures again once it has its turn: no chore is done twice. Its commits
    are ordinary ones: another writer that changes the same files wins, and the chore is tried again later.
    """

    def __init__(
        self, database: Database, live: LiveSettings, runner: Runner, *, owner: str, breakers: Breakers, ending: Ending
    ) -> None:
        super().__init__(live, ending, name="deltamirror-maintenance")
        self._database = database
        self._catalog = Catalog(settings=live, database=database)
        self._measured = Measurements(database, live, breakers)
        self._chores = Chores(self._catalog, runner, proceed=self._proceed)
        self._turns = Turns(database, live, owner=owner, lane=Lane.MAINTENANCE)
        self._mentions = Mentions()

    def work(self) -> None:
        """Round after round."""
        with closing(self._catalog), self._turns:
            while not self._stop.is_set():
                if self._is_woken(self._live.current.maintenance.interval):
                    continue  # settings have changed, or this ends
                try:
                    self._round()
                except BaseException as error:  # noqa: BLE001  a panic of a Rust library, too: this thread has to last
                    ours = our_error(error)
                    level = logging.DEBUG if ours is error else logging.ERROR
                    _log.log(level, "no table is maintained: %s", ours)

    def _round(self) -> None:
        """Maintain each table once that is due, with a rest after each, until settings change or the service ends."""
        for table in self._measured.tables():
            if self._stop.is_set():
                return
            begun = time.monotonic()
            if self._measured.chores_of(table) and self._maintain(table):
                rest = rest_of_share(time.monotonic() - begun, self._live.current.maintenance.share)
                if self._is_woken(rest):
                    return

    def _proceed(self) -> None:
        if self._stop.is_set():
            raise _EndOfServiceError

    @traced()
    def _maintain(self, table: MaintainedTable) -> bool:
        """Do what a table is due for, unless another service has the turn, or had it; whether there was anything."""
        try:
            with self._turns.at(table.table_id, table.name, waits=False) as lease:
                current = self._measured.again(table)
                if current is None:
                    return False
                chores = self._measured.chores_of(current)
                for chore in chores:
                    self._carry_out(chore, current, lease)
                return bool(chores)
        except LeaseLost:
            return False
        except _EndOfServiceError:
            return True

    def _carry_out(self, chore: Chore, table: MaintainedTable, lease: Lease) -> None:
        begun = time.monotonic()
        try:
            done = self._chores.do(chore, table)
        except (LeaseLost, _EndOfServiceError):
            raise
        except Exception as error:  # noqa: BLE001  other tables are maintained nevertheless
            ours = our_error(error)
            metrics.observe_maintenance(chore.value, time.monotonic() - begun, outcome=ours.code)
            self._failed(chore, table, lease, ours)
        else:
            metrics.observe_maintenance(chore.value, time.monotonic() - begun, outcome="done")
            self._succeeded(chore, table, lease, done)

    def _succeeded(self, chore: Chore, table: MaintainedTable, lease: Lease, done: ChoreResult) -> None:
        record_done(
            self._database,
            lease,
            chore,
            seconds=self._turns.seconds,
            version=done.version,
            num_files=done.num_files,
            num_bytes=done.num_bytes,
        )
        self._mentions.is_well((table.table_id, chore))
        said, fields = "%s of table %r: %d files are %s", _fields(table)
        _log.info(said, chore.value, table.name, done.num_files, chore.deed, extra=fields)

    def _failed(self, chore: Chore, table: MaintainedTable, lease: Lease, error: DeltaMirrorError) -> None:
        """Record a failure, and tell of it once; a conflict is nothing to tell of."""
        before = table.records.get(chore)
        attempts = 1 if before is None else before.attempts + 1
        pause = pause_after(attempts)
        record_failure(self._database, lease, chore, error, seconds=self._turns.seconds, attempts=attempts, pause=pause)
        is_news = not isinstance(error, Conflict) and self._mentions.is_news((table.table_id, chore), error.code)
        level = logging.WARNING if is_news else logging.DEBUG
        said, fields = "%s of table %r is tried again in %d s: %s", {**_fields(table), "code": error.code}
        _log.log(level, said, chore.value, table.name, pause, error, extra=fields)


def _fields(table: MaintainedTable) -> dict[str, object]:
    return {"table": table.name, "table_id": table.table_id}
