"""The columns of a checkpoint, in the reference writer's order. Every one of them is nullable.

``stats`` follows ``clusteringProvider``, unlike in the lines of the log; ``remove`` has neither tags nor stats.
"""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from deltamirror.delta.actions import Metadata, Protocol
from deltamirror.delta.properties import write_stats_as_json, write_stats_as_struct
from deltamirror.delta.schema import Field, StructType, from_ddl
from deltamirror.delta.schema.arrow import to_arrow
from deltamirror.deltalog.checkpoint.statistics import partition_schema, statistics_schema

PARTITIONS_PARSED: Final = "partitionValues_parsed"
STATS_PARSED: Final = "stats_parsed"

_VECTOR: Final = (
    "deletionVector struct<storageType: string, pathOrInlineDv: string, offset: int, sizeInBytes: int,"
    " cardinality: long, maxRowIndex: long>"
)
_ADD: Final = from_ddl(
    "path string, partitionValues map<string, string>, size long, modificationTime long, dataChange boolean,"
    f" tags map<string, string>, {_VECTOR}, baseRowId long, defaultRowCommitVersion long, clusteringProvider string,"
    " stats string"
)
_REMOVE: Final = from_ddl(
    "path string, deletionTimestamp long, dataChange boolean, extendedFileMetadata boolean,"
    f" partitionValues map<string, string>, size long, {_VECTOR}, baseRowId long, defaultRowCommitVersion long"
)
_OTHERS: Final[Mapping[str, StructType]] = {
    "txn": from_ddl("appId string, version long, lastUpdated long"),
    "metaData": from_ddl(
        "id string, name string, description string,"
        " format struct<provider: string, options: map<string, string>>, schemaString string,"
        " partitionColumns array<string>, configuration map<string, string>, createdTime long"
    ),
    "protocol": from_ddl(
        "minReaderVersion int, minWriterVersion int, readerFeatures array<string>, writerFeatures array<string>"
    ),
    "domainMetadata": from_ddl("domain string, configuration string, removed boolean"),
}


def _state_schema(schema: StructType) -> pa.Schema:
    """Paths and statistics of many files together exceed the two gigabytes of a string column."""
    wide = ("path", "stats")
    return pa.schema([each.with_type(pa.large_string()) if each.name in wide else each for each in to_arrow(schema)])


FILES: Final = _state_schema(_ADD)
"""The columns of ``CheckpointState.files``."""

REMOVES: Final = _state_schema(_REMOVE)
"""The columns of ``CheckpointState.removes``."""

VECTOR: Final[pa.StructType] = FILES.field("deletionVector").type


def add_schema(metadata: Metadata, protocol: Protocol) -> StructType:
    """The fields of ``add``: with statistics as text, with typed partition values and statistics, as the table asks."""
    fields = _ADD.fields if write_stats_as_json(metadata) else _ADD.fields[:-1]
    if not write_stats_as_struct(metadata):
        return StructType(fields)
    partitions = partition_schema(metadata)
    typed = (Field(PARTITIONS_PARSED, partitions),) if partitions.fields else ()
    return StructType((*fields, *typed, Field(STATS_PARSED, statistics_schema(metadata, protocol))))


def checkpoint_columns(metadata: Metadata, protocol: Protocol) -> pa.Schema:
    """The columns of a classic checkpoint."""
    files = {"add": add_schema(metadata, protocol), "remove": _REMOVE}
    columns = {"txn": _OTHERS["txn"], **files, **_OTHERS}
    return to_arrow(StructType(tuple(Field(name, kind) for name, kind in columns.items())))


def file_columns(metadata: Metadata, protocol: Protocol) -> pa.Schema:
    """The columns of a sidecar."""
    return to_arrow(StructType((Field("add", add_schema(metadata, protocol)), Field("remove", _REMOVE))))
