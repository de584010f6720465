"""One table of a catalog."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from deltamirror.arguments import flag, number, optional_number, optional_text, text_map, texts
from deltamirror.catalog.alteration import Plan, Wishes, plan_alteration, plan_unfencing
from deltamirror.catalog.files import Files
from deltamirror.catalog.inputs import moment, table_properties
from deltamirror.config import Switch
from deltamirror.delta.actions import Add, Remove
from deltamirror.delta.features import FENCE_FEATURE
from deltamirror.rows.sources import RowData
from deltamirror.txnlog.commit.request import Committed
from deltamirror.txnlog.tables.reading import HistoryEntry, Snapshot, commit_file, history, snapshot
from deltamirror.txnlog.tables.registry import TableInfo, table_info

if TYPE_CHECKING:
    from deltamirror.catalog.catalog import Catalog

__all__ = ["Table"]


class Table:
    """A table by its name. Cheap: it holds no state of its own."""

    def __init__(self, catalog: "Catalog", name: str) -> None:
        self._catalog = catalog
        self.name = name

    def __repr__(self) -> str:
        return f"Table({self.name!r})"

    @property
    def location(self) -> str:
        """Where its data files and its ``_delta_log/`` lie."""
        return self.info().location

    def info(self) -> TableInfo:
        """The table at a glance."""
        with self._catalog.database.read() as connection:
            return table_info(connection, self.name, Switch.of(self._catalog.settings))

    def snapshot(self, version: int | None = None, as_of: int | str | datetime | date | None = None) -> Snapshot:
        """The table at a version, at a time (milliseconds, ISO text, datetime or date), or at its head."""
        exact, time = optional_number(version, "version"), moment(as_of)
        if exact is None and time is None:
            self._catalog.writer.state(self.name)  # files that are added from here on are for the table as it is now
        return snapshot(self._catalog.database, self.name, version=exact, as_of=time)

    def to_arrow(
        self,
        columns: Iterable[str] | str | None = None,
        filter: object = None,  # noqa: A002 - the word of pyarrow
        *,
        version: int | None = None,
        as_of: int | str | datetime | date | None = None,
    ) -> pa.Table:
        """The rows of the table, all in memory; see ``scan``."""
        return self.scan(columns, filter, version=version, as_of=as_of).read_all()

    def scan(
        self,
        columns: Iterable[str] | str | None = None,
        filter: object = None,  # noqa: A002 - the word of pyarrow
        *,
        version: int | None = None,
        as_of: int | str | datetime | date | None = None,
    ) -> pa.RecordBatchReader:
        """The rows of the table, batch by batch, at its head, at a version, or at a time; in no particular order.

        ``filter`` is a condition, as ``"day = '2026-11-16' AND amount > 10"``, or an expression of Arrow. The log is
        not read: SQL says which files there are, and by their statistics, which of them can have such rows.
        """
        return self._catalog.scan_snapshot(self.snapshot(version, as_of), columns, filter)

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """The commits, newest first."""
        return history(self._catalog.database, self.name, limit=optional_number(limit, "limit"))

    def commit_file(self, version: int) -> bytes:
        """The bytes of a commit, as ``_delta_log/`` holds them."""
        return commit_file(self._catalog.database, self.name, number(version, "version"))

    def append(
        self,
        data: Files | RowData,
        *,
        token: str | None = None,
        verify_files: bool = False,
        merge_schema: bool = False,
    ) -> Committed:
        """Add rows, or data files that are there, in a transaction of their own; see ``Transaction.append``."""
        with self._catalog.transaction(token=token) as tx:
            tx.append(self.name, data, verify_files=verify_files, merge_schema=merge_schema)
        return tx.result

    def overwrite(
        self,
        data: RowData,
        *,
        replace_where: str | Mapping[str, object] | None = None,
        dynamic: bool = False,
        merge_schema: bool = False,
        token: str | None = None,
    ) -> Committed:
        """Replace rows, in a transaction of their own; see ``Transaction.overwrite``."""
        with self._catalog.transaction(token=token) as tx:
            tx.overwrite(self.name, data, replace_where=replace_where, dynamic=dynamic, merge_schema=merge_schema)
        return tx.result

    def remove(
        self, files: Iterable[str | Add | Remove] | str | Add | Remove, *, token: str | None = None
    ) -> Committed:
        """Remove data files, in a transaction of their own."""
        with self._catalog.transaction(token=token) as tx:
            tx.remove(self.name, files)
        return tx.result

    def alter(
        self,
        *,
        properties: Mapping[str, str | bool | int] | None = None,
        unset: Sequence[str] | str = (),
        columns: Sequence[str] | str = (),
        drop_columns: Sequence[str] | str = (),
        rename_columns: Mapping[str, str] | None = None,
        change_columns: Mapping[str, str] | None = None,
        enable_column_mapping: bool = False,
        features: Sequence[str] | str = (),
        constraints: Mapping[str, str] | None = None,
        dropped: Sequence[str] | str = (),
        comment: str | None = None,
        rows_checked: bool = False,
    ) -> Committed | None:
        """Change metadata and protocol in one commit; None where the table is so already.

        ``columns`` are definitions of columns to add, at any depth: ``"address.zip string AFTER street"``.
        ``change_columns`` has clauses for each column: ``{"id": "TYPE bigint COMMENT 'key'"}``. Drops come first, then
        renames, changes and additions; drops and renames take column mapping, which ``enable_column_mapping`` begins.
        ``dropped`` names constraints. A constraint is not checked against data files: on a table that has any, the
        caller has to check them, and says so by ``rows_checked``. ``docs/guides/schema.md`` has all of it.
        """
        wishes = Wishes(
            properties=table_properties(properties),
            unset=texts(unset, "unset"),
            columns=texts(columns, "columns"),
            drop_columns=texts(drop_columns, "drop_columns"),
            rename_columns=text_map(rename_columns, "rename_columns"),
            change_columns=text_map(change_columns, "change_columns"),
            enable_column_mapping=flag(enable_column_mapping, "enable_column_mapping"),
            features=texts(features, "features"),
            constraints=text_map(constraints, "constraints"),
            dropped=texts(dropped, "dropped"),
            comment=optional_text(comment, "comment"),
        )
        rows_checked, taken = flag(rows_checked, "rows_checked"), self.snapshot()
        plan = plan_alteration(taken, wishes)
        return self._carry_out(plan, taken, reads=bool(wishes.constraints), rows_checked=rows_checked)

    def fence(self) -> Committed | None:
        """Have other Delta writers refuse the table, in one commit; readers go on. None where they do already."""
        return self.alter(features=[FENCE_FEATURE])

    def unfence(self) -> Committed | None:
        """Let other Delta writers write to the table again, in one commit. None where it has no fence."""
        taken = self.snapshot()
        return self._carry_out(plan_unfencing(taken), taken)

    def _carry_out(
        self, plan: Plan, taken: Snapshot, *, reads: bool = False, rows_checked: bool = False
    ) -> Committed | None:
        if not plan.actions:
            return None
        with self._catalog.transaction(
            operation=plan.operation, parameters=plan.parameters, rows_checked=rows_checked
        ) as tx:
            tx.stage(self.name, plan.actions, read_version=taken.version)
            if reads:
                tx.read(self.name, all=True)
        return tx.result
