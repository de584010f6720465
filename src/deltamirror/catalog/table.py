"""One table of a catalog."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltamirror.arguments import (
    flag,
    milliseconds,
    number,
    optional_number,
    optional_text,
    require_function,
    runner_name,
    text_map,
    texts,
)
from deltamirror.catalog.alteration import Plan, Wishes, plan_alteration, plan_unfencing
from deltamirror.catalog.edits import Assignments
from deltamirror.catalog.files import Files
from deltamirror.catalog.inputs import moment, table_properties
from deltamirror.catalog.maintenance.vacuum import Progress, Retain, Vacuum, Vacuumed
from deltamirror.catalog.merges import Delete, Insert, OneOrMore, Update
from deltamirror.config import LiveSettings, Switch
from deltamirror.delta.actions import Add, Remove
from deltamirror.delta.features import FENCE_FEATURE
from deltamirror.pipeline.service.owners import owner_name
from deltamirror.pipeline.service.turns import Turns
from deltamirror.rows.sources import RowData
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.open import Stores
from deltamirror.txnlog.commit.request import Committed
from deltamirror.txnlog.tables.history import HistoryEntry, commit_file, history
from deltamirror.txnlog.tables.reading import Snapshot, head_snapshot, snapshot
from deltamirror.txnlog.tables.registry import TableInfo, require_same, table_again, table_info, table_location

if TYPE_CHECKING:
    from deltamirror.catalog.catalog import Catalog


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
        return table_location(self._catalog.database, self.name)

    def info(self) -> TableInfo:
        """The table at a glance."""
        with self._catalog.database.read() as connection:
            return table_info(connection, self.name, Switch.of(self._catalog.settings))

    def snapshot(self, version: int | None = None, as_of: int | str | datetime | date | None = None) -> Snapshot:
        """The table at a version, at a time (milliseconds, ISO text, datetime or date), or at its head."""
        exact, time = optional_number(version, "version"), moment(as_of)
        if exact is None and time is None:
            # Files that are added from here on are for the table as it is now.
            return head_snapshot(self._catalog.database, self._catalog.writer.state(self.name))
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

    def to_spark(
        self,
        spark: object,
        columns: Iterable[str] | str | None = None,
        filter: str | None = None,  # noqa: A002 - the word of pyarrow
        *,
        version: int | None = None,
        as_of: int | str | datetime | date | None = None,
    ) -> Any:
        """The rows of the table as a DataFrame of a session, classic or Connect, at its head, a version, or a time.

        SQL says which files there are, and which of them can have rows for ``filter``, a condition as that of ``scan``.
        Spark's own Parquet reader reads them, without Python; files with deletion vectors are read by Python tasks. The
        DataFrame stays at its version, however often it is computed.
        """
        return self._catalog.frame_of_snapshot(spark, self.snapshot(version, as_of), columns, filter)

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
        overwrite_schema: bool = False,
        partition_by: Sequence[str] | str | None = None,
        token: str | None = None,
    ) -> Committed:
        """Replace rows, in a transaction of their own; see ``Transaction.overwrite``."""
        with self._catalog.transaction(token=token) as tx:
            tx.overwrite(
                self.name,
                data,
                replace_where=replace_where,
                dynamic=dynamic,
                merge_schema=merge_schema,
                overwrite_schema=overwrite_schema,
                partition_by=partition_by,
            )
        return tx.result

    def delete(self, where: str | None = None, *, token: str | None = None, spark: object = None) -> Committed:
        """Delete rows, in a transaction of its own; no version is made where no row was found."""
        with self._catalog.transaction(token=token) as tx:
            tx.delete(self.name, where, spark=spark)
        return tx.result

    def update(
        self,
        set: Assignments,  # noqa: A002 - the word of SQL
        where: str | None = None,
        *,
        token: str | None = None,
        spark: object = None,
    ) -> Committed:
        """Update rows, in a transaction of its own; no version is made where no row was found."""
        with self._catalog.transaction(token=token) as tx:
            tx.update(self.name, set, where, spark=spark)
        return tx.result

    def merge(
        self,
        source: RowData,
        on: str | Sequence[str],
        *,
        matched: OneOrMore[Update | Delete] = (),
        not_matched: OneOrMore[Insert] = (),
        not_matched_by_source: OneOrMore[Update | Delete] = (),
        token: str | None = None,
        spark: object = None,
    ) -> Committed:
        """Merge rows, in a transaction of its own; see ``Transaction.merge``."""
        with self._catalog.transaction(token=token) as tx:
            tx.merge(
                self.name,
                source,
                on,
                matched=matched,
                not_matched=not_matched,
                not_matched_by_source=not_matched_by_source,
                spark=spark,
            )
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

    def vacuum(
        self,
        retain: timedelta | float | None = None,
        *,
        dry_run: bool = False,
        retention_check: bool = True,
        progress: Progress | None = None,
    ) -> Vacuumed:
        """Delete data files that no version within retention names; ``dry_run`` only looks for them.

        ``retain`` is how long files stay, in seconds, after a commit removed them; unless it is given,
        ``delta.deletedFileRetentionDuration`` of the table is. Less than that is refused, unless ``retention_check``
        is false: then no reader and no transaction may be at work that takes longer. Older versions cannot be read
        afterwards. ``progress`` is told how many files are deleted, of how many.
        """
        wanted = Retain(
            milliseconds=milliseconds(retain, "retain"), is_checked=flag(retention_check, "retention_check")
        )
        is_dry = flag(dry_run, "dry_run")
        require_function(progress, "progress", hint="give a function of two numbers, or leave it out")
        settings, taken = self._catalog.settings, self.snapshot()
        with self._catalog.database.read() as connection:
            info = table_again(connection, taken.table_id, self.name)
        found = Vacuum(
            info=info,
            metadata=taken.metadata,
            retain=wanted,
            database=self._catalog.database,
            live=LiveSettings.of(settings),
            store=Stores.with_keys(settings).at(StoreAddress.of(info.location, settings.storage)),
            owner=owner_name(),
            record=self._record,
        )
        return found.planned() if is_dry else found.done(progress or _untold)

    def restore(
        self, version: int | None = None, *, as_of: int | str | datetime | date | None = None
    ) -> Committed | None:
        """Bring back a version of the table, or the one of a time, in one commit; None where the table is so already.

        In turns with a vacuum, which cannot delete files meanwhile that this commit needs; see ``Transaction.restore``.
        """
        catalog, info = self._catalog, self.info()
        live = LiveSettings.of(catalog.settings)
        with (
            Turns(catalog.database, live, owner=owner_name()) as turns,
            turns.at(info.id, self.name, waits=True),
            catalog.transaction() as tx,
        ):
            require_same(self.info().id, wanted=info.id, name=self.name)
            is_changed = tx.restore(self.name, version, as_of=as_of)
        return tx.result if is_changed else None

    def optimize(
        self,
        where: str | None = None,
        *,
        zorder_by: Sequence[str] | str = (),
        target_size: int | None = None,
        runner: str | None = None,
    ) -> Committed | None:
        """Put fewer, larger files in the place of small ones, and of those with deletion vectors; None without such.

        With ``zorder_by``, all files are written again, with their rows along a curve through these columns; rows of a
        table with clustering columns lie along one through those. ``where`` is a condition of partition columns.
        ``target_size`` is in bytes; unless it is given, ``delta.targetFileSize`` of the table is, or the setting
        ``rows.target_file_size``. Rows stay as they are, and appends meanwhile do not conflict; a commit that removes
        one of these files does. ``runner`` says who writes: ``"local"`` for this process, ``"spark"`` for executors;
        unless it is given, executors write much data, if ``mirror.runner`` is Spark.
        """
        optimizing = import_module("deltamirror.catalog.maintenance.optimize")  # with a library that takes time
        asked = optimizing.Optimization(
            taken=self.snapshot(),
            location=self.location,
            settings=self._catalog.settings,
            where=optional_text(where, "where"),
            target_size=optional_number(target_size, "target_size"),
            zorder_by=texts(zorder_by, "zorder_by"),
        )
        done: Committed | None = optimizing.optimized(self._catalog, asked, runner=runner_name(runner))
        return done

    def _record(self, table: str, operation: str, parameters: Mapping[str, object], metrics: Mapping[str, str]) -> int:
        with self._catalog.transaction(operation=operation, parameters=parameters, metrics=metrics) as tx:
            tx.record(table)
        return tx.result.versions[table]

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


def _untold(deleted: int, total: int) -> None:
    """No caller wants to know."""
