"""Waiting until versions are published, whoever publishes them."""

import time
from collections.abc import Mapping

from deltamirror.errors import Late
from deltamirror.txnlog.database import Database
from deltamirror.txnlog.tables import table_info

__all__ = ["wait_until_published"]

_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.5


def wait_until_published(database: Database, versions: Mapping[str, int], *, seconds: float) -> None:
    """Return when all of these versions of tables are in ``_delta_log/``; ``Late`` if that takes longer."""
    deadline, pause = time.monotonic() + seconds, _FIRST_PAUSE
    while late := _unpublished(database, versions):
        left = deadline - time.monotonic()
        if left <= 0:
            raise _late(*late, seconds)
        time.sleep(min(pause, left))
        pause = min(pause * 2, _LONGEST_PAUSE)


def _unpublished(database: Database, versions: Mapping[str, int]) -> tuple[str, int] | None:
    with database.read() as connection:
        for table, version in versions.items():
            published = table_info(connection, table).published
            if published is None or published < version:
                return table, version
    return None


def _late(table: str, version: int, seconds: float) -> Late:
    return Late(
        f"version {version} of table {table!r} is committed, but was not published within {seconds:g} s",
        hint=f"`deltamirror status {table}` shows why; is `deltamirror mirror --follow` running?",
        table=table,
        version=version,
    )
