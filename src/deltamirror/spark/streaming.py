"""A table as a stream of Spark: the rows that it has, then those that each version adds, planned from SQL.

An offset is a place in the history of a table: a version, and how many of its files were read. The order of a version's
files is that of their paths, so that a batch which is done again has the same rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, Self

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from deltamirror.catalog.catalog import Catalog
from deltamirror.catalog.table import Table
from deltamirror.delta.actions import Add
from deltamirror.errors import InvalidInput, NotFound
from deltamirror.rows.scanning import file_groups, listed_adds
from deltamirror.spark.options import SourceOptions, with_hint
from deltamirror.spark.reading import FileGroup, group_reader, read_group
from deltamirror.txnlog.database.clock import time_of
from deltamirror.txnlog.tables.changes import VersionChange, newest_version, version_changes
from deltamirror.txnlog.tables.history import milliseconds_of

_VERSIONS_AT_ONCE: Final = 100
_FILES_A_BATCH: Final = 1_000
"""As Delta Lake on Spark."""


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """Where in the history of a table a stream is: before file ``index`` of a version.

    ``is_whole``: of all files that the table has at this version, not of those that the version added.
    """

    table_id: int
    lineage: int
    version: int
    index: int
    is_whole: bool
    began: int = -1
    """The version that the stream began with, which every place of it carries; -1: of an older release."""
    began_whole: bool = False
    """Whether that was with all of its files."""

    @classmethod
    def first(cls, table_id: int, lineage: int, version: int, *, is_whole: bool) -> Self:
        """The place that a stream begins with."""
        return cls(table_id, lineage, version, 0, is_whole, version, is_whole)

    def beginning(self) -> "StreamPlace":
        """The place that the stream of this one began with."""
        return replace(self, version=self.began, index=0, is_whole=self.began_whole)

    def next_version(self) -> "StreamPlace":
        """The place before what the next version added."""
        return replace(self, version=self.version + 1, index=0, is_whole=False)


class _Allowance:
    """How much one batch may have; one file at least."""

    def __init__(self, limit: ReadLimit) -> None:
        self._files = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        self._bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        self._is_first = True

    def take(self, sizes: Sequence[int]) -> int:
        """How many of these files, in their order, the batch may have, too."""
        for taken, size in enumerate(sizes):
            if not self._is_first and not self._has_room(size):
                return taken
            self._is_first = False
            self._files = None if self._files is None else self._files - 1
            self._bytes = None if self._bytes is None else self._bytes - size
        return len(sizes)

    def _has_room(self, size: int) -> bool:
        return (self._files is None or self._files > 0) and (self._bytes is None or self._bytes >= size)


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows one table: batches are planned beside Spark's driver, and executors read their files."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._last: int | None = None  # with trigger(availableNow=True): the version to end with
        with with_hint(), options.open() as catalog:
            taken = catalog.table(options.table).snapshot()
            self._rows = group_reader(catalog, taken, schema)
        self._known_version, self._table_id, self._lineage = taken.version, taken.table_id, taken.lineage

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The place before all rows of the table, or before the version to start with."""
        with with_hint(), self._options.open() as catalog:
            return asdict(self._first_place(catalog))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """How much a batch has, by the options."""
        if self._options.max_bytes is not None:
            return ReadMaxBytes(self._options.max_bytes)
        return ReadMaxFiles(self._options.max_files or _FILES_A_BATCH)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Come to an end with the version that is the newest now."""
        with with_hint(), self._options.open() as catalog:
            self._last = self._newest(catalog)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The place after as much as a batch may have; the start where there is nothing new."""
        with with_hint(), self._options.open() as catalog:
            place = self._required(start)
            newest = self._newest(catalog)
            return asdict(self._after(catalog, place, _Allowance(limit), min(newest, self._last or newest)))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The files between two places, in groups of about the same size."""
        last = self._required(end)
        first = _same_stream(self._required(start), last)
        with with_hint(), self._options.open() as catalog:
            files = listed_adds(self._between(catalog, first, last))
        return [FileGroup(group) for group in file_groups(files)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a group; the part that runs on executors."""
        return read_group(self._rows, partition)

    def _first_place(self, catalog: Catalog) -> StreamPlace:
        told = self._first_version(catalog)
        version = self._known_version if told is None else told
        return StreamPlace.first(self._table_id, self._lineage, version, is_whole=told is None)

    def _first_version(self, catalog: Catalog) -> int | None:
        """The version to start with, by the options; None: with all rows that there are."""
        options = self._options
        if options.starts_latest:
            return self._newest(catalog) + 1
        if options.version is not None:
            self._require_reached(options.version, self._newest(catalog))
            return options.version
        if options.as_of is not None:
            _require_past(catalog, options.as_of)
            return _first_since(catalog.table(options.table), options.as_of)
        return None

    def _require_reached(self, version: int, newest: int) -> None:
        """Refuse a start further on than the next version: rows that come before it would be passed over."""
        if version > newest + 1:
            problem = f"table {self._options.table!r} has no version {version}: it is at version {newest}"
            raise InvalidInput(problem, hint="give startingVersion=latest for rows that come from now on")

    def _newest(self, catalog: Catalog) -> int:
        if (found := newest_version(catalog.database, self._table_id)) is None:
            raise NotFound(f"the table {self._options.table!r} was dropped", hint="end the query")
        return found

    def _required(self, offset: Mapping[str, Any]) -> StreamPlace:
        """The place of an offset, which has to be in the history of this table."""
        place = StreamPlace(**offset)
        if (place.table_id, place.lineage) != (self._table_id, self._lineage):
            raise InvalidInput(
                f"the query has read another history of table {self._options.table!r}: it was made again, or commits "
                "of another writer were adopted",
                hint="start the query anew, with another checkpointLocation",
            )
        return place

    def _after(self, catalog: Catalog, start: StreamPlace, allowance: _Allowance, newest: int) -> StreamPlace:
        reached = start
        for place, files, refused in self._walk(catalog, start, newest):
            if refused is not None and place == start:
                raise refused
            if refused is not None:
                break
            sizes = [each.size for each in files[place.index :]]
            taken = allowance.take(sizes)
            if taken < len(sizes):
                return replace(place, index=place.index + taken)
            reached = place.next_version()
        return reached

    def _between(self, catalog: Catalog, first: StreamPlace, last: StreamPlace) -> Iterator[Add]:
        """The files from one place to another."""
        for place, files, _ in self._walk(catalog, first, last.version if last.index else last.version - 1):
            yield from files[place.index : last.index if place.version == last.version else None]

    def _walk(
        self, catalog: Catalog, place: StreamPlace, newest: int
    ) -> Iterator[tuple[StreamPlace, Sequence[Add], InvalidInput | None]]:
        """Versions from a place on, each with its files, and why a stream cannot have them, if it cannot."""
        if place.is_whole:
            yield place, _all_files(self._options, replace(place, index=0)), None
            place = place.next_version()
        while place.version <= newest:
            last = min(newest, place.version + _VERSIONS_AT_ONCE - 1)
            for change in version_changes(catalog.database, self._table_id, place.version, last):
                yield place, _added_files(change), self._refused(change)
                place = place.next_version()

    def _refused(self, change: VersionChange) -> InvalidInput | None:
        table, options = self._options.table, self._options
        if change.changes_metadata and change.version > self._known_version:
            hint = "start the query again: it goes on with the new columns"
            return InvalidInput(f"version {change.version} of table {table!r} changed its metadata", hint=hint)
        if not change.removes_rows or options.skips_changes or (options.ignores_deletes and not change.added):
            return None
        return InvalidInput(
            f"version {change.version} of table {table!r} deletes or rewrites rows; a stream has rows that are added",
            hint='.option("skipChangeCommits", "true") leaves such versions out, '
            '.option("ignoreDeletes", "true") those that add no rows',
        )


