"""A state as the rows of a checkpoint.

Protocol, metadata, domains and transactions (each by name) come first, then the files by path and vector, then the
tombstones by path and vector: a row group of live files holds nothing else.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

import msgspec
import pyarrow as pa

from deltamirror.delta.actions import Metadata, Protocol
from deltamirror.delta.features.table import READER_FEATURES_VERSION, WRITER_FEATURES_VERSION
from deltamirror.delta.schema import schema_string
from deltamirror.delta.schema.arrow import from_arrow
from deltamirror.deltalog.checkpoint.blocks import in_threads
from deltamirror.deltalog.checkpoint.columns import combined
from deltamirror.deltalog.checkpoint.layout import PARTITIONS_PARSED, STATS_PARSED, checkpoint_columns, file_columns
from deltamirror.deltalog.checkpoint.state import CheckpointState
from deltamirror.deltalog.checkpoint.statistics import partition_schema, statistics_schema
from deltamirror.deltalog.checkpoint.typed_columns import partition_values, statistics

_SCHEMAS: Final = 64
_LARGEST_SCHEMA: Final = 64 * 1024
"""Texts that are remembered: a small checkpoint takes as long for its schema as for its rows."""

_PIECE_ROWS: Final = 32 * 1024
_PIECE_BYTES: Final = 64 * 1024 * 1024
"""Far below the two gigabytes of a string column: threads make several batches at a time."""


def row_batches(state: CheckpointState) -> Iterator[pa.RecordBatch]:
    """The rows of a classic checkpoint: a txn, add, remove, metaData, protocol or domainMetadata in each.

    While a batch is used, threads make the next ones.
    """
    schema = checkpoint_columns(state.metadata, state.protocol)
    yield pa.RecordBatch.from_pylist(list(_others(state)), schema=schema)
    yield from _files(state, schema)


def file_rows(state: CheckpointState) -> pa.Table:
    """The table of a sidecar: add, remove."""
    schema = file_columns(state.metadata, state.protocol)
    return pa.Table.from_batches(_files(state, schema), schema)


def checkpoint_schema(columns: pa.Schema) -> str:
    """Spark's JSON text of the columns of a checkpoint or a sidecar, for the pointer and for the Parquet footer.

    Its fields carry no metadata of their own, not even the ids of mapped columns: Spark 4 loses these as it parses
    statistics.
    """
    is_kept = columns.serialize().size <= _LARGEST_SCHEMA
    return _kept_text(columns) if is_kept else _schema_text(columns)


def _schema_text(columns: pa.Schema) -> str:
    return schema_string(from_arrow(columns))


_kept_text: Final = lru_cache(maxsize=_SCHEMAS)(_schema_text)


def _others(state: CheckpointState) -> Iterator[Mapping[str, object]]:
    yield {"protocol": _protocol(state.protocol)}
    yield {"metaData": _metadata(state.metadata)}
    yield from ({"domainMetadata": msgspec.to_builtins(each)} for each in state.domains)
    yield from ({"txn": msgspec.to_builtins(each)} for each in state.transactions)


def _protocol(protocol: Protocol) -> Mapping[str, object]:
    """Features are listed by the versions that list them, and null in others."""
    listed = {
        "readerFeatures": protocol.min_reader_version >= READER_FEATURES_VERSION,
        "writerFeatures": protocol.min_writer_version >= WRITER_FEATURES_VERSION,
    }
    return {name: value for name, value in msgspec.to_builtins(protocol).items() if listed.get(name, True)}


def _metadata(metadata: Metadata) -> Mapping[str, object]:
    body = msgspec.to_builtins(metadata)
    form = {**body["format"], "options": sorted(metadata.format.options.items())}
    return {**body, "format": form, "configuration": sorted(metadata.configuration.items())}


def _files(state: CheckpointState, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    columns = _Columns(state)
    adds = (("add", piece) for piece in _pieces(state.files))
    removes = (("remove", piece) for piece in _pieces(state.removes))
    most = min(_PIECE_ROWS, max(state.files.num_rows, state.removes.num_rows))
    empty = {each.name: pa.nulls(most, each.type) for each in schema}

    def batch(named: tuple[str, pa.Table]) -> pa.RecordBatch:
        name, piece = named
        nulls = {each: array.slice(0, piece.num_rows) for each, array in empty.items()}
        arrays = {**nulls, name: columns.struct(piece, schema.field(name).type)}
        return pa.record_batch(list(arrays.values()), schema)

    yield from in_threads(batch, adds)
    yield from in_threads(batch, removes)


def _pieces(files: pa.Table) -> Iterator[pa.Table]:
    for start in range(0, files.num_rows, _PIECE_ROWS):
        yield from _divided(files.slice(start, _PIECE_ROWS))


def _divided(piece: pa.Table) -> Iterator[pa.Table]:
    if piece.nbytes <= _PIECE_BYTES or piece.num_rows == 1:
        yield piece
        return
    half = piece.num_rows // 2
    yield from _divided(piece.slice(0, half))
    yield from _divided(piece.slice(half))


class _Columns:
    """The fields of file actions: those of the state, and the typed ones."""

    __slots__ = ("_partitions", "_statistics")

    def __init__(self, state: CheckpointState) -> None:
        self._partitions = partition_schema(state.metadata)
        self._statistics = statistics_schema(state.metadata, state.protocol)

    def struct(self, piece: pa.Table, kind: pa.StructType) -> pa.StructArray:
        return pa.StructArray.from_arrays([self._column(piece, each) for each in kind], fields=list(kind))

    def _column(self, piece: pa.Table, each: pa.Field) -> pa.Array:
        match each.name:
            case name if name == PARTITIONS_PARSED:
                return partition_values(combined(piece.column("partitionValues")), self._partitions)
            case name if name == STATS_PARSED and name not in piece.column_names:
                return statistics(combined(piece.column("stats")), self._statistics)
            case name:
                return combined(piece.column(name)).cast(each.type)
