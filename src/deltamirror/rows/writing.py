"""From batches of rows to data files in a table's location, and to the adds that make them part of the table.

One file per partition is open at a time. Rows are held until they make a row group; a file is put into the store when
it has the wanted size, when memory is short, or at the end: one at a time, while the next is filled. Files of a write
that fails half way are deleted, as far as the store lets it.
"""

import random
import string
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltamirror.config import RowsSettings
from deltamirror.delta.actions import Add, Cdc, Metadata
from deltamirror.delta.partitions import has_negative_fraction, partition_text
from deltamirror.delta.paths import decode_path, encode_path, partition_directory
from deltamirror.delta.properties import TARGET_FILE_SIZE, byte_count, is_enabled
from deltamirror.delta.schema import DataType, Field
from deltamirror.errors import DeltaMirrorError, InvalidInput
from deltamirror.rows.casting import Caster
from deltamirror.rows.dictionaries import columns_with_dictionaries
from deltamirror.rows.duties import require_copyable_rows, require_writable_rows
from deltamirror.rows.layout import Layout
from deltamirror.rows.statistics import FileStatistics
from deltamirror.steps import Step
from deltamirror.storage.store import Store

T = TypeVar("T")

PartitionValues: TypeAlias = Mapping[str, str | None]
"""The values of the partition columns of a file, as the log spells them, by the names that users know."""

_ROW_GROUP_BYTES: Final = 64 * 1024 * 1024
_ROW_GROUP_ROWS: Final = 1_048_576
_LEAST_GROUP_BYTES: Final = 64 * 1024
_SPLIT_BYTES: Final = 32 * 1024 * 1024
_WORTH_A_THREAD: Final = 1024 * 1024
"""Bytes of rows: with fewer, it costs more to hand them to a thread than to do the work."""
_ROW: Final = "row"
_ENDINGS: Final = {"snappy": ".snappy", "zstd": ".zstd", "gzip": ".gz", "none": "", "uncompressed": ""}
_LETTERS: Final = string.ascii_letters + string.digits
_PREFIX_LENGTH: Final = 2
_CHANGE_DATA: Final = "_change_data"
_UNITS: Final = {pa.Date32Scalar: "days from 1970", pa.TimestampScalar: "microseconds from 1970"}


