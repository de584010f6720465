"""What each version of a table did to its rows, for those who follow it version by version."""

from dataclasses import dataclass

from sqlalchemy import select

from deltamirror.delta.actions import Add, Remove
from deltamirror.errors import NotFound
from deltamirror.txnlog.content.chunks import commit_actions
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.database.schema import heads, tables, versions


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChange:
    """What one version did to the rows of its table. Files that were only put together have no part in it."""

    version: int
    changes_metadata: bool
    added: tuple[Add, ...]
    removes_rows: bool
    """Whether rows went, or were rewritten."""


def newest_version(database: Database, table_id: int) -> int | None:
    """The head of a table; None if it is gone."""
    with database.read() as connection:
        return connection.execute(select(heads.c.version).where(heads.c.table_id == table_id)).scalar()


def version_changes(database: Database, table_id: int, first: int, last: int) -> list[VersionChange]:
    """The versions from one to another, in order; NotFound where the log has no commit of the first."""
    c = versions.c
    query = select(c.version, c.commit_id, c.changes_metadata, c.num_added, c.num_removed, c.num_chunks)
    found: list[VersionChange] = []
    with database.read() as connection:
        rows = connection.execute(
            query.where(c.table_id == table_id, c.version.between(first, last)).order_by(c.version)
        ).all()
        oldest = connection.execute(select(tables.c.history_start).where(tables.c.table_id == table_id)).scalar_one()
        if not rows or rows[0].version != first or not rows[0].num_chunks or first < oldest:
            hint = "begin with a later version, or with all rows that the table has"
            raise NotFound(
                f"the catalog has no commit of version {first}, from which the table is to be read: its history begins "
                f"with version {oldest}",
                hint=hint,
            )
        for row in rows:
            added: list[Add] = []
            removes_rows = False
            for action in commit_actions(connection, row.commit_id) if row.num_added or row.num_removed else ():
                if isinstance(action, Add) and action.data_change:
                    added.append(action)
                removes_rows |= isinstance(action, Remove) and action.data_change
            found.append(
                VersionChange(
                    version=row.version,
                    changes_metadata=bool(row.changes_metadata),
                    added=tuple(added),
                    removes_rows=removes_rows,
                )
            )
    return found
