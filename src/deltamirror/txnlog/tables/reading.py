"""Reading the log: any version of a table as one state."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
from sqlalchemy import Connection, bindparam, func, or_, select
from sqlalchemy.sql import ColumnElement, Select

from deltamirror.arguments import partition_filter
from deltamirror.delta.actions import Add, DomainMetadata, Metadata, Protocol, Txn
from deltamirror.delta.paths import PartitionValue, partition_text, path_identity
from deltamirror.delta.readset import value_key
from deltamirror.delta.schema import DataType, Field, Primitive, StructType, parse_schema
from deltamirror.errors import InvalidInput
from deltamirror.txnlog.commit.ratification import not_in_table
from deltamirror.txnlog.content.projection import ended_by, found_by_paths, newest_by_key
from deltamirror.txnlog.content.rows import add_of
from deltamirror.txnlog.content.state import TableState, in_force
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.database.schema import app_transactions, domains, files, heads, tables, versions
from deltamirror.txnlog.database.statements import LINEAGE
from deltamirror.txnlog.tables.history import milliseconds_of, no_such_version
from deltamirror.txnlog.tables.listing import FILES_SCHEMA, extent, list_files, list_matching, partition_sizes
from deltamirror.txnlog.tables.registry import table_info

PartitionFilter = Mapping[str, PartitionValue | Sequence[PartitionValue]]
"""Partition columns with the value or values that they may have."""

_NUMBERS_SCHEMA = pa.schema([pa.field("size", pa.int64(), nullable=False), pa.field("deletion_vector", pa.string())])
_MOST_TEXTS = 1_000
"""Beyond so many, files are listed with those of other partitions."""
_OLDEST = select(tables.c.history_start).where(tables.c.table_id == bindparam("of_table"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A table as of one version."""

    table: str
    table_id: int
    version: int
    timestamp: int
    lineage: int
    """Which history of the table it is part of: an adoption begins another one."""
    protocol: Protocol
    metadata: Metadata
    database: Database = field(repr=False)

    @property
    def schema(self) -> StructType:
        """The columns of the table."""
        return parse_schema(self.metadata.schema_string)

    def files(self, partitions: PartitionFilter | None = None) -> pa.Table:
        """The data files, in no particular order; with a filter, those of these partitions."""
        with look_at(self) as connection:
            filters = self._filters(connection, partition_filter(partitions))
            if not filters:
                return self._all_files(connection)
            count, _ = extent(self.database, connection, self.table_id)
            return self._matching(connection, filters, count)

    def files_among(self, choose: Callable[[Sequence[str]], Sequence[str]] | None) -> pa.Table:
        """The data files; those whose ``partition_values`` are not chosen, of all that files ever had, may be left out.

        Most of the time of a listing goes into files that are left out afterwards.
        """
        with look_at(self) as connection:
            if choose is not None:
                used = partition_sizes(self.database, connection, self.table_id)
                wanted = choose(list(used))
                if len(wanted) < min(len(used), _MOST_TEXTS):
                    count = sum(used.get(text, 0) for text in wanted)
                    return self._matching(connection, [files.c.partition_values.in_(wanted)], count)
            return self._all_files(connection)

    def _all_files(self, connection: Connection) -> pa.Table:
        return list_files(self.database, connection, table_id=self.table_id, version=self.version)

    def _matching(self, connection: Connection, filters: Sequence[ColumnElement[bool]], count: int) -> pa.Table:
        return list_matching(self.database, connection, self.files_query().where(*filters), count=count)

    def file_numbers(self, *, limit: int) -> pa.Table:
        """Size and deletion vector (as JSON) of the data files, of at most so many."""
        columns = [files.c[name] for name in _NUMBERS_SCHEMA.names]
        query = self.files_query().with_only_columns(*columns).limit(max(limit, 0))
        with look_at(self) as connection:
            return self.database.fetch_arrow(connection, query, _NUMBERS_SCHEMA)

    def adds(self, partitions: PartitionFilter | None = None, *, compactable_to: int | None = None) -> list[Add]:
        """The data files as actions, for tables that have few; with a filter, those of these partitions.

        ``compactable_to`` leaves out those that have so many bytes, and no deletion vector.
        """
        with look_at(self) as connection:
            query = self.files_query().where(*self._filters(connection, partition_filter(partitions)))
            if compactable_to is not None:
                query = query.where(or_(files.c.size < compactable_to, files.c.deletion_vector.is_not(None)))
            return [add_of(row) for row in connection.execute(query)]

    def count_files(self) -> int:
        """How many data files there are."""
        with look_at(self) as connection:
            counted = select(func.count()).select_from(self.files_query().subquery())
            return int(connection.execute(counted).scalar_one())

    def transactions(self) -> dict[str, Txn]:
        """The progress of each application."""
        with look_at(self) as connection:
            rows = connection.execute(newest_by_key(app_transactions, "app_id", self.table_id, self.version))
            return {
                row.app_id: Txn(app_id=row.app_id, version=row.app_version, last_updated=row.last_updated)
                for row in rows
            }

    def domain_metadata(self) -> dict[str, DomainMetadata]:
        """The domains that are set."""
        with look_at(self) as connection:
            rows = connection.execute(newest_by_key(domains, "domain", self.table_id, self.version))
            return {
                row.domain: DomainMetadata(domain=row.domain, configuration=row.configuration, removed=False)
                for row in rows
                if not row.removed
            }

    def files_query(self) -> Select[Any]:
        """The query behind ``files``."""
        columns = [files.c[name] for name in FILES_SCHEMA.names[:-1]]
        return (
            select(*columns, versions.c.version.label("added_version"))
            .join(versions, versions.c.commit_id == files.c.commit_id)
            .where(files.c.table_id == self.table_id, versions.c.version <= self.version)
            .where(~ended_by(self.version))
        )

    def _filters(
        self, connection: Connection, partitions: Mapping[str, Sequence[PartitionValue]]
    ) -> list[ColumnElement[bool]]:
        return [self._filter(connection, column, wanted) for column, wanted in partitions.items()]

    def physical_partition(self, column: str) -> str:
        """The name of a partition column in the log; differs from its name under column mapping."""
        return self._partition(column).physical_name

    def require_partition_values(self, column: str, texts: Iterable[str | None]) -> None:
        """Refuse a text that no file can have as its value: it would match nothing, and look like nothing to find."""
        kind = self._partition(column).type
        for text in texts:
            try:
                value_key(text, kind)
            except ValueError:
                raise InvalidInput(
                    f"{text!r} is no value of the partition column {column!r} of table {self.table!r}",
                    hint="write it as the log does: 2024-01-31, 17, true, 2024-01-31T00:00:00.000000Z",
                ) from None

    def _partition(self, column: str) -> Field:
        wanted = column.lower()
        for name in self.metadata.partition_columns:
            if name.lower() == wanted and (field := self.schema.get(name)) is not None:
                return field
        raise InvalidInput(
            f"table {self.table!r} is not partitioned by {column!r}",
            hint=f"its partition columns: {', '.join(self.metadata.partition_columns) or 'none'}",
        )

    def _filter(self, connection: Connection, column: str, wanted: Sequence[PartitionValue]) -> ColumnElement[bool]:
        value = self.database.json_member(files.c.partition_values, self.physical_partition(column))
        values = [partition_text(each) for each in wanted]
        self.require_partition_values(column, values)
        present = [value for value in values if value]
        nothing = or_(value.is_(None), value == "")  # an empty string is null as a partition value
        texts = self._spellings(connection, value, column, present)
        return or_(value.in_(texts), *([nothing] if len(present) < len(values) else []))

    def _spellings(
        self, connection: Connection, value: ColumnElement[str], column: str, wanted: Sequence[str]
    ) -> Sequence[str]:
        """All texts by which the log names these values of a column."""
        kind = self._partition(column).type
        if not wanted or kind == Primitive("string"):
            return wanted
        keys = {value_key(text, kind) for text in wanted}
        used = connection.execute(select(value).where(files.c.table_id == self.table_id).distinct()).scalars()
        return [text for text in used if text and _key_or_none(text, kind) in keys]


