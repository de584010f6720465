"""The database of the catalog that an invocation leads to, for commands that only look at it.

Apart from the catalog and the mirror of ``opening``: these take the libraries of stores, rows and Arrow, and the time
to import them.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from deltamirror.cli.invocation import Invocation
from deltamirror.config import Settings, Switch
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.database.migrations import require_current
from deltamirror.txnlog.database.opening import open_database


@dataclass(frozen=True, slots=True)
class CatalogDatabase:
    """A database, and the settings that name it."""

    database: Database
    settings: Settings

    @property
    def switch(self) -> Switch:
        """Which tables the settings switch off."""
        return Switch.of(self.settings)


@contextmanager
def database_of(invocation: Invocation) -> Iterator[CatalogDatabase]:
    """The database, after a look whether it holds a catalog of this release."""
    with unchecked_database_of(invocation) as opened:
        require_current(opened.database)
        yield opened


@contextmanager
def unchecked_database_of(invocation: Invocation) -> Iterator[CatalogDatabase]:
    """The database, to ask whether it answers; nothing is connected before the first use."""
    settings = invocation.lasting().settings
    with closing(open_database(settings.catalog)) as database:
        yield CatalogDatabase(database, settings)
