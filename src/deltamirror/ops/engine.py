"""``MirrorEngine`` as programs and commands have it: its service also compares logs, maintains tables, sends alerts."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from deltamirror.ops.alerts.background import AlertWatch
from deltamirror.ops.health import HealthMonitor, ProcessParts
from deltamirror.ops.maintenance.background import BackgroundMaintenance
from deltamirror.ops.monitoring.collector import exported
from deltamirror.ops.reconcile.background import BackgroundReconciler
from deltamirror.ops.reconcile.reconciling import Reconciler
from deltamirror.ops.reconcile.table_logs import Logs
from deltamirror.pipeline.run.inspection import LocalInspector
from deltamirror.pipeline.service.engine import PublishingEngine


class MirrorEngine(PublishingEngine):
    """Publishes what a catalog's tables committed. Any number of engines share the work, each table at one of them.

    ``url`` goes before the one in ``settings``; without these, those of the command line are in force:
    ``deltamirror.toml``, then the environment. A ``database`` or ``runner`` that is handed in stays the caller's;
    otherwise the engine opens its own, and closes them.
    """

    reconciler: BackgroundReconciler | None = None
    """What compares the logs beside a service that runs."""

    def monitor(self) -> HealthMonitor:
        """The health of this engine's process."""
        parts = ProcessParts(
            owner=self.owner,
            progress=self.progress,
            reconciler=lambda: self.reconciler,
            runner=self.runner,
        )
        return HealthMonitor(self.database, self.live, parts)

    @contextmanager
    def _beside(self) -> Iterator[None]:
        """What a service does beside publishing: comparing logs, maintenance, alerts, and its state as metrics."""
        with (
            super()._beside(),
            exported(self.database, self.live),
            closing(LocalInspector(self.live, calls=self.calls)) as inspector,
            Logs(self, inspector) as logs,
            BackgroundReconciler(
                self.database, Reconciler(logs), live=self.live, ending=self.ending
            ) as self.reconciler,
            BackgroundMaintenance(
                self.database,
                self.live,
                self.runner,
                owner=self.owner,
                breakers=self.breakers,
                ending=self.ending,
            ),
            AlertWatch(self.database, self.live, ending=self.ending),
        ):
            yield