@contextmanager
def look_at(taken: Snapshot) -> Iterator[Connection]:
    """The database, to be asked for what it says of a version; NotFound if that was pruned since it was taken."""
    with taken.database.read() as connection:
        [[oldest]] = taken.database.look(connection, _OLDEST, {"of_table": taken.table_id})
        if taken.version < oldest:
            raise no_such_version(connection, table_info(connection, taken.table), taken.version, None)
        yield connection


def _key_or_none(text: str, kind: DataType) -> Hashable:
    try:
        return value_key(text, kind)
    except ValueError:  # no value of the column: readers cannot take it for one either
        return None


def snapshot(
    database: Database, name: str, *, version: int | None = None, as_of: int | str | datetime | None = None
) -> Snapshot:
    """A table at a version, at a time, or at its head."""
    if version is not None and as_of is not None:
        raise InvalidInput("a snapshot has a version or a time, not both", hint="give --version or --as-of")
    with database.read() as connection:
        info = table_info(connection, name)
        wanted = (versions.c.table_id == info.id) & (versions.c.version >= info.history_start)
        wanted &= _at(info.head, version, as_of)
        newest = select(versions.c.version, versions.c.committed_at).where(wanted).order_by(versions.c.version.desc())
        row = connection.execute(newest.limit(1)).one_or_none()
        if row is None or (version is not None and row.version != version):
            raise no_such_version(connection, info, version, as_of)
        protocol, metadata = in_force(connection, info.id, row.version)
        lineage = connection.execute(select(LINEAGE).where(heads.c.table_id == info.id)).scalar_one()
    return Snapshot(
        table=name,
        table_id=info.id,
        version=row.version,
        timestamp=row.committed_at,
        lineage=lineage,
        protocol=protocol,
        metadata=metadata,
        database=database,
    )


