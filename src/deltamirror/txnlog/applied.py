"""Transactions that are in the log already: applications record their progress with their data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from deltamirror.errors import Conflict
from deltamirror.txnlog.request import Committed
from deltamirror.txnlog.schema import app_transactions, versions

__all__ = ["Progress", "find_applied"]


@dataclass(frozen=True, slots=True)
class Progress:
    """The application versions that a transaction records in one table."""

    table: str
    table_id: int
    app_versions: Mapping[str, int]


def find_applied(connection: Connection, progress: Sequence[Progress]) -> Committed | None:
    """The answer for a transaction all of whose application versions are at or below the latest ones.

    Once it is found, the answer cannot change. A transaction that was applied to some of its tables, and not to
    others, was not this one: that is a conflict.
    """
    recorded = {each.table: _applied_at(connection, each) for each in progress if each.app_versions}
    applied = {name: version for name, version in recorded.items() if version is not None}
    if not applied:
        return None
    if len(applied) < len(recorded):
        missing = ", ".join(sorted(recorded.keys() - applied.keys()))
        raise Conflict(
            f"the application versions of this transaction are recorded in {', '.join(sorted(applied))}, "
            f"but not in {missing}",
            hint="the application committed to these tables apart: compare its versions with `table show`",
            table=min(recorded.keys() - applied.keys()),
            reason="partly-applied",
        )
    return _whole_transaction(connection, progress, applied)


def _applied_at(connection: Connection, progress: Progress) -> int | None:
    """The version that recorded the last of these application versions; None if one of them is missing."""
    found = [_version_of(connection, progress.table_id, *each) for each in progress.app_versions.items()]
    return None if None in found else max(version for version in found if version is not None)


def _version_of(connection: Connection, table_id: int, app_id: str, app_version: int) -> int | None:
    c = app_transactions.c
    mine = (c.table_id == table_id) & (c.app_id == app_id)
    newest = select(c.app_version, c.version).where(mine).order_by(c.version.desc()).limit(1)
    latest = connection.execute(newest).one_or_none()
    if latest is None or latest.app_version < app_version:
        return None
    # A log that was imported may record one application version more than once.
    exact = connection.execute(select(func.min(c.version)).where(mine, c.app_version == app_version)).scalar()
    return int(latest.version if exact is None else exact)


def _whole_transaction(connection: Connection, progress: Sequence[Progress], applied: dict[str, int]) -> Committed:
    ids = {each.table: each.table_id for each in progress}
    name, version = next(iter(applied.items()))
    c = versions.c
    first = connection.execute(select(versions).where(c.table_id == ids[name], c.version == version)).one()
    others = {table: table_id for table, table_id in ids.items() if table not in applied}
    found = dict(applied)
    for table, table_id in others.items():
        query = select(c.version).where(c.table_id == table_id, c.txn_id == first.txn_id)
        if (same := connection.execute(query).scalar()) is not None:
            found[table] = same
    return Committed(versions=found, timestamp=first.committed_at, already_applied=True)
