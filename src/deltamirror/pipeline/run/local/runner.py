"""The runner without Spark: threads of this process."""

from collections.abc import Generator, Sequence

from deltamirror.config import LiveSettings, Settings
from deltamirror.pipeline.run.execution import Resources, prefetched
from deltamirror.pipeline.run.local.threads import work_on
from deltamirror.storage.calls import StoreCalls
from deltamirror.txnlog.database.access import Database
from deltamirror.work import Outcome, Unit


class InProcessRunner:
    """Runs units on threads of this process, with its own credentials. Database and ``calls`` stay their owner's."""

    def __init__(
        self, database: Database | None, settings: Settings | LiveSettings, calls: StoreCalls | None = None
    ) -> None:
        self._live = LiveSettings.of(settings)
        self._resources = Resources.with_keys(self._live, database, calls)

    def start(self) -> bool:
        """There is nothing to start: every run has threads of its own."""
        return False

    def is_ready(self) -> bool:
        """It always is."""
        return True

    def run(self, units: Sequence[Unit]) -> Generator[list[Outcome]]:
        """The units, some at once; every call has threads of its own, so that none waits for another's store."""
        resources, threads = self._resources, self._live.current.mirror.threads
        with resources.leases.asked_together(unit.lease for unit in units):
            yield from work_on(prefetched(units, resources), threads=threads, resources=resources)

    def close(self) -> None:
        """Let go of the stores; the database is its owner's to close."""
        self._resources.close_stores()
