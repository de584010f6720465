"""The catalog and the mirror that an invocation leads to.

Apart from the invocation itself, which ``deltamirror --help`` needs: these take the libraries of databases and stores.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from deltamirror.catalog import Catalog
from deltamirror.cli.invocation import Invocation
from deltamirror.config import LiveSettings, Settings
from deltamirror.ops.engine import MirrorEngine
from deltamirror.wiring import open_catalog, open_engine


@contextmanager
def catalog_of(invocation: Invocation) -> Iterator[Catalog]:
    """The catalog, after a look whether its database holds one of this release."""
    with open_catalog(invocation.lasting().settings) as catalog:
        catalog.check()
        yield catalog


@contextmanager
def checked_engine(settings: Settings | LiveSettings) -> Iterator[MirrorEngine]:
    """The mirror of the catalog that settings name, after a look whether its database holds one of this release."""
    with open_engine(settings) as engine:
        engine.check()
        yield engine


@contextmanager
def local_engine(invocation: Invocation) -> Iterator[MirrorEngine]:
    """The mirror without Spark, for what concerns one table or none."""
    settings = invocation.lasting().settings
    with checked_engine(replace(settings, mirror=replace(settings.mirror, runner="local"))) as engine:
        yield engine