def head_snapshot(database: Database, state: TableState) -> Snapshot:
    """A table at the head at which it was just seen."""
    return Snapshot(
        table=state.name,
        table_id=state.table_id,
        version=state.version,
        timestamp=state.committed_at,
        lineage=state.lineage,
        protocol=state.protocol,
        metadata=state.metadata,
        database=database,
    )


def cut(database: Database, names: Iterable[str]) -> dict[str, Snapshot]:
    """Tables at the heads that they have at one moment."""
    wanted = list(dict.fromkeys(names))
    query = select(tables.c.name, heads.c.version).join(heads, heads.c.table_id == tables.c.table_id)
    with database.read() as connection:
        # One statement: it sees a transaction in all of its tables, or in none.
        found = {row.name: row.version for row in connection.execute(query.where(tables.c.name.in_(wanted)))}
    return {name: snapshot(database, name, version=found.get(name)) for name in wanted}


def live_adds(taken: Snapshot, paths: Sequence[str]) -> dict[str, Add]:
    """The files of these paths, as they were added; under the paths as the caller spells them.

    Another writer may have left a path in the table twice, with different deletion vectors: then a path does not say
    which file is meant.
    """
    found: dict[str, list[Add]] = {}
    with look_at(taken) as connection:
        for row in found_by_paths(connection, taken.files_query(), paths):
            found.setdefault(path_identity(row[0]), []).append(add_of(row))
    if missing := [path for path in paths if path_identity(path) not in found]:
        raise not_in_table(taken.table, missing)
    for path in paths:
        if len(several := found[path_identity(path)]) > 1:
            raise _ambiguous(taken.table, path, several)
    return {path: found[path_identity(path)][0] for path in paths}


def _ambiguous(table: str, path: str, several: Sequence[Add]) -> InvalidInput:
    vectors = [each.deletion_vector for each in several]
    told = " and ".join("none" if vector is None else vector.unique_id for vector in vectors)
    return InvalidInput(
        f"table {table!r} has {path} {len(several)} times, with the deletion vectors {told}",
        hint="say which one: give a complete remove with its deletion vector, one of them in each commit",
    )


def _at(head: int, version: int | None, as_of: int | str | datetime | None) -> ColumnElement[bool]:
    if as_of is None:
        return versions.c.version == (head if version is None else version)
    return versions.c.committed_at <= milliseconds_of(as_of)
