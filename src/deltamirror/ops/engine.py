"""``MirrorEngine`` as programs and commands have it: its service compares the logs and evaluates alerts, too."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from deltamirror.ops.alerts.background import AlertWatch
from deltamirror.ops.reconcile.background import BackgroundReconciler
from deltamirror.ops.reconcile.reconciling import Reconciler
from deltamirror.ops.reconcile.table_logs import Logs
from deltamirror.pipeline.run.inspection import LocalInspector
from deltamirror.pipeline.service.engine import PublishingEngine

__all__ = ["MirrorEngine"]


class MirrorEngine(PublishingEngine):
    """Publishes what a catalog's tables committed. Any number of engines share the work, each table at one of them.

    ``url`` goes before the one in ``settings``; without these, those of the command line are in force:
    ``deltamirror.toml``, then the environment. A ``database`` or ``runner`` that is handed in stays the caller's;
    otherwise the engine opens its own, and closes them.
    """

    @contextmanager
    def _beside(self) -> Iterator[None]:
        """What a service does beside publishing: it compares logs and evaluates alerts, if the settings say so."""
        with (
            super()._beside(),
            closing(LocalInspector(self.settings, calls=self.calls)) as inspector,
            Logs(self, inspector) as logs,
            BackgroundReconciler(
                self.database, Reconciler(logs), interval=self.settings.reconcile.interval, ending=self.ending
            ),
            AlertWatch(self.database, lambda: self.settings, ending=self.ending),
        ):
            yield
