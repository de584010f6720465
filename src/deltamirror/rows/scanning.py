"""The rows of a snapshot as Arrow data, planned from what SQL knows of its files.

Files that the filter excludes are not opened. The others are read by Arrow's own scanner, in parallel and filtered as
they are read; files with deletion vectors one after the other, since that needs the number of each row.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from deltamirror.batches import packed
from deltamirror.config import Settings, StorageSettings
from deltamirror.delta.actions import Add, DeletionVector
from deltamirror.delta.schema import ArrayType, DataType, Field, MapType, StructType, primitive_names
from deltamirror.delta.schema.keys import COLUMN_ID, PHYSICAL_NAME
from deltamirror.errors import InvalidInput, NotFound, Unsupported
from deltamirror.executors.access import executor_store
from deltamirror.rows.casting import Caster
from deltamirror.rows.changes import translated_values
from deltamirror.rows.duties import require_plain_types
from deltamirror.rows.layout import Layout
from deltamirror.rows.parsing import condition_of
from deltamirror.rows.skipping import PartitionChoice, mentioned, partition_choice, partition_guarantee, possible_files
from deltamirror.rows.vectors import RowMask, deleted_ranges
from deltamirror.rows.writing import row_numbers
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.location import file_place, local_path
from deltamirror.storage.open import Stores
from deltamirror.storage.ranges import RangedFile
from deltamirror.storage.store import Store

_GROUP_BYTES: Final = 32 * 1024 * 1024
_OPENING_BYTES: Final = 1024 * 1024
"""What it costs to open a file, in bytes that could be read meanwhile."""
_MOST_GROUPS: Final = 10_000
_NEEDED: Final = (
    *("path", "size", "partition_values", "deletion_vector"),
    *("base_row_id", "default_row_commit_version"),
)
"""What a task needs to know of a file."""
_READ: Final = frozenset(
    {"columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint"}
    | {"vacuumProtocolCheck"}
)
"""The features for readers that make a difference to rows and are understood here, or make none."""
_FIELD_ID: Final = b"PARQUET:field_id"
_FLOATING: Final = frozenset({"float", "double"})
_COMPUTED: Final = "_checked("
"""What Arrow's functions have in their names that fail for some values."""
_NUMBERED: Final = "FieldPath("
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_VECTOR: Final = msgspec.json.Decoder(DeletionVector)


Listing: TypeAlias = Callable[[PartitionChoice | None], pa.Table]
"""Lists the files of a snapshot, as ``Snapshot.files`` does; with a choice, it may leave out other partitions."""


class TableFiles:
    """Opens the files of one table, by their paths in the log."""

    def __init__(
        self, location: str, storage: StorageSettings, store_at: Callable[[StoreAddress], Store] | None = None
    ) -> None:
        self._location, self._storage = location, storage
        self._store_at = store_at or Stores.with_keys(Settings(storage=storage)).at

    @classmethod
    def of_executor(cls, address: StoreAddress) -> Self:
        """Those at an address, in the stores of an executor."""
        return cls(address.location, address.options, executor_store)

    def source(self, path: str, size: int) -> tuple[Any, fs.FileSystem | None]:
        """What Arrow reads a data file from: a path on disk, or a file that is read by ranges."""
        folder, key = file_place(path, self._location)
        if (root := local_path(folder)) is not None:
            return str(Path(root) / key), fs.LocalFileSystem()
        store = self._store(folder)
        return pa.PythonFile(RangedFile(store, key, size, lambda: self._missing(path)), mode="r"), None

    def read(self, path: str, start: int, length: int) -> bytes:
        """Some bytes of a file."""
        folder, key = file_place(path, self._location)
        data = self._store(folder).read_range(key, start, length)
        if data is None:
            raise self._missing(path)
        return data

    def _store(self, folder: str) -> Store:
        return self._store_at(StoreAddress.of(folder, self._storage))

    def _missing(self, path: str) -> NotFound:
        return _missing_file(path, self._location)


