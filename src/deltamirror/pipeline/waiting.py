"""Waiting until versions are published, whoever publishes them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from deltamirror.errors import Conflict, Late, Unavailable
from deltamirror.txnlog.database import Database
from deltamirror.txnlog.superseding import last_superseded, txn_id_of
from deltamirror.txnlog.tables import table_info

__all__ = ["wait_until_published"]

_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.5


@dataclass(slots=True)
class _Awaited:
    table: str
    version: int
    txn_id: str | None = None
    """Whose version it was when it was first seen."""


def wait_until_published(database: Database, versions: Mapping[str, int], *, seconds: float) -> dict[str, int]:
    """Return when all of these versions of tables are in ``_delta_log/``; ``Late`` if that takes longer.

    What is returned are the versions that their transactions have by then: an adoption may move a commit meanwhile, or
    drop it, which is a ``Conflict``. Between two looks other processes can open a database that serves one at a time:
    they publish.
    """
    awaited = [_Awaited(table, version) for table, version in versions.items()]
    deadline, pause = time.monotonic() + seconds, _FIRST_PAUSE
    while awaited and (late := _unpublished(database, awaited, deadline)):
        left = deadline - time.monotonic()
        if left <= 0:
            raise _late(late, seconds)
        time.sleep(min(pause, left))
        pause = min(pause * 2, _LONGEST_PAUSE)
    return {each.table: each.version for each in awaited}


@dataclass(frozen=True, slots=True)
class _Unpublished:
    table: str
    version: int
    unseen: str = ""
    """Why the database could not be asked."""


def _unpublished(database: Database, awaited: Sequence[_Awaited], deadline: float) -> _Unpublished | None:
    try:
        with database.patience(max(0, deadline - time.monotonic())), database.read() as connection:
            for each in awaited:
                info = table_info(connection, each.table)
                _follow(connection, info.id, each)
                if info.published is None or info.published < each.version:
                    return _Unpublished(each.table, each.version)
        return None
    except Unavailable as error:
        if time.monotonic() < deadline:
            raise
        return _Unpublished(awaited[0].table, awaited[0].version, unseen=f": {error.message}")
    finally:
        database.let_go()


def _follow(connection: Connection, table_id: int, awaited: _Awaited) -> None:
    """Wait for the version that the transaction has since, where an adoption moved it."""
    holder = txn_id_of(connection, table_id, awaited.version)
    if awaited.txn_id is None:
        awaited.txn_id = holder
    if awaited.txn_id is None or holder == awaited.txn_id:
        return
    moved = last_superseded(connection, table_id, awaited.txn_id)
    if moved is None:
        return
    if moved.new_version is None:
        raise Conflict(
            f"version {awaited.version} of table {awaited.table!r} was dropped when commits of somebody else were "
            f"adopted: {moved.reason}",
            hint="read the table again, and compute the transaction anew",
            table=awaited.table,
            reason="log-adopted",
        )
    awaited.version = moved.new_version


def _late(late: _Unpublished, seconds: float) -> Late:
    return Late(
        f"version {late.version} of table {late.table!r} is committed, but was not published within {seconds:g} s"
        f"{late.unseen}",
        hint=f"`deltamirror status {late.table}` shows why; is `deltamirror mirror --follow` running?",
        table=late.table,
        version=late.version,
    )
