"""Settings become objects here, and nowhere else."""

from deltamirror.catalog import Catalog
from deltamirror.config import Settings

__all__ = ["open_catalog"]


def open_catalog(settings: Settings) -> Catalog:
    """The catalog that ``settings`` name. It is a context manager; nothing is connected before the first use."""
    return Catalog(settings=settings)