@dataclass(frozen=True)  # no slots: what each batch needs is found once
class Scan:
    """What is read of a snapshot: columns, a filter, and the files that may have rows for it."""

    layout: Layout
    opener: TableFiles
    files: Sequence[Mapping[str, Any]]
    fields: tuple[Field, ...]
    condition: pc.Expression | None
    """Of rows."""

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns that come out."""
        known = self.layout.arrow_schema
        return pa.schema([known.field(each.name) for each in self.fields])

    def reader(self) -> pa.RecordBatchReader:
        """The rows, batch by batch, in no particular order."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    @cached_property
    def _pushed(self) -> pc.Expression | None:
        """The filter that Arrow's scanner can take: it knows columns by their names in the files.

        It takes the bounds of a row group, which leave NaN out, for those of all its values: with NaN, rows get lost.
        Values that are computed may fail, which is no fault of a file.
        """
        is_computed = _COMPUTED in str(self.condition)
        return None if self.layout.mode != "none" or is_computed or _has_floats(self._needed) else self.condition

    @cached_property
    def _needed(self) -> list[Field]:
        """The columns that the filter may name."""
        return [] if self.condition is None else mentioned(self.condition, self.layout.schema.fields)

    @cached_property
    def read_fields(self) -> tuple[Field, ...]:
        """The columns to be read: those that come out, and those that a filter needs afterwards."""
        return (*self.fields, *(each for each in self._needed if each not in self.fields))

    def _batches(self) -> Iterator[pa.RecordBatch]:
        whole = [file for file in self.files if file["deletion_vector"] is None]
        with _translated(self.layout.table):
            if whole:
                dataset = ds.FileSystemDataset([self._fragment(each) for each in whole], self._schema, _FORMAT)
                for batch in dataset.scanner(columns=self._columns, filter=self._pushed).to_reader():
                    yield from self._finished(batch, is_filtered=self._pushed is not None)
            for file in self.files:
                if file["deletion_vector"] is not None:
                    yield from self._live(file)

    def numbered_rows(self, file: Mapping[str, Any]) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
        """The live rows of one file in its order, with their numbers in it; no filter is applied."""
        with _translated(self.layout.table):
            mask, at = self._mask(file), 0
            for batch in self._ordered(file):
                kept, numbers = mask.of_next(batch.num_rows), row_numbers(batch.num_rows, start=at)
                at += batch.num_rows
                rows = self._named(batch)
                yield (numbers, rows) if kept is None else (numbers.filter(kept), rows.filter(kept))

    def _live(self, file: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        mask = self._mask(file)
        for batch in self._ordered(file):
            yield from self._finished(mask.live(batch), is_filtered=False)

    def _mask(self, file: Mapping[str, Any]) -> RowMask:
        if file["deletion_vector"] is None:
            return RowMask(())
        return RowMask(deleted_ranges(_VECTOR.decode(file["deletion_vector"]), self.opener.read))

    def _ordered(self, file: Mapping[str, Any]) -> pa.RecordBatchReader:
        scanner = self._fragment(file).scanner(schema=self._schema, columns=self._columns, use_threads=False)
        return scanner.to_reader()

    def _finished(self, batch: pa.RecordBatch, *, is_filtered: bool) -> Iterator[pa.RecordBatch]:
        """The columns and rows that were asked for, under the names that users know."""
        batch = self._named(batch)
        if self.condition is not None and not is_filtered:
            with translated_values(self.layout.table):
                batch = batch.filter(self.condition)
        if batch.num_rows and self.fields:
            yield pa.record_batch([batch.column(each.name) for each in self.fields], schema=self.schema)
        elif batch.num_rows:
            yield batch.select([])  # which keeps the number of rows

    def _named(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.layout.mode == "none" or not batch.num_columns:
            return batch
        return Caster(batch.schema, self._renamed).cast(batch)

    @cached_property
    def _renamed(self) -> Layout:
        """The layout from names in files to those that users know. NOT NULL was checked when rows were written."""
        fields = tuple(replace(_swapped(each), name=each.name) for each in self.read_fields)
        own = tuple(replace(each, metadata={PHYSICAL_NAME: each.name}) for each in fields)
        return replace(self.layout, schema=StructType(own), mode="name")

    @cached_property
    def _schema(self) -> pa.Schema:
        return pa.schema([self.layout.arrow_field(each).remove_metadata() for each in self.layout.schema.fields])

    @cached_property
    def _columns(self) -> dict[str, pc.Expression]:
        return {each.name: pc.field(self.layout.naming(each)) for each in self.read_fields}

    def _fragment(self, file: Mapping[str, Any]) -> ds.ParquetFileFragment:
        source, system = self.opener.source(file["path"], file["size"])
        guarantee = partition_guarantee(file["partition_values"], self.layout, self.layout.naming)
        fragment = _FORMAT.make_fragment(source, system, partition_expression=guarantee)
        if self.layout.mode == "id":
            self._require_same_ids(fragment.physical_schema, file["path"])
        return fragment

    def _require_same_ids(self, found: pa.Schema, path: str) -> None:
        """Refuse a file whose columns are known by their ids only: by name, they would be read as null."""
        names = {each.metadata.get(COLUMN_ID): self.layout.naming(each) for each in self.layout.schema.fields}
        for each in found:
            number = int((each.metadata or {}).get(_FIELD_ID, -1))
            if names.get(number, each.name) != each.name:
                raise Unsupported(
                    f"table {self.layout.table!r}: {path} names its columns by ids, {each.name!r} is {number}",
                    hint="read this table by Delta Spark",
                    table=self.layout.table,
                )


_FORMAT: Final = ds.ParquetFileFormat(coerce_int96_timestamp_unit="us")


def scan_of(
    layout: Layout, opener: TableFiles, listing: Listing, *, columns: Sequence[str] | None, condition: object
) -> Scan:
    """The scan of the files of a snapshot; InvalidInput for an unknown column."""
    require_readable_rows(layout)
    fields = layout.schema.fields if columns is None else tuple(_column(name, layout) for name in columns)
    of_rows, of_bounds = _expressions(condition, layout)
    return Scan(layout, opener, listed_files(listing, of_bounds, layout), fields, of_rows)


def listed_files(listing: Listing, bounds: pc.Expression | None, layout: Layout) -> list[dict[str, Any]]:
    """The files of a listing that may have rows for a filter, each as a mapping; None: all of them."""
    files = listing(partition_choice(bounds, layout))
    texts = files["partition_values"].to_pylist()
    decoded = {text: msgspec.json.decode(text) for text in dict.fromkeys(texts)}
    values = [decoded[text] for text in texts]
    if bounds is not None:
        numbers = possible_files(values, files["stats"].to_pylist(), bounds, layout)
        files, values = files.take(pa.array(numbers, pa.int64())), [values[each] for each in numbers]
    return [{**file, "partition_values": each} for file, each in zip(files.to_pylist(), values, strict=True)]


def file_groups(files: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """The files in groups of about the same size, each for one task."""
    most = max(_GROUP_BYTES, sum(map(_reading_cost, files)) // _MOST_GROUPS)
    needed = ({name: file[name] for name in _NEEDED} for file in files)
    return packed(needed, _reading_cost, most)


def _reading_cost(file: Mapping[str, Any]) -> int:
    return int(file["size"]) + _OPENING_BYTES


def listed_adds(adds: Iterable[Add]) -> list[dict[str, Any]]:
    """Files as a scan knows them."""
    return [
        {
            "path": each.path,
            "size": each.size,
            "partition_values": each.partition_values,
            "deletion_vector": None if each.deletion_vector is None else msgspec.json.encode(each.deletion_vector),
            "base_row_id": each.base_row_id,
            "default_row_commit_version": each.default_row_commit_version,
        }
        for each in adds
    ]


def scan_of_adds(layout: Layout, opener: TableFiles, adds: Iterable[Add]) -> Scan:
    """The scan of all rows of some files."""
    require_readable_rows(layout)
    return Scan(layout, opener, listed_adds(adds), layout.schema.fields, None)


def require_readable_rows(layout: Layout) -> None:
    """Refuse a table with a feature, or a type, whose rows are not understood here."""
    unknown = sorted(set(layout.protocol.reader_features or ()) - _READ)
    if unknown:
        raise Unsupported(
            f"table {layout.table!r}: rows cannot be read with the features {', '.join(unknown)}",
            hint="read this table by Delta Spark",
            table=layout.table,
            features=tuple(unknown),
        )
    require_plain_types(layout, "read")


def _column(name: str, layout: Layout) -> Field:
    if (found := layout.schema.get(name)) is None:
        known = ", ".join(each.name for each in layout.schema.fields)
        raise InvalidInput(f"table {layout.table!r} has no column {name!r}", hint=f"there are: {known}")
    return found


def _expressions(condition: object, layout: Layout) -> tuple[pc.Expression | None, pc.Expression | None]:
    """The filter as one of rows, and as one of the bounds of files."""
    if condition is None:
        return None, None
    if isinstance(condition, str):
        found = condition_of(condition, layout)
        return found.of_rows(), found.of_bounds()
    if not isinstance(condition, pc.Expression):
        hint = "write it like \"day = '2026-11-16'\", or give an expression: pc.field('day') == …"
        raise InvalidInput(f"filter has to be a condition, not {type(condition).__name__}", hint=hint)
    _require_expression(condition, layout)
    return condition, condition


def _require_expression(condition: pc.Expression, layout: Layout) -> None:
    schema = layout.arrow_schema
    try:
        schema.empty_table().filter(condition)
        if _NUMBERED in _QUOTED.sub("", str(condition)):
            raise KeyError("it names a column by its number")
    except (pa.ArrowException, KeyError, TypeError) as error:
        hint = f"name its columns, as in pc.field({schema.names[0]!r}) == …: there are {', '.join(schema.names)}"
        raise InvalidInput(f"table {layout.table!r} cannot be filtered by {condition}: {error}", hint=hint) from error


def _has_floats(fields: Sequence[Field]) -> bool:
    every = (each.type for _, each in StructType(tuple(fields)).walk())
    return any(name in _FLOATING for kind in every for name in primitive_names(kind))


def _swapped(field: Field) -> Field:
    """A field under its name in files, that is to get the name that users know."""
    metadata = {PHYSICAL_NAME: field.name}
    return Field(field.physical_name, _swapped_type(field.type), nullable=True, metadata=metadata)


def _swapped_type(kind: DataType) -> DataType:
    match kind:
        case StructType(fields):
            return StructType(tuple(_swapped(each) for each in fields))
        case ArrayType(element):
            return ArrayType(_swapped_type(element))
        case MapType(key, value):
            return MapType(_swapped_type(key), _swapped_type(value))
        case _:
            return kind


@contextmanager
def _translated(table: str) -> Iterator[None]:
    """What Arrow finds wrong with data files, in our words."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"table {table!r}: a data file is missing: {error}", hint=_MISSING, table=table) from error
    except (pa.ArrowException, OSError) as error:
        raise InvalidInput(f"table {table!r}: a data file cannot be read: {error}", hint=_MISSING) from error


_MISSING: Final = "was it deleted, by VACUUM with too short a retention? `deltamirror verify` compares log and store"


def _missing_file(path: str, location: str) -> NotFound:
    return NotFound(f"there is no {path} in {location}, or it has another size", hint=_MISSING)
