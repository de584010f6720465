"""A catalog: tables whose transaction log lives in one SQL database."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from functools import partial
from importlib import import_module
from importlib.metadata import version
from os import PathLike
from typing import Any, Self, cast

import pyarrow as pa

from deltamirror.arguments import (
    flag,
    mapping,
    number,
    optional_text,
    path_text,
    require,
    seconds_of,
    settings_from,
    shown,
    table_name,
    text,
    text_map,
    texts,
)
from deltamirror.catalog.edits import condition_text
from deltamirror.catalog.inputs import Schema, operation_parameters, partition_columns, schema_of, table_properties
from deltamirror.catalog.places import table_in_folder, with_own_folder
from deltamirror.catalog.rows import RowWriter
from deltamirror.catalog.table import Table
from deltamirror.catalog.transaction import Transaction
from deltamirror.catalog.verification import FileVerifier
from deltamirror.config import LiveSettings, Settings, Switch
from deltamirror.delta.definition import TableDefinition
from deltamirror.errors import AlreadyExists, InvalidInput, NotFound
from deltamirror.pipeline.service.foreign_versions import FirstLooks
from deltamirror.pipeline.service.inline import InlinePublisher
from deltamirror.pipeline.service.owners import owner_name
from deltamirror.pipeline.service.publication_wait import wait_until_published
from deltamirror.rows.layout import Layout
from deltamirror.rows.sources import required_session
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.location import canonical_location
from deltamirror.storage.presence import has_delta_log
from deltamirror.telemetry import metrics
from deltamirror.txnlog.commit.request import Committed, Operation
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.database.migrations import migrate, require_current
from deltamirror.txnlog.database.opening import open_database
from deltamirror.txnlog.tables.reading import Snapshot, cut
from deltamirror.txnlog.tables.registry import (
    TableInfo,
    list_tables,
    pause_mirror,
    require_table,
    resume_mirror,
    table_at,
)
from deltamirror.txnlog.writer import SqlTxnLogWriter


class Catalog:
    """The tables of one database. Safe to share between threads; every process opens its own.

    ``url`` is ``sqlite:///FILE``, ``duckdb:///FILE`` or ``postgresql://…``; it goes before the one in ``settings``.
    Without ``settings``, those of the command line are in force: ``deltamirror.toml``, then the environment. With
    ``LiveSettings`` the catalog goes by their values at any moment. A ``database`` that is handed in, such as that of
    another catalog or a ``MirrorEngine``, stays the caller's.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        settings: Settings | LiveSettings | None = None,
        database: Database | None = None,
    ) -> None:
        self._live = live = settings_from(url, settings)
        require(database, Database, "database", hint="leave it out and give the url")
        metrics.limit_tables(live.current.metrics.tables)
        self._shares_database = database is not None
        self.database = database if database is not None else open_database(live.current.catalog)
        self.writer = SqlTxnLogWriter(self.database, live, engine_info=f"deltamirror/{version('deltamirror')}")
        self._row_writer = RowWriter(live)
        self._inline = InlinePublisher(self.database, live) if live.current.mirror.inline else None
        self._before_commit = FirstLooks(self.database, live, owner=owner_name()).before_commit
        self._checked = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back the connections to the database, unless it is the caller's."""
        if self._inline is not None:
            self._inline.close()
        if not self._shares_database:
            self.database.close()

    @property
    def settings(self) -> Settings:
        """Those in force at this moment."""
        return self._live.current

    def init(self) -> int:
        """Create the catalog's tables, or bring them up to date; the version of their schema."""
        return migrate(self.database)

    def check(self) -> None:
        """Refuse a database that holds no catalog, or one of another release's schema. Looks once."""
        if not self._checked:
            require_current(self.database)
            self._checked = True

    def create_table(
        self,
        name: str,
        *,
        location: str | PathLike[str],
        schema: Schema,
        partition_by: Iterable[str] | str = (),
        cluster_by: Iterable[str] | str = (),
        properties: Mapping[str, str | bool | int] | None = None,
        features: Iterable[str] | str = (),
        description: str | None = None,
    ) -> Table:
        """Create a table and commit its version 0.

        ``schema``: ``"id long, day date"``, a schema of Spark, Arrow or delta-rs, or the JSON of Delta.
        """
        columns = schema_of(schema)
        definition = TableDefinition(
            name=text(name, "name"),
            location=canonical_location(path_text(location, "location")),
            schema=columns,
            partition_by=partition_columns(partition_by, "partition_by", columns),
            cluster_by=partition_columns(cluster_by, "cluster_by", columns),
            properties=table_properties(properties),
            features=texts(features, "features"),
            description=optional_text(description, "description"),
        )
        create = partial(self._create, definition)
        self.check()
        self._publish_inline(with_own_folder(definition.location, self.database, self.settings.storage, create))
        return Table(self, definition.name)

    def _create(self, definition: TableDefinition, compared: frozenset[str]) -> Committed:
        if has_delta_log(definition.location, self.settings.storage):
            raise AlreadyExists(
                f"there is a Delta table at {definition.location} already",
                hint="choose another location: a table that is there is imported, not created",
                table=definition.name,
                location=definition.location,
            )
        return self.writer.create_table(definition, compared=compared)

    def table(self, name: str) -> Table:
        """A table that exists."""
        name = table_name(name)
        self.check()
        require_table(self.database, name)
        return Table(self, name)

    def table_at(self, location: str | PathLike[str]) -> Table:
        """The table whose data files and log lie at a location, whichever spelling, link or mount leads there."""
        place = canonical_location(path_text(location, "location"))
        self.check()
        with self.database.read() as connection:
            found = table_at(connection, place)
        found = found or table_in_folder(place, self.tables, self.settings.storage)
        if found is None:
            hint = "`deltamirror table list` shows the locations; `deltamirror import` takes in a table that is there"
            raise NotFound(f"no table of the catalog lies at {place}", hint=hint)
        return Table(self, found.name)

    def snapshot(self, names: Iterable[str] | str) -> "Cut":
        """Several tables as of one moment: a transaction over some of them is in all of these, or in none."""
        wanted = [table_name(each) for each in texts(names, "names")]
        self.check()
        return Cut(self, cut(self.database, wanted))

    def scan_snapshot(
        self,
        taken: Snapshot,
        columns: Iterable[str] | str | None = None,
        filter: object = None,  # noqa: A002 - the word of pyarrow
    ) -> pa.RecordBatchReader:
        """The rows of a snapshot, batch by batch; see ``Table.scan``."""
        return cast("pa.RecordBatchReader", self._scan(taken, columns, filter).reader())

    def frame_of_snapshot(
        self,
        spark: object,
        taken: Snapshot,
        columns: Iterable[str] | str | None = None,
        filter: str | None = None,  # noqa: A002 - the word of pyarrow
    ) -> Any:
        """The rows of a snapshot as a DataFrame; see ``Table.to_spark``."""
        condition = condition_text(filter, "filter")
        scan, session = self._scan(taken, columns, condition), required_session(spark)
        address = StoreAddress.of(self.table(taken.table).location, self.settings.storage)
        return import_module("deltamirror.rows.spark_scan").frame_of(session, scan, address, condition)

    def _scan(self, taken: Snapshot, columns: Iterable[str] | str | None, condition: object) -> Any:
        if not isinstance(taken, Snapshot):
            raise InvalidInput(f"taken has to be a snapshot, not {shown(taken)}", hint="give table.snapshot()")
        named = None if columns is None else texts(columns, "columns")
        layout = Layout.of(taken.table, taken.metadata, taken.protocol)
        scanning = import_module("deltamirror.rows.scanning")  # with a library that nothing else waits for
        opener = scanning.TableFiles(Table(self, taken.table).location, self.settings.storage)
        return scanning.scan_of(layout, opener, taken.files_among, columns=named, condition=condition)

    def tables(self) -> list[TableInfo]:
        """All tables, by name."""
        self.check()
        with self.database.read() as connection:
            return list_tables(connection, Switch.of(self.settings))

    def drop_table(self, name: str, *, unpublished: bool = False) -> None:
        """Forget a table; data files and ``_delta_log/`` stay. With unpublished versions, only if told so."""
        name, unpublished = table_name(name), flag(unpublished, "unpublished")
        self.check()
        self.writer.drop_table(name, unpublished=unpublished)

    def rename_table(self, name: str, new_name: str) -> Table:
        """Give a table another name; its location and its log stay. Transactions on the old name are refused."""
        name, new_name = table_name(name), text(new_name, "new_name")
        self.check()
        return Table(self, self.writer.rename_table(name, new_name).name)

    def pause(self, name: str, *, unpublished: bool = False) -> None:
        """Stop mirroring a table. Commits go on and wait. With unpublished versions, only if told so."""
        name, unpublished = table_name(name), flag(unpublished, "unpublished")
        self.check()
        pause_mirror(self.database, name, unpublished=unpublished)

    def resume(self, name: str) -> None:
        """Mirror a table again."""
        name = table_name(name)
        self.check()
        resume_mirror(self.database, name)

    def transaction(
        self,
        *,
        token: str | None = None,
        operation: str | None = None,
        parameters: Mapping[str, object] | None = None,
        metrics: Mapping[str, str | int] | None = None,
        user_metadata: str | None = None,
        tags: Mapping[str, str] | None = None,
        rows_checked: bool = False,
    ) -> Transaction:
        """Begin a transaction.

        ``token`` makes it idempotent. ``rows_checked`` vouches for the rows of the files that it adds, on tables
        with constraints and the like, which the log cannot show. The rest describes it in the history.
        """
        described = Operation(
            name=optional_text(operation, "operation"),
            parameters=operation_parameters(parameters),
            metrics=None if metrics is None else text_map(metrics, "metrics"),
            user_metadata=optional_text(user_metadata, "user_metadata"),
            tags=None if tags is None else text_map(tags, "tags"),
        )
        token, rows_checked = optional_text(token, "token"), flag(rows_checked, "rows_checked")
        self.check()
        publish = self._publish_inline if self._inline is not None else None
        return Transaction(
            self.writer,
            operation=described,
            token=token,
            rows_checked=rows_checked,
            verifier=self._verifier,
            row_writer=self._row_writer,
            before_commit=self._before_commit,
            after_commit=publish,
        )

    def wait_until_published(
        self, versions: Mapping[str, int] | Committed, *, seconds: float | timedelta
    ) -> dict[str, int]:
        """Return when these versions of tables are in ``_delta_log/``; ``Late`` if that takes longer.

        ``versions`` is what a commit returns, or its ``versions``. It returns these versions, unless foreign
        commits were adopted meanwhile: then it is the versions that the transactions have since, or a
        ``Conflict`` if one was dropped.
        """
        given = mapping(versions.versions if isinstance(versions, Committed) else versions, "versions", of="versions")
        awaited = {table: number(each, f"versions[{table!r}]") for table, each in given.items()}
        return wait_until_published(self.database, awaited, seconds=seconds_of(seconds, "seconds"))

    def _verifier(self, table: str) -> FileVerifier:
        return FileVerifier(self.settings.storage, lambda: self.table(table).location)

    def _publish_inline(self, committed: Committed) -> None:
        if self._inline is not None:
            self._inline.publish(committed.versions)