def _same_stream(first: StreamPlace, last: StreamPlace) -> StreamPlace:
    """Where a batch begins that ends with ``last``.

    Spark asks for the first place again when it does the first batch again, after a restart, or even before it reads
    that batch. The table may have got versions meanwhile, which come after the batch: its end knows where it began.
    """
    is_another = (first.began, first.began_whole) != (last.began, last.began_whole)
    return last.beginning() if is_another and last.began >= 0 else first


def _first_since(table: Table, time: str) -> int:
    """The first version that was committed at a time, or after it."""
    try:
        before = table.snapshot(as_of=time)
    except NotFound:
        return 0
    return before.version if before.timestamp == milliseconds_of(time) else before.version + 1


def _require_past(catalog: Catalog, time: str) -> None:
    with catalog.database.read() as connection:
        now = time_of(connection)
    if milliseconds_of(time) > now:
        hint = "give startingVersion=latest for rows that come from now on"
        raise InvalidInput(f"startingTimestamp is {time}, which is in the future", hint=hint)


def _added_files(change: VersionChange) -> Sequence[Add]:
    return () if change.removes_rows else sorted(change.added, key=attrgetter("path"))


@lru_cache(maxsize=1)
def _all_files(options: SourceOptions, version_of: StreamPlace) -> Sequence[Add]:
    """The files of a version; a large table is read by many batches, each of which asks for them."""
    with options.open() as catalog:
        files = catalog.table(options.table).snapshot(version_of.version).adds()
    return sorted(files, key=attrgetter("path"))
