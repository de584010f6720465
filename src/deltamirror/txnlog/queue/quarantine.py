"""Quarantine of tables whose log holds foreign or altered commits: no service publishes to them until it is lifted.

Rows are locked in the order head, table: as everywhere.
"""

from sqlalchemy import or_, update

from deltamirror.errors import Diverged
from deltamirror.txnlog.database.access import Session
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.schema import escalations, heads, tables
from deltamirror.txnlog.queue.escalations import open_escalation
from deltamirror.work import Lane


def mark_diverged(session: Session, table_id: int, *, version: int, reason: str) -> bool:
    """Put a table into quarantine: another writer wrote this version of its log.

    The first such version counts. True: this is news, and an operator has to look.
    """
    c = heads.c
    earlier = or_(c.diverged_version.is_(None), c.diverged_version > version)
    session.execute(update(heads).where(c.table_id == table_id, earlier).values(diverged_version=version))
    quarantine(session, table_id, reason=reason)
    return open_escalation(session, table_id, Lane.COMMITS, version, Diverged(reason))


def quarantine(session: Session, table_id: int, *, reason: str) -> None:
    """Let no service publish to a table until it is repaired, or its log adopted. The first reason counts."""
    free = (tables.c.table_id == table_id) & tables.c.quarantined_at.is_(None)
    session.execute(update(tables).where(free).values(quarantined_at=CLOCK, quarantine_reason=reason))


def clear_divergence(session: Session, table_id: int) -> None:
    """The log holds no foreign commit any more."""
    session.execute(update(heads).where(heads.c.table_id == table_id).values(diverged_version=None))
    c = escalations.c
    told = (c.table_id == table_id) & (c.lane == Lane.COMMITS.value) & (c.error_code == Diverged.code)
    session.execute(update(escalations).where(told, c.closed_at.is_(None)).values(closed_at=CLOCK))


def lift_quarantine(session: Session, table_id: int) -> None:
    """Let a table be published to again."""
    own = tables.c.table_id == table_id
    session.execute(update(tables).where(own).values(quarantined_at=None, quarantine_reason=None))