class Cut:
    """Tables at the versions that they had at one moment: what is read of them fits together."""

    def __init__(self, catalog: "Catalog", snapshots: Mapping[str, Snapshot]) -> None:
        self._catalog, self._snapshots = catalog, snapshots

    def __getitem__(self, table: str) -> Snapshot:
        """The snapshot of one of the tables."""
        if (found := self._snapshots.get(table)) is None:
            message = f"the table {table!r} is not part of this snapshot"
            raise NotFound(message, hint=f"it is of {', '.join(self._snapshots)}", table=table)
        return found

    @property
    def versions(self) -> dict[str, int]:
        """The version of each table."""
        return {name: taken.version for name, taken in self._snapshots.items()}

    def to_arrow(
        self,
        table: str,
        columns: Iterable[str] | str | None = None,
        filter: object = None,  # noqa: A002 - the word of pyarrow
    ) -> pa.Table:
        """The rows of one of the tables, all in memory; see ``Table.scan``."""
        return self.scan(table, columns, filter).read_all()

    def scan(
        self,
        table: str,
        columns: Iterable[str] | str | None = None,
        filter: object = None,  # noqa: A002 - the word of pyarrow
    ) -> pa.RecordBatchReader:
        """The rows of one of the tables, batch by batch; see ``Table.scan``."""
        return self._catalog.scan_snapshot(self[table], columns, filter)
