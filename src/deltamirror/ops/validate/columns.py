"""The columns of a checkpoint's files: the fields that actions have, in the types that the protocol gives them.

How Arrow or Parquet name the parts of lists and maps, which width strings have, and what may be null, differs from
writer to writer, and keeps no reader out.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa

from deltamirror.delta.schema import Field, StructType, from_ddl
from deltamirror.delta.schema.arrow import from_arrow, to_arrow
from deltamirror.delta.schema.types import ArrayType, DataType, MapType
from deltamirror.deltalog.checkpoint.layout import PARTITIONS_PARSED, STATS_PARSED
from deltamirror.deltalog.rules.findings import Finding, LogObject
from deltamirror.errors import InvalidSchema

_VECTOR: Final = (
    "deletionVector struct<storageType: string not null, pathOrInlineDv: string not null, offset: int,"
    " sizeInBytes: int not null, cardinality: long not null, maxRowIndex: long>"
)
ACTIONS: Final[Mapping[str, StructType]] = {
    "txn": from_ddl("appId string not null, version long not null, lastUpdated long"),
    "add": from_ddl(
        "path string not null, partitionValues map<string, string> not null, size long not null,"
        " modificationTime long not null, dataChange boolean not null, tags map<string, string>,"
        f" {_VECTOR}, baseRowId long, defaultRowCommitVersion long, clusteringProvider string, stats string"
    ),
    "remove": from_ddl(
        "path string not null, deletionTimestamp long, dataChange boolean not null, extendedFileMetadata boolean,"
        f" partitionValues map<string, string>, size long, {_VECTOR}, baseRowId long, defaultRowCommitVersion long,"
        " tags map<string, string>, stats string"
    ),
    "metaData": from_ddl(
        "id string not null, name string, description string,"
        " format struct<provider: string not null, options: map<string, string>> not null,"
        " schemaString string, partitionColumns array<string> not null,"
        " configuration map<string, string> not null, createdTime long"
    ),
    "protocol": from_ddl(
        "minReaderVersion int not null, minWriterVersion int not null,"
        " readerFeatures array<string>, writerFeatures array<string>"
    ),
    "domainMetadata": from_ddl("domain string not null, configuration string not null, removed boolean not null"),
    "checkpointMetadata": from_ddl("version long not null, tags map<string, string>"),
    "sidecar": from_ddl(
        "path string not null, sizeInBytes long not null, modificationTime long not null, tags map<string, string>"
    ),
}
"""The actions of checkpoints. A field that is not nullable is there in every action.

That a metaData has a schema is a rule of metaData.
"""

_COUNT: Final = from_ddl("count long").fields[0].type
_STATISTICS: Final = {each.name: each for each in from_ddl("numRecords long, tightBounds boolean").fields}


def ill_typed(subject: LogObject, schema: pa.Schema) -> Iterator[tuple[str, Finding]]:
    """The columns of a file that no reader expects, each with the action that it belongs to."""
    for action, path, expected, found in _mismatches(schema):
        yield action, subject.finding("checkpoint.schema", field=path, expected=expected, found=found)


def _mismatches(schema: pa.Schema) -> Iterator[tuple[str, str, str, str]]:
    """Action, path, what was expected, and what was found."""
    for name, path in _repeated(schema, ""):
        yield name, path, "one column, whatever the case of its letters", "several"
    for column in schema:
        if (fields := ACTIONS.get(column.name)) is not None:
            for path, expected, found in _of_column(column, fields):
                yield column.name, path, expected, found


def _repeated(fields: pa.Schema | pa.StructType, parent: str) -> Iterator[tuple[str, str]]:
    """Names that differ in the case of letters only: Delta Spark takes one of them, others fail."""
    counts = Counter(each.name.lower() for each in fields)
    for each in fields:
        if counts[each.name.lower()] > 1:
            yield parent or each.name, f"{parent}.{each.name}" if parent else each.name
        elif not parent and each.name in ACTIONS and pa.types.is_struct(each.type):
            yield from _repeated(each.type, each.name)


def _of_column(column: pa.Field, expected: StructType) -> Iterator[tuple[str, str, str]]:
    if not pa.types.is_struct(column.type):
        yield column.name, "a struct", str(column.type)
        return
    yield from _of_struct(column.name, column.type, expected)
    if column.name == "add":
        yield from _of_typed_columns(column.type)


def _of_struct(path: str, found: pa.StructType, expected: StructType) -> Iterator[tuple[str, str, str]]:
    there = {each.name: each for each in found}
    for each in expected.fields:
        place, column = f"{path}.{each.name}", there.get(each.name)
        if column is None:
            yield from [] if each.nullable else [(place, _spelled(each.type), "no such column")]
        elif isinstance(each.type, StructType) and pa.types.is_struct(column.type):
            yield from _of_struct(place, column.type, each.type)
        elif not _holds(column, each.type):
            yield place, _spelled(each.type), str(column.type)


def _of_typed_columns(add: pa.StructType) -> Iterator[tuple[str, str, str]]:
    for each in add:
        if each.name in (PARTITIONS_PARSED, STATS_PARSED) and not pa.types.is_struct(each.type):
            yield f"add.{each.name}", "a struct", str(each.type)
        elif each.name == STATS_PARSED:
            yield from _of_statistics(each.type)


def _of_statistics(parsed: pa.StructType) -> Iterator[tuple[str, str, str]]:
    """Bounds have the types of the table's columns, or those that they had before they were widened."""
    for each in parsed:
        path = f"add.{STATS_PARSED}.{each.name}"
        if each.name in _STATISTICS and not _holds(each, _STATISTICS[each.name].type):
            yield path, _spelled(_STATISTICS[each.name].type), str(each.type)
        elif each.name in ("minValues", "maxValues", "nullCount") and not pa.types.is_struct(each.type):
            yield path, "a struct", str(each.type)
        elif each.name == "nullCount":
            yield from _of_counts(path, each.type)


def _of_counts(path: str, counts: pa.StructType) -> Iterator[tuple[str, str, str]]:
    for each in counts:
        if pa.types.is_struct(each.type):
            yield from _of_counts(f"{path}.{each.name}", each.type)
        elif not _holds(each, _COUNT):
            yield f"{path}.{each.name}", _spelled(_COUNT), str(each.type)


def _holds(column: pa.Field, expected: DataType) -> bool:
    try:
        [found] = from_arrow(pa.schema([column])).fields
    except InvalidSchema:
        return False
    return _plain(found.type) == _plain(expected)


def _plain(kind: DataType) -> DataType:
    """The type, whatever in it may be null."""
    match kind:
        case ArrayType(element, _):
            return ArrayType(_plain(element))
        case MapType(key, value, _):
            return MapType(_plain(key), _plain(value))
        case StructType(fields):
            return StructType(tuple(Field(each.name, _plain(each.type)) for each in fields))
        case _:
            return kind


def _spelled(kind: DataType) -> str:
    return str(to_arrow(StructType((Field("column", kind),))).field(0).type)
