"""Transactions that are in the log already: applications record their progress with their data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from deltamirror.errors import Conflict
from deltamirror.txnlog.commit.request import Change, Committed
from deltamirror.txnlog.database.schema import app_transactions, versions


@dataclass(frozen=True, slots=True)
class AppProgress:
    """The application versions that a transaction records in one table."""

    table: str
    table_id: int
    app_versions: Mapping[str, int]
    at_version: int | None = None
    """The version that the transaction names for itself: only that one can be it."""
    is_verbatim: bool = False
    """The lines of another writer say what they say."""


def progress_of(change: Change, table_id: int, app_versions: Mapping[str, int]) -> AppProgress:
    """What a change to a table says of applications."""
    return AppProgress(change.table, table_id, app_versions, change.at_version, change.lines is not None)


def find_applied(connection: Connection, progress: Sequence[AppProgress]) -> Committed | None:
    """The answer for a transaction all of whose application versions are at or below the latest ones.

    Once it is found, the answer cannot change. A transaction that was applied to some of its tables, or whose
    applications are not all as far, was not this one: that is a conflict.
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


def require_progress(connection: Connection, progress: Sequence[AppProgress]) -> None:
    """Refuse to record an application version that is not above the latest: its data is in the table."""
    for each in progress:
        if each.is_verbatim or each.at_version is None:  # without a version of its own, find_applied has answered
            continue
        for app_id, app_version in each.app_versions.items():
            if (recorded := _version_of(connection, each.table_id, app_id, app_version)) is not None:
                raise Conflict(
                    f"version {app_version} of the application {app_id!r} is in table {each.table!r} already, as "
                    f"version {recorded}",
                    hint="it cannot become another one: `deltamirror table show` has the latest of each application",
                    table=each.table,
                    reason="already-applied",
                )


def _applied_at(connection: Connection, progress: AppProgress) -> int | None:
    """The version that recorded the last of these application versions; None if none of them is recorded."""
    if progress.at_version is not None:
        return progress.at_version if _is_recorded_in(connection, progress, progress.at_version) else None
    found = {
        app_id: _version_of(connection, progress.table_id, app_id, v) for app_id, v in progress.app_versions.items()
    }
    recorded = {app_id: version for app_id, version in found.items() if version is not None}
    if recorded and len(recorded) < len(found):
        raise Conflict(
            f"table {progress.table!r} has this version, or a later one, of {', '.join(sorted(recorded))} already, "
            f"but not of {', '.join(sorted(found.keys() - recorded.keys()))}",
            hint="commit what is new in a transaction of its own: the rest would be applied twice",
            table=progress.table,
            reason="partly-applied",
        )
    return max(recorded.values()) if recorded else None


def _is_recorded_in(connection: Connection, progress: AppProgress, version: int) -> bool:
    c = app_transactions.c
    own = (c.table_id == progress.table_id) & c.app_id.in_(list(progress.app_versions)) & (c.version == version)
    found = {row.app_id: row.app_version for row in connection.execute(select(c.app_id, c.app_version).where(own))}
    return progress.app_versions.items() <= found.items()


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


def _whole_transaction(connection: Connection, progress: Sequence[AppProgress], applied: dict[str, int]) -> Committed:
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
