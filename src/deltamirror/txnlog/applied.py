"""Transactions that are in the log already: applications record their progress with their data."""

from collections.abc import Sequence

from sqlalchemy import func, select

from deltamirror.errors import Conflict
from deltamirror.txnlog.database import Session
from deltamirror.txnlog.draft import Draft
from deltamirror.txnlog.request import Committed
from deltamirror.txnlog.schema import app_transactions, versions

__all__ = ["find_applied"]


def find_applied(session: Session, drafts: Sequence[Draft]) -> Committed | None:
    """The answer for a transaction all of whose application versions are at or below the latest ones.

    Heads are locked, so the answer cannot change. A transaction that was applied to some of its tables, and not to
    others, was not this one: that is a conflict.
    """
    recorded = {draft.state.name: _applied_at(session, draft) for draft in drafts if draft.app_versions}
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
    return _whole_transaction(session, drafts, applied)


def _applied_at(session: Session, draft: Draft) -> int | None:
    """The version that recorded the last of the draft's application versions; None if one of them is missing."""
    found = [_version_of(session, draft.state.table_id, app, number) for app, number in draft.app_versions.items()]
    return None if None in found else max(version for version in found if version is not None)


def _version_of(session: Session, table_id: int, app_id: str, app_version: int) -> int | None:
    c = app_transactions.c
    mine = (c.table_id == table_id) & (c.app_id == app_id)
    newest = select(c.app_version, c.version).where(mine).order_by(c.version.desc()).limit(1)
    latest = session.execute(newest).one_or_none()
    if latest is None or latest.app_version < app_version:
        return None
    # A log that was imported may record one application version more than once.
    exact = session.execute(select(func.min(c.version)).where(mine, c.app_version == app_version)).scalar()
    return int(latest.version if exact is None else exact)


def _whole_transaction(session: Session, drafts: Sequence[Draft], applied: dict[str, int]) -> Committed:
    ids = {draft.state.name: draft.state.table_id for draft in drafts}
    name, version = next(iter(applied.items()))
    c = versions.c
    first = session.execute(select(versions).where(c.table_id == ids[name], c.version == version)).one()
    others = {table: table_id for table, table_id in ids.items() if table not in applied}
    found = dict(applied)
    for table, table_id in others.items():
        query = select(c.version).where(c.table_id == table_id, c.txn_id == first.txn_id)
        if (same := session.execute(query).scalar()) is not None:
            found[table] = same
    return Committed(versions=found, timestamp=first.committed_at, already_applied=True)
