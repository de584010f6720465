"""The version of the catalog's schema, and the look at it under every lock.

A process of an older release may have the catalog open while a newer one upgrades it: its next commit must not follow
rules that are no longer those of the catalog.
"""

from typing import Final

from sqlalchemy import Text, literal_column, select

from deltamirror.errors import CatalogMismatch
from deltamirror.txnlog.database.schema import catalog

SCHEMA_VERSION: Final = 10
"""What this release reads and writes: one more than there are migrations."""

SCHEMA_KEY: Final = "schema_version"

# A literal, so that statements which contain it take no further value.
STORED_SCHEMA = (
    select(catalog.c.value)
    .where(catalog.c.key == literal_column(f"'{SCHEMA_KEY}'", Text))
    .scalar_subquery()
    .label("schema_version")
)
"""The version that the catalog has, as text."""


def require_schema(stored: str | None) -> None:
    """Refuse to write to a catalog whose schema is not this release's."""
    if stored == str(SCHEMA_VERSION):
        return
    found = int(stored) if stored is not None and stored.isdigit() else 0
    if found > SCHEMA_VERSION:
        raise newer_schema(found)
    what = "no deltamirror catalog" if found == 0 else f"a catalog of schema version {found}"
    raise CatalogMismatch(f"the database holds {what}", hint="run `deltamirror init`")


def newer_schema(found: int) -> CatalogMismatch:
    """The error for a catalog that a later release has upgraded."""
    return CatalogMismatch(
        f"the catalog has schema version {found}; this release of deltamirror knows {SCHEMA_VERSION}",
        hint="upgrade deltamirror, and start this process again",
    )
