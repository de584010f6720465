"""All that is recorded of a table's failures, for the operator who has to act on them."""

from dataclasses import dataclass

from deltamirror.config import Switch
from deltamirror.errors import NotFound
from deltamirror.txnlog.content.superseded import KeptSuperseded, superseded_of
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.escalations import Escalation, escalations_of
from deltamirror.txnlog.queue.status import Attempt, TableStatus, attempts, table_status


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """What failed of a table, or of one version of it."""

    status: TableStatus
    version: int | None
    """None: of all versions."""
    escalations: tuple[Escalation, ...]
    attempts: tuple[Attempt, ...]
    """Those that failed, and those that succeeded after them; the oldest first."""
    superseded: tuple[KeptSuperseded, ...]
    """Versions that adoptions superseded, with those that they have since; or, of one version, what it was before."""


def report_on(database: Database, table: str, version: int | None = None, *, switch: Switch) -> TableReport:
    """All attempts that failed at a table, or at a version of it, with what was escalated."""
    with database.read() as connection:
        status = table_status(connection, table, switch)
        told = TableReport(
            status=status,
            version=version,
            escalations=tuple(escalations_of(connection, status.table_id, version)),
            attempts=tuple(attempts(connection, status.table_id, version)),
            superseded=tuple(superseded_of(connection, status.table_id, version)),
        )
        if version is not None and version > status.head and not (told.escalations or told.attempts or told.superseded):
            raise NotFound(
                f"table {table!r} has no version {version}: its newest is {status.head}",
                hint=f"`deltamirror table history {table}` shows its versions",
                table=table,
                version=version,
            )
    return told
