"""Settings become objects here, and nowhere else."""

from deltamirror.catalog import Catalog
from deltamirror.config import Settings
from deltamirror.pipeline.engine import MirrorEngine

__all__ = ["open_catalog", "open_engine"]


def open_catalog(settings: Settings) -> Catalog:
    """The catalog that ``settings`` name. It is a context manager; nothing is connected before the first use."""
    return Catalog(settings=settings)


def open_engine(settings: Settings) -> MirrorEngine:
    """The mirror of that catalog. It is a context manager; Spark starts with the first pass."""
    return MirrorEngine(settings=settings)
