"""What commands work with, made from settings. The command line constructs none of it elsewhere.

Programs construct a ``Catalog`` and a ``MirrorEngine`` themselves, as the tour shows them; each of the two opens its
own parts: database, writer, runner, stores. Commands that only look at the database open it by ``cli.database``.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from deltamirror.catalog import Catalog
from deltamirror.config import LiveSettings, Settings
from deltamirror.ops.engine import MirrorEngine
from deltamirror.ops.imports.importing import TableImporter
from deltamirror.ops.reconcile.table_logs import Logs
from deltamirror.pipeline.run.opening import open_harvester, open_inspector
from deltamirror.pipeline.service.owners import owner_name
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from deltamirror.txnlog.database.access import Database


def open_catalog(settings: Settings | LiveSettings) -> Catalog:
    """The catalog that ``settings`` name. It is a context manager; nothing is connected before the first use."""
    return Catalog(settings=settings)


def open_engine(settings: Settings | LiveSettings, database: Database | None = None) -> MirrorEngine:
    """The mirror of that catalog. It is a context manager; its service, or the first pass, starts Spark."""
    return MirrorEngine(settings=settings, database=database)


def open_location(settings: Settings, location: str) -> Store:
    """The store at a location, whether or not a table of the catalog lies there."""
    return store_at(location, settings.storage)


@contextmanager
def open_importer(catalog: Catalog, settings: Settings, *, runner: str | None = None) -> Iterator[TableImporter]:
    """What brings tables into the catalog. Without a runner, Spark is started for large logs alone."""
    with closing(open_harvester(settings, runner=runner)) as harvester:
        yield TableImporter(catalog, settings, harvester, owner=owner_name())


@contextmanager
def open_logs(engine: MirrorEngine, *, runner: str = "local") -> Iterator[Logs]:
    """The logs of an engine's tables, to be compared; Spark is started for large ones alone, if it is the runner."""
    inspector = open_inspector(engine.live, runner=runner, calls=engine.calls)
    with closing(inspector), Logs(engine, inspector) as logs:
        yield logs