@dataclass(frozen=True, slots=True)
class AcceptedPartitions:
    """The partitions that rows may be of: all, or those with certain values, as ``predicate`` describes them."""

    values: Mapping[str, frozenset[str | None]] = field(default_factory=dict)
    predicate: str | None = None

    def require(self, found: PartitionValues, table: str) -> None:
        """Refuse rows of another partition: they would stand beside the rows that are there."""
        for name, wanted in self.values.items():
            if found[name] not in wanted:
                raise InvalidInput(
                    f"table {table!r}: the data has rows with {name} = {found[name]!r}, which are outside "
                    f"of {self.predicate}",
                    hint="leave these rows out, or widen replace_where",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrder:
    """How rows of one table are to be written; fit to travel to other processes."""

    layout: Layout
    settings: RowsSettings
    rows_checked: bool = False
    rules_met: bool = False
    """The rows are of the table already, or were held against its rules before."""
    copies: bool = False
    """All values are of the table already."""
    is_change_data: bool = False
    """The rows are changes of others, for readers of the change data feed."""
    accepted: AcceptedPartitions = field(default_factory=AcceptedPartitions)


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """Data files with the rows of a write, of which no version knows yet."""

    layout: Layout
    store: Store
    adds: Sequence[Add]
    changes: Sequence[Cdc] = ()
    """Files of change data."""

    @property
    def partitions(self) -> list[PartitionValues]:
        """The partitions that got files."""
        names = {self.layout.naming(each): each.name for each in self.layout.partition_fields}
        found = (tuple((names[column], value) for column, value in add.partition_values.items()) for add in self.adds)
        return [dict(values) for values in dict.fromkeys(found)]

    def discard(self) -> None:
        """Delete the files, as far as the store lets it."""
        paths = (*(add.path for add in self.adds), *(change.path for change in self.changes))
        _delete(self.store, [decode_path(path) for path in paths])


def _now() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class RowFiles:
    """Writes rows of one table in this process.

    ``task`` is the number of this process among those that write the same rows. ``clock`` tells milliseconds since
    1970, for ``modificationTime``: the store is not asked.
    """

    order: RowOrder
    store: Store
    task: int = 0
    clock: Callable[[], int] = _now
    _adds: list[Add] = field(default_factory=list)
    _keys: list[str] = field(default_factory=list)
    _open: dict[tuple[str | None, ...], "_OpenFile"] = field(default_factory=dict)
    _counts: dict[tuple[str | None, ...], int] = field(default_factory=dict)
    _memory: int = 0
    """About what all files hold that are not put; a sum over many of them for each piece of rows would be most of the
    work."""
    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(2, "deltamirror-rows"))
    """One that puts a file, one that computes statistics while this one encodes."""
    _putting: "tuple[Future[Add], int] | None" = None
    """The file that is being put, and what it held."""
    _waiting: list[pa.RecordBatch] = field(default_factory=list)
    _waiting_bytes: int = 0

    def write(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> list[Add]:
        """Write all rows; the adds of their files. If that fails, the files are deleted again."""
        with self.taking(schema) as take:
            for batch in with_rows(batches):
                take(batch)
        return self._adds

    @contextmanager
    def taking(self, schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], None]]:
        """Take rows batch by batch; they are in files at the end. If anything fails inside, these are deleted again."""
        if self.order.rules_met:
            require_copyable_rows(self.layout)
        else:
            require_writable_rows(self.layout, rows_checked=self.order.rows_checked)
        caster = Caster(schema, self.layout, fits_texts=not self.order.copies)
        try:
            with self._translated(), self._threads:
                yield lambda batch: self._gather(caster.cast(batch))
                self._take_gathered()
                while self._open:
                    self._close(next(iter(self._open)))
                self._settle()
        except BaseException:
            self._open.clear()
            self.discard()
            raise

    def discard(self) -> None:
        """Delete the files that were written, as far as the store lets it."""
        _delete(self.store, self._keys)

    @property
    def adds(self) -> list[Add]:
        """The files that were written."""
        return list(self._adds)

    @property
    def changes(self) -> list[Cdc]:
        """The files that were written, as files of change data."""
        return [
            Cdc(path=each.path, partition_values=each.partition_values, size=each.size, data_change=False)
            for each in self._adds
        ]

    @property
    def layout(self) -> Layout:
        """That of the table."""
        return self.order.layout

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """What Arrow cannot write, in our words."""
        try:
            yield
        except (pa.ArrowException, OverflowError, RecursionError) as error:
            raise InvalidInput(
                f"table {self.layout.table!r}: the rows cannot be written: {error}",
                hint="nothing was committed; give the rows in smaller batches, or correct them",
            ) from error

    def _take(self, values: tuple[str | None, ...], rows: pa.Table) -> None:
        if values not in self._open:
            if values not in self._counts:
                self.order.accepted.require(self._named(values), self.layout.table)
            self._open[values] = _OpenFile(self.order, self._compression, self._group_bytes, self._threads)
            self._memory += self._open[values].memory
        opened = self._open[values]
        before = opened.memory
        opened.take(rows)
        self._memory += opened.memory - before
        if opened.size >= target_file_size(self.layout.metadata, self.order.settings):
            self._close(values)
        if self._memory > self.order.settings.memory:
            self._settle()
        while self._memory > self.order.settings.memory and self._open:
            self._close(max(self._open, key=lambda key: self._open[key].memory))

    def _close(self, values: tuple[str | None, ...]) -> None:
        """Put a file, after the one before it: in a thread, so that the next is filled meanwhile."""
        self._settle()
        opened, key = self._open.pop(values), self._key(values)
        self._keys.append(key)
        held, put = opened.memory, partial(self._put, key, values, opened)
        self._putting = (self._threads.submit(put) if held > _WORTH_A_THREAD else _done(put)), held

    def _settle(self) -> None:
        """Wait for the file that is being put."""
        if self._putting is not None:
            (file, held), self._putting = self._putting, None
            self._adds.append(file.result())
            self._memory -= held

    def _put(self, key: str, values: tuple[str | None, ...], opened: "_OpenFile") -> Add:
        data = opened.finished()
        with Step.PUT_ROWS:
            self.store.put(key, memoryview(data))
        fields = zip(self.layout.partition_fields, values, strict=True)
        return Add(
            path=encode_path(key),
            partition_values={self.layout.naming(each): value for each, value in fields},
            size=data.size,
            modification_time=self.clock(),
            data_change=True,
            stats=opened.stats,
        )

    @property
    def _group_bytes(self) -> int:
        """How many bytes of rows a row group has: files that are to be small have small ones."""
        wanted = target_file_size(self.layout.metadata, self.order.settings)
        return max(_LEAST_GROUP_BYTES, min(_ROW_GROUP_BYTES, wanted))

    def _key(self, values: tuple[str | None, ...]) -> str:
        """The name that Delta Spark gives to a file: task, a random id, and which file of the task it is."""
        count = self._counts.get(values, 0)
        self._counts[values] = count + 1
        joint, kind = "." if values else "-", "cdc" if self.order.is_change_data else "part"
        name = f"{kind}-{self.task:05d}-{uuid.uuid4()}{joint}c{count:03d}{_ENDINGS[self._compression]}.parquet"
        folders = [_random_prefix()] if self._has_prefixes else self._folders(values)
        return "/".join((*folders, name))

    def _folders(self, values: tuple[str | None, ...]) -> list[str]:
        above = [_CHANGE_DATA] if self.order.is_change_data else []
        return [*above, self._directory(values)] if values else above

    def _directory(self, values: tuple[str | None, ...]) -> str:
        return partition_directory([each.name for each in self.layout.partition_fields], self._named(values))

    def _named(self, values: tuple[str | None, ...]) -> dict[str, str | None]:
        return dict(zip((each.name for each in self.layout.partition_fields), values, strict=True))

    @property
    def _has_prefixes(self) -> bool:
        return self.layout.mode != "none" or is_enabled(self.layout.metadata, "delta.randomizeFilePrefixes")

    @property
    def _compression(self) -> str:
        codec = _property(
            self.layout.metadata, "delta.parquet.compression.codec", self.order.settings.compression
        ).lower()
        if codec not in _ENDINGS:
            raise InvalidInput(
                f"table {self.layout.table!r}: data files cannot be compressed by {codec!r} here",
                hint=f"set delta.parquet.compression.codec to one of {', '.join(_ENDINGS)}",
            )
        return codec

    def _gather(self, batch: pa.RecordBatch) -> None:
        """Take small batches together: splitting one into partitions has a cost for each partition."""
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes >= min(_SPLIT_BYTES, self.order.settings.memory // 4):
            self._take_gathered()

    def _take_gathered(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting)
            self._waiting, self._waiting_bytes = [], 0
            for values, rows in self._split(table):
                for piece in _pieces(rows, self._group_bytes):
                    self._take(values, piece)

    def _split(self, table: pa.Table) -> Iterator[tuple[tuple[str | None, ...], pa.Table]]:
        """The rows of each partition, without the partition columns."""
        partitions = [self.layout.naming(each) for each in self.layout.partition_fields]
        if not partitions:
            yield (), table
            return
        names = [str(number) for number in range(len(partitions))]
        keys = table.select(partitions).rename_columns(names)
        numbered = keys.append_column(_ROW, row_numbers(table.num_rows))
        groups = numbered.group_by(names, use_threads=False).aggregate([(_ROW, "list")]).combine_chunks()
        rows = table.drop_columns(partitions).combine_chunks()
        for *values, numbers in zip(*(groups.column(each) for each in (*names, f"{_ROW}_list")), strict=True):
            yield self._texts(values), rows.take(numbers.values)

    def _texts(self, values: Iterable[pa.Scalar]) -> tuple[str | None, ...]:
        return tuple(self._text(each, value) for each, value in zip(self.layout.partition_fields, values, strict=True))

    def _text(self, field: Field, value: pa.Scalar) -> str | None:
        try:
            return _partition_text(value, field.type)
        except (ValueError, OverflowError) as error:
            far = isinstance(error, OverflowError)
            shown = f"{value.value:,} {_UNITS[type(value)]}" if far else repr(value.as_py())
            raise InvalidInput(
                f"table {self.layout.table!r}: the partition column {field.name!r} cannot be {shown}: {error}",
                hint="leave these rows out, or correct them",
            ) from error


def _done(work: Callable[[], T]) -> Future[T]:
    """What came of work that is done at once."""
    done = Future[T]()
    done.set_result(work())
    return done


def target_file_size(metadata: Metadata, settings: RowsSettings) -> int:
    """About how many bytes a data file of a table is to have."""
    size = byte_count(_property(metadata, TARGET_FILE_SIZE, ""))
    return settings.target_file_size if size is None else size


class _OpenFile:
    """A Parquet file that is being written, in memory, with its statistics; change data has none in the log."""

    def __init__(self, order: RowOrder, compression: str, group_bytes: int, threads: ThreadPoolExecutor) -> None:
        layout = order.layout
        self._statistics = None if order.is_change_data else FileStatistics(layout)
        self._group_bytes = group_bytes
        self._threads = threads
        self._schema = pa.schema([layout.arrow_field(each) for each in layout.data_fields])
        self._sink = pa.BufferOutputStream()
        self._codec = "none" if compression == "uncompressed" else compression
        self._writer: pq.ParquetWriter | None = None
        self._pending: list[pa.Table] = []
        self._pending_bytes = self._pending_rows = self._raw_bytes = 0

    @property
    def stats(self) -> str | None:
        """The statistics of its rows, as the log has them."""
        return None if self._statistics is None else self._statistics.text()

    @property
    def memory(self) -> int:
        """About what it holds."""
        return int(self._sink.tell()) + self._pending_bytes

    @property
    def size(self) -> int:
        """About what the file will have: rows that wait are taken to shrink as those before them did."""
        written = int(self._sink.tell())
        return written + (self._pending_bytes * written // self._raw_bytes if self._raw_bytes else 0)

    def take(self, rows: pa.Table) -> None:
        """Add rows; a row group is written once there are enough."""
        self._pending.append(rows)
        self._pending_bytes += rows.nbytes
        self._pending_rows += rows.num_rows
        if self._pending_bytes >= self._group_bytes or self._pending_rows >= _ROW_GROUP_ROWS:
            self._write_group()

    def finished(self) -> pa.Buffer:
        """The bytes of the file."""
        if self._pending:
            self._write_group()
        if self._writer is not None:
            self._writer.close()
        return self._sink.getvalue()

    def _write_group(self) -> None:
        group = pa.concat_tables(self._pending).cast(self._schema)
        see = partial(self._see, group)
        seen = self._threads.submit(see) if group.nbytes > _WORTH_A_THREAD else _done(see)
        if self._writer is None:
            dictionaries = columns_with_dictionaries(group)
            self._writer = pq.ParquetWriter(
                self._sink, self._schema, compression=self._codec, use_dictionary=dictionaries, store_schema=False
            )
        self._writer.write_table(group, row_group_size=group.num_rows)
        seen.result()
        self._raw_bytes += self._pending_bytes
        self._pending, self._pending_bytes, self._pending_rows = [], 0, 0

    def _see(self, rows: pa.Table) -> None:
        if self._statistics is not None:
            self._statistics.see(rows)


def _partition_text(value: pa.Scalar, kind: DataType) -> str | None:
    """The text of a partition value; ValueError or OverflowError where there is none that every reader takes."""
    try:
        found = value.as_py()
    except OverflowError as error:
        raise OverflowError("the log has the years 1 to 9999") from error
    if has_negative_fraction(found):
        raise ValueError("delta-rs opens no table with a partition of a negative fraction as Arrow or pandas data")
    text = partition_text(found, kind)
    if text is not None and "\0" in text:
        raise ValueError("no folder can have its name")
    return text


def row_numbers(count: int, *, start: int = 0) -> pa.Array:
    """Numbers that count up from a start, without a Python object for each."""
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count), start=start - 1)


def with_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches that have rows; errors of foreign data are told in our words."""
    try:
        yield from (batch for batch in batches if batch.num_rows)
    except (pa.ArrowException, OSError) as error:
        raise InvalidInput(f"the data cannot be read to its end: {error}", hint="nothing was committed") from error


def _delete(store: Store, keys: Sequence[str]) -> None:
    if keys:
        with suppress(DeltaMirrorError), Step.DELETE_ROWS:
            store.delete(keys)


def _pieces(rows: pa.Table, group_bytes: int) -> Iterator[pa.Table]:
    """The rows in pieces that are no larger than a row group."""
    parts = max(-(-rows.nbytes // group_bytes), -(-rows.num_rows // _ROW_GROUP_ROWS))
    size = max(1, -(-rows.num_rows // max(parts, 1)))
    for start in range(0, rows.num_rows, size):
        yield rows.slice(start, size)


def _property(metadata: Metadata, key: str, default: str) -> str:
    return metadata.configuration.get(key, default)


def _random_prefix() -> str:
    return "".join(random.choices(_LETTERS, k=_PREFIX_LENGTH))  # noqa: S311 - spreads keys over a store's servers
