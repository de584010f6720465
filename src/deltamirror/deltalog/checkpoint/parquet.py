"""The Parquet file of a checkpoint, read; ``encoding`` writes it."""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from deltamirror.errors import InvalidInput

SCHEMA_KEY: Final = b"org.apache.spark.sql.parquet.row.metadata"
VERSION_KEY: Final = b"org.apache.spark.version"
VERSION: Final = b"4.2.0"
"""Readers on Spark derive the calendar of old dates from it: from 3.1 on, the proleptic Gregorian one."""

UNREADABLE: Final = (pa.ArrowException, OSError, ValueError, LookupError)
"""What pyarrow raises for bytes that are no Parquet file, or a damaged one."""


def opened(data: bytes | pa.Buffer, footer: pq.FileMetaData | None = None) -> pq.ParquetFile:
    """The file of these bytes, to be read in parts; InvalidInput where they are none.

    With a footer that was read before, nothing is checked again.
    """
    try:
        return pq.ParquetFile(pa.BufferReader(data), metadata=footer, coerce_int96_timestamp_unit="us")
    except UNREADABLE as error:
        raise InvalidInput(f"not a Parquet file: {error}") from error


class File:
    """A file in memory, whose footer is read once."""

    def __init__(self, data: bytes | pa.Buffer) -> None:
        self.data = data
        self._opened = opened(data)

    @property
    def metadata(self) -> pq.FileMetaData:
        """The footer."""
        return self._opened.metadata

    @property
    def schema(self) -> pa.Schema:
        """The columns as Arrow shows them."""
        return self._opened.schema_arrow

    def row_group(self, number: int, *, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of one row group, or some columns of them; InvalidInput where they cannot be read.

        Threads may read several row groups at the same time, each by a reader of its own; but not the only one.
        """
        reader = self._opened if self.metadata.num_row_groups == 1 else opened(self.data, self.metadata)
        return _read(reader, number, columns)


def is_ours(data: bytes | pa.Buffer) -> bool:
    """Whether the file looks as if ``encoded`` had written it."""
    return has_our_form(opened(data).metadata)


def has_our_form(footer: pq.FileMetaData) -> bool:
    """Whether a file with this footer looks as if ``encoded`` had written it: by Arrow, with Spark's version."""
    return footer.created_by.startswith("parquet-cpp-arrow") and (footer.metadata or {}).get(VERSION_KEY) == VERSION


def as_stored(schema: pa.Schema) -> pa.Schema:
    """The schema that a file shows of a table with this one."""
    if not has_int96(schema):
        return schema
    return pa.schema([field.with_type(_without_zones(field.type)) for field in schema])


def leaves(schema: pa.Schema) -> Iterator[tuple[str, pa.DataType]]:
    """The columns of the Parquet file, with their dotted paths."""
    for field in schema:
        yield from _leaves(field.name, field.type)


def _read(file: pq.ParquetFile, number: int, columns: Sequence[str] | None) -> pa.Table:
    try:
        return file.read_row_group(number, columns=columns, use_threads=False)
    except UNREADABLE as error:
        raise InvalidInput(f"a damaged Parquet file: {error}") from error


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


def has_int96(schema: pa.Schema) -> bool:
    """Whether times are stored as the reference has them: INT96 does not tell whether a time has a zone."""
    return all(kind.tz is not None for _, kind in leaves(schema) if pa.types.is_timestamp(kind))


def _without_zones(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us")
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_zones(field.type)) for field in kind])
    return kind
