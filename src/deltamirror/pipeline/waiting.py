"""Waiting until versions are published, whoever publishes them."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from deltamirror.errors import Late, Unavailable
from deltamirror.txnlog.database import Database
from deltamirror.txnlog.tables import table_info

__all__ = ["wait_until_published"]

_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.5


def wait_until_published(database: Database, versions: Mapping[str, int], *, seconds: float) -> None:
    """Return when all of these versions of tables are in ``_delta_log/``; ``Late`` if that takes longer.

    Between two looks other processes can open a database that serves one at a time: they publish.
    """
    deadline, pause = time.monotonic() + seconds, _FIRST_PAUSE
    while late := _unpublished(database, versions, deadline):
        left = deadline - time.monotonic()
        if left <= 0:
            raise _late(late, seconds)
        time.sleep(min(pause, left))
        pause = min(pause * 2, _LONGEST_PAUSE)


@dataclass(frozen=True, slots=True)
class _Unpublished:
    table: str
    version: int
    unseen: str = ""
    """Why the database could not be asked."""


def _unpublished(database: Database, versions: Mapping[str, int], deadline: float) -> _Unpublished | None:
    try:
        with database.patience(max(0, deadline - time.monotonic())), database.read() as connection:
            for table, version in versions.items():
                published = table_info(connection, table).published
                if published is None or published < version:
                    return _Unpublished(table, version)
        return None
    except Unavailable as error:
        if time.monotonic() < deadline:
            raise
        return _Unpublished(*next(iter(versions.items())), unseen=f": {error.message}")
    finally:
        database.let_go()


def _late(late: _Unpublished, seconds: float) -> Late:
    return Late(
        f"version {late.version} of table {late.table!r} is committed, but was not published within {seconds:g} s"
        f"{late.unseen}",
        hint=f"`deltamirror status {late.table}` shows why; is `deltamirror mirror --follow` running?",
        table=late.table,
        version=late.version,
    )
