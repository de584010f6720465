"""Settings become objects here, and nowhere else."""

from deltamirror.catalog import Catalog
from deltamirror.config import Settings
from deltamirror.pipeline.engine import MirrorEngine
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store

__all__ = ["open_catalog", "open_engine", "open_location"]


def open_catalog(settings: Settings) -> Catalog:
    """The catalog that ``settings`` name. It is a context manager; nothing is connected before the first use."""
    return Catalog(settings=settings)


def open_engine(settings: Settings) -> MirrorEngine:
    """The mirror of that catalog. It is a context manager; Spark starts with the first pass."""
    return MirrorEngine(settings=settings)


def open_location(settings: Settings, location: str) -> Store:
    """The store at a location, whether or not a table of the catalog lies there."""
    return store_at(location, settings.storage)
