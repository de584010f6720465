"""Reconcilers of test catalogs, with an eye on what they ask of stores."""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from deltamirror import Catalog, MirrorEngine
from deltamirror.config import LiveSettings, ReconcileSettings, Settings
from deltamirror.ops.reconcile.reconciling import Reconciler, Strategy, TableReconciled
from deltamirror.ops.reconcile.table_logs import Logs
from deltamirror.pipeline.run.inspection import LocalInspector
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.clients import Credentials
from deltamirror.storage.open import open_store
from deltamirror.storage.store import Store
from tests.support.logs.commit_units import Calls, watched
from tests.support.mirrors.local import local_settings


def comparing_every(seconds: float) -> LiveSettings:
    """The settings of a background reconciler."""
    return LiveSettings.of(Settings(reconcile=ReconcileSettings(interval=seconds)))


@contextmanager
def reconciling(catalog: Catalog, settings: Settings | None = None, *, sample: int = 5) -> Iterator[MirrorEngine]:
    """An engine on the catalog's own database, whose reconcilers read samples of this size."""
    changed = replace(local_settings(settings), reconcile=ReconcileSettings(sample=sample))
    with MirrorEngine(settings=changed, database=catalog.database) as engine:
        yield engine


class WatchedInspector(LocalInspector):
    """Compares objects of stores that somebody watches."""

    def __init__(self, engine: MirrorEngine) -> None:
        super().__init__(engine.settings, open_store=self._watched)
        self._credentials = Credentials.of(engine.settings.storage)
        self.calls: list[Calls] = []

    def _watched(self, address: StoreAddress) -> Store:
        store, calls = watched(open_store(address, credentials=self._credentials))
        self.calls.append(calls)
        return store

    @property
    def reads(self) -> list[str]:
        """The keys of the objects that were read, or looked at."""
        return [key for calls in self.calls for name, key in calls.made if name in ("read", "read_range", "head")]


@contextmanager
def reconciler_of(engine: MirrorEngine) -> Iterator[tuple[Reconciler, WatchedInspector]]:
    """A reconciler, and what it reads."""
    inspector = WatchedInspector(engine)
    with Logs(engine, inspector) as logs:
        yield Reconciler(logs), inspector


def reconciled(engine: MirrorEngine, strategy: Strategy, table: str = "t") -> tuple[TableReconciled, int]:
    """What came of one table, and how many objects were read for it."""
    with reconciler_of(engine) as (reconciler, inspector):
        [found] = reconciler.run(strategy, [table]).tables
        return found, len(inspector.reads)


def assert_clean(engine: MirrorEngine, table: str) -> None:
    """The whole log is as SQL has it; no more is written than checksums of versions that a job put without one."""
    found, _ = reconciled(engine, Strategy.FULL, table)
    assert found == TableReconciled(table=table, checked=found.checked, repaired=found.repaired), f"{found}"
