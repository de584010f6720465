"""Waiting until versions are published, by this process or another one."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deltamirror.errors import Conflict, Late, Unavailable
from deltamirror.txnlog.content.superseded import KeptSuperseded, last_superseded, txn_id_of
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.tables.registry import table_info

_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.5


@dataclass(slots=True)
class _Awaited:
    table: str
    version: int
    txn_id: str | None = None
    """Whose version it was when it was first seen."""

    def follow(self, moved: KeptSuperseded) -> None:
        """Wait for the version that an adoption gave the transaction."""
        if moved.new_version is None:
            raise Conflict(
                f"version {self.version} of table {self.table!r} was dropped when foreign commits were adopted: "
                f"{moved.reason}",
                hint="read the table again, and compute the transaction anew",
                table=self.table,
                reason="log-adopted",
            )
        self.version = moved.new_version


def wait_until_published(database: Database, versions: Mapping[str, int], *, seconds: float) -> dict[str, int]:
    """Return when all of these versions of tables are in ``_delta_log/``; ``Late`` if that takes longer.

    It returns the versions that their transactions have by then: an adoption may move a commit meanwhile, or
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
    late = None
    try:
        with database.patience(max(0, deadline - time.monotonic())), database.read() as connection:
            for each in awaited:
                info = table_info(connection, each.table)
                holder = txn_id_of(connection, info.id, each.version)
                if each.txn_id is None:
                    each.txn_id = holder
                elif each.txn_id != holder and (moved := last_superseded(connection, info.id, each.txn_id)):
                    each.follow(moved)
                if info.published is None or info.published < each.version:
                    late = late or _Unpublished(each.table, each.version)
        return late
    except Unavailable as error:
        if time.monotonic() < deadline:
            raise
        return _Unpublished(awaited[0].table, awaited[0].version, unseen=f": {error.message}")
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
