"""The Parquet file of a checkpoint: Arrow tables to bytes, and bytes to Arrow tables.

The file looks like one of the reference writer: format version 1 with data pages of version 1, every field optional,
groups named ``key_value``, ``list`` and ``element``, decimals as integers where they fit, timestamps as INT96, and the
Spark schema in the footer. What pyarrow cannot do as the reference does: the message is named ``schema``, and
timestamps with and without a zone in one file are all INT64, since INT96 would take in both.

Values are plain or from a dictionary. Delta encodings would save a tenth of a real checkpoint, but each of the
engines that read Delta has to know them, and the reference never writes them.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from deltamirror.errors import Internal, InvalidInput
from deltamirror.mirror.checkpoint.blocks import in_threads

__all__ = ["SCHEMA_KEY", "UNREADABLE", "as_stored", "encoded", "is_ours", "leaves", "opened", "row_groups", "table_of"]

SCHEMA_KEY: Final = b"org.apache.spark.sql.parquet.row.metadata"
_VERSION_KEY: Final = b"org.apache.spark.version"
_VERSION: Final = b"4.2.0"
"""Readers on Spark derive the calendar of old dates from it: from 3.1 on, the one that everybody uses."""

_FEWEST_ROWS: Final = 10_000
_UNIQUE: Final = frozenset({"baseRowId", "path", "pathOrInlineDv", "size", "stats"})
_DICTIONARY_BYTES: Final = 256 * 1024
"""Where a column turns out to be unique, this much of every row group was spent in vain."""

UNREADABLE: Final = (pa.ArrowException, OSError, ValueError, LookupError)
"""What pyarrow raises for bytes that are no Parquet file, or a damaged one."""


def encoded(
    batches: Iterable[pa.RecordBatch], columns: pa.Schema, schema: str, *, compression: str, row_group_bytes: int
) -> pa.Buffer:
    """The bytes of the file; ``schema`` is Spark's text for the footer.

    A row group holds at most ``row_group_bytes`` of Arrow data, but no fewer than 10,000 rows unless it is the last.
    """
    sink = pa.BufferOutputStream()
    footer: Mapping[bytes, bytes] = {SCHEMA_KEY: schema.encode(), _VERSION_KEY: _VERSION}
    try:
        with pq.ParquetWriter(sink, columns, **_layout(columns, compression)) as writer:
            for group in _row_groups(batches, columns, row_group_bytes):
                writer.write_table(group, row_group_size=group.num_rows)
            writer.add_key_value_metadata(footer)
    except pa.ArrowException as error:
        raise Internal(f"the checkpoint cannot be written as Parquet: {error}") from error
    return sink.getvalue()


def opened(data: bytes | pa.Buffer) -> pq.ParquetFile:
    """The file of these bytes, to be read in parts; InvalidInput where they are none."""
    try:
        return pq.ParquetFile(pa.BufferReader(data), coerce_int96_timestamp_unit="us")
    except UNREADABLE as error:
        raise InvalidInput(f"not a Parquet file: {error}") from error


def is_ours(data: bytes | pa.Buffer) -> bool:
    """Whether the file looks as if ``encoded`` had written it: by Arrow, with Spark's version."""
    footer = opened(data).metadata
    return footer.created_by.startswith("parquet-cpp-arrow") and (footer.metadata or {}).get(_VERSION_KEY) == _VERSION


def table_of(data: bytes | pa.Buffer) -> pa.Table:
    """All rows of a file; InvalidInput where they cannot be read."""
    file = opened(data)
    try:
        groups = list(row_groups(data, file.num_row_groups))
        return pa.concat_tables(groups) if groups else file.read()
    except UNREADABLE as error:
        raise InvalidInput(f"a damaged Parquet file: {error}") from error


def row_groups(data: bytes | pa.Buffer, count: int) -> Iterator[pa.Table]:
    """The row groups of a file, in order, read by threads: Arrow's own read the leaves of a struct one by one."""
    return in_threads(lambda number: opened(data).read_row_group(number, use_threads=False), range(count))


def as_stored(schema: pa.Schema) -> pa.Schema:
    """The schema that a file shows of a table with this one: INT96 does not tell whether a time has a zone."""
    if not _has_int96(schema):
        return schema
    return pa.schema([field.with_type(_without_zones(field.type)) for field in schema])


def leaves(schema: pa.Schema) -> Iterator[tuple[str, pa.DataType]]:
    """The columns of the Parquet file, with their dotted paths."""
    for field in schema:
        yield from _leaves(field.name, field.type)


def _layout(schema: pa.Schema, compression: str) -> dict[str, object]:
    return {
        "version": "1.0",
        "data_page_version": "1.0",
        "compression": compression,
        "use_dictionary": [path for path, _ in leaves(schema) if path.rpartition(".")[2] not in _UNIQUE],
        "dictionary_pagesize_limit": _DICTIONARY_BYTES,
        "write_statistics": True,
        "use_deprecated_int96_timestamps": _has_int96(schema),
        "store_decimal_as_integer": True,
        "use_compliant_nested_type": True,
        "store_schema": False,
    }


def _row_groups(batches: Iterable[pa.RecordBatch], columns: pa.Schema, limit: int) -> Iterator[pa.Table]:
    waiting = columns.empty_table()
    for batch in batches:
        waiting = pa.concat_tables([waiting, pa.Table.from_batches([batch])])
        while waiting.num_rows > _FEWEST_ROWS and waiting.nbytes > limit:
            count = max(_rows_within(waiting, limit), _FEWEST_ROWS)
            yield waiting.slice(0, count)
            waiting = waiting.slice(count)
    if waiting.num_rows:
        yield waiting


def _rows_within(table: pa.Table, limit: int) -> int:
    """How many of the first rows have no more than so many bytes."""
    return bisect_right(range(1, table.num_rows + 1), limit, key=lambda count: int(table.slice(0, count).nbytes))


def _leaves(path: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path, kind


def _has_int96(schema: pa.Schema) -> bool:
    return all(kind.tz is not None for _, kind in leaves(schema) if pa.types.is_timestamp(kind))


def _without_zones(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us")
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_zones(field.type)) for field in kind])
    return kind
