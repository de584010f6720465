"""The health of a process, or of a catalog: all checks, each within its time, and no more often than is of use."""

import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from deltamirror.config import LiveSettings, Settings, redact_text
from deltamirror.errors import DeltaMirrorError
from deltamirror.ops.health.catalog import (
    CatalogFacts,
    CatalogRecords,
    circuit_findings,
    comparison_finding,
    overdue_findings,
    trouble,
)
from deltamirror.ops.health.process import (
    ProcessParts,
    ServiceProgress,
    reconciler_finding,
    settings_finding,
    spark_finding,
)
from deltamirror.ops.health.report import HealthFinding, HealthReport, HealthState, PartHealth, combined
from deltamirror.ops.health.stores import StoreProbes
from deltamirror.pipeline.failures.our_errors import our_error
from deltamirror.storage.calls import StoreCalls
from deltamirror.txnlog.database.access import Database

_HOLDS: Final = 1.0
"""For how many seconds a report is given to all that ask: probes load nothing, however many there are."""

_UNKNOWN: Final = HealthFinding(state=HealthState.DEGRADED, reason="unknown while the database does not answer")


def check(database: Database, settings: Settings) -> HealthReport:
    """The health of a catalog, by its records and its stores, whichever services work on it."""
    return HealthMonitor(database, settings).report()


class HealthMonitor:
    """Checks database, store, progress, reconciler, Spark and settings. Safe to share between threads.

    With ``parts`` it speaks for their process; without, for the catalog: by what all services recorded in SQL.
    """

    def __init__(
        self, database: Database, settings: Settings | LiveSettings, parts: ProcessParts | None = None
    ) -> None:
        self._live, self._parts = LiveSettings.of(settings), parts
        self._calls = StoreCalls()
        lets_go = parts is not None and parts.lets_go
        self._records = CatalogRecords(database, self._live, self._calls, lets_go=lets_go)
        self._probes = StoreProbes(self._live, self._calls)
        self._progress = _service_progress(parts, self._live)
        self._lock = threading.Lock()
        self._report: HealthReport | None = None
        self._until = 0.0

    def report(self) -> HealthReport:
        """The health at this moment, or a moment ago."""
        with self._lock:
            if self._report is None or time.monotonic() >= self._until:
                self._report = self._with_times(self._findings(), self._report)
                self._until = time.monotonic() + _HOLDS
            return self._report

    def _findings(self) -> dict[str, HealthFinding]:
        with ThreadPoolExecutor(1, thread_name_prefix="deltamirror-health") as pool:
            spark = pool.submit(self._spark)
            facts, database = self._asked()
            store = self._store(facts)
            return {
                "database": database,
                "store": store,
                "progress": self._progressing(facts),
                "reconciler": self._reconciling(facts),
                "spark": spark.result(),
                "settings": settings_finding(self._live.state),
            }

    def _asked(self) -> tuple[CatalogFacts | None, HealthFinding]:
        try:
            return self._records.facts(), HealthFinding()
        except DeltaMirrorError as error:
            return None, trouble(error)
        except Exception as error:  # noqa: BLE001  a check never fails as a whole
            return None, trouble(our_error(error))

    def _store(self, facts: CatalogFacts | None) -> HealthFinding:
        circuits = {} if facts is None else facts.circuits
        probed = self._probes.findings(self._records.logs, without=circuits)
        return combined([*circuit_findings(circuits), *probed])

    def _progressing(self, facts: CatalogFacts | None) -> HealthFinding:
        if self._progress is not None:
            return self._progress.finding(None if facts is None else facts.overdue)
        if self._parts is not None:
            return HealthFinding(reason="this process publishes nothing")
        if facts is None:
            return _UNKNOWN
        return combined(overdue_findings(facts.overdue, stalled=self._live.current.health.stalled))

    def _reconciling(self, facts: CatalogFacts | None) -> HealthFinding:
        settings = self._live.current
        stalled = settings.health.stalled
        if self._parts is not None:
            return reconciler_finding(self._parts.reconciler(), stalled=stalled)
        if facts is None:
            return _UNKNOWN
        return comparison_finding(facts.compared, interval=settings.reconcile.interval, stalled=stalled)

    def _spark(self) -> HealthFinding:
        return spark_finding(None if self._parts is None else self._parts.runner, self._live.current, self._calls)

    def _with_times(self, findings: Mapping[str, HealthFinding], before: HealthReport | None) -> HealthReport:
        known = {part.name: part for part in before.parts} if before is not None else {}
        now = int(time.time() * 1000)
        return HealthReport(tuple(_part(name, found, known.get(name), now) for name, found in findings.items()))


def _part(name: str, found: HealthFinding, before: PartHealth | None, now: int) -> PartHealth:
    return PartHealth(
        name=name,
        state=found.state,
        reason=redact_text(found.reason),
        advice=redact_text(found.advice),
        since=before.since if before is not None and before.state is found.state else now,
        restart_cures=found.restart_cures,
    )


def _service_progress(parts: ProcessParts | None, live: LiveSettings) -> ServiceProgress | None:
    if parts is None or parts.progress is None:
        return None
    return ServiceProgress(parts.progress, owner=parts.owner, stalled=lambda: live.current.health.stalled)
