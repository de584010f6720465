"""The rows of a snapshot as a DataFrame: SQL says which files there are, and Spark's own Parquet reader reads them.

Spark reads what it reads as the log has it: files without deletion vectors, of a table whose columns are known by
name, in a store that it has a file system for. Python tasks read the others; both together are one DataFrame.
"""

import json
import pickle
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from deltamirror.delta.schema import StructType as DeltaStruct
from deltamirror.delta.schema import schema_string
from deltamirror.delta.schema.arrow import from_arrow
from deltamirror.executors.access import explaining
from deltamirror.executors.failures import translated_query
from deltamirror.rows.layout import Layout
from deltamirror.rows.scanning import Listing, Scan, TableFiles, file_groups, scan_of
from deltamirror.rows.skipping import partition_rows
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.location import file_place, local_path

Files = Sequence[Mapping[str, Any]]

_PLAIN_PATH: Final = re.compile(r"[A-Za-z0-9/._=%+-]+")
"""Paths that Spark takes as they are: no pattern, and nothing that is escaped in one place and not in another."""
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""Names of files that Spark does not take for hidden ones."""
_METADATA: Final = "_metadata"
_FILE_NAME: Final = "__deltamirror_file_name"
_OPTIONS: Final[Mapping[str, str]] = {
    "recursiveFileLookup": "true",  # folders are no partition columns: the log has their values
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
}
_S3A: Final = ("impl", "endpoint", "path.style.access", "aws.credentials.provider", "access.key")
_NO_FILES: Final = pa.schema([("partition_values", pa.string()), ("stats", pa.string())]).empty_table()


@dataclass(frozen=True, slots=True)
class GroupReader:
    """Reads columns of groups of files in Python. It travels to executors, without credentials."""

    layout: Layout
    address: StoreAddress
    columns: tuple[str, ...]
    condition: str | None = None
    """Of files that are left out; rows are not looked at."""

    def scan(self, listing: Listing) -> Scan:
        """The files that may have rows."""
        opener = TableFiles.of_executor(self.address)
        return scan_of(self.layout, opener, listing, columns=self.columns, condition=self.condition)

    def batches(self, files: Files) -> Iterator[pa.RecordBatch]:
        """The rows of a group; the part that runs on executors."""
        with explaining():
            yield from replace(self.scan(lambda _: _NO_FILES), files=files).reader()


def frame_of(session: SparkSession, scan: Scan, address: StoreAddress, condition: str | None) -> DataFrame:
    """The rows of a scan; ``condition`` is that of its files, in the words of SQL, which Spark applies to the rows."""
    by_spark, by_tasks = _divided(session, scan, address.location)
    with translated_query(f"read the rows of table {scan.layout.table!r}"):
        frame = _read_by_tasks(session, scan, address, by_tasks)
        if by_spark:
            parquet = _read_by_spark(session, scan, by_spark)
            frame = parquet.union(frame) if by_tasks else parquet
        rows = frame if condition is None else frame.where(condition)
        return rows.select(*(_quoted(each.name) for each in scan.fields))


def spark_schema(schema: pa.Schema) -> StructType:
    """Columns in Spark's words; as with files, Spark takes all of them to be nullable."""
    return StructType.fromJson(json.loads(schema_string(from_arrow(schema))))


def _divided(session: SparkSession, scan: Scan, location: str) -> tuple[dict[str, Mapping[str, Any]], Files]:
    """The files that Spark reads, by the paths that it knows them by, and the others."""
    if not _is_readable_by_spark(scan):
        return {}, scan.files
    names, has_s3 = Counter(_name(each) for each in scan.files), _reaches_s3(session)
    found: dict[str, Mapping[str, Any]] = {}
    others: list[Mapping[str, Any]] = []
    for file in scan.files:
        path = _spark_path(file["path"], location, has_s3=has_s3)
        if path is None or file["deletion_vector"] is not None or names[_name(file)] > 1:
            others.append(file)
        else:
            found[path] = file
    return found, others


def _is_readable_by_spark(scan: Scan) -> bool:
    """Whether columns are found by names of the top: ids are another mode of Spark's reader, for the whole session."""
    layout = scan.layout
    is_named = layout.mode == "none" or (layout.mode == "name" and not any(map(_has_fields, scan.read_fields)))
    return is_named and all(each.name.lower() != _METADATA for each in layout.schema.fields)


def _has_fields(field: Any) -> bool:
    return any(True for path, _ in DeltaStruct((field,)).walk() if len(path) > 1)


def _reaches_s3(session: SparkSession) -> bool:
    """Whether Spark was told how to reach S3: otherwise it has no classes for it, or looks for keys for minutes."""
    return any(session.conf.get(f"spark.hadoop.fs.s3a.{name}", None) is not None for name in _S3A)


def _spark_path(path: str, location: str, *, has_s3: bool) -> str | None:
    """The path of a file for Spark; None where it may take it for another, or has no file system for it."""
    folder, key = file_place(path, location)
    root = local_path(folder)
    if root is not None:
        found = f"file://{root.rstrip('/')}/{key}"
    elif folder.startswith("s3://") and has_s3:
        found = f"s3a://{folder.removeprefix('s3://').rstrip('/')}/{key}"
    else:
        return None
    bare = found.partition("://")[2]
    return found if _PLAIN_PATH.fullmatch(bare) and _PLAIN_NAME.fullmatch(bare.rpartition("/")[2]) else None


def _name(file: Mapping[str, Any]) -> str:
    return str(file["path"]).rpartition("/")[2]


def _read_by_spark(session: SparkSession, scan: Scan, files: Mapping[str, Mapping[str, Any]]) -> DataFrame:
    layout, partitions = scan.layout, {each.name for each in scan.layout.partition_fields}
    data = [each for each in scan.read_fields if each.name not in partitions]
    stored = pa.schema([layout.arrow_field(each).remove_metadata() for each in data])
    frame = session.read.schema(spark_schema(stored)).options(**_OPTIONS).parquet(*files)
    if len(data) < len(scan.read_fields):
        values = session.createDataFrame(_values(files, layout)).hint("broadcast")
        frame = frame.selectExpr("*", f"{_METADATA}.file_name AS {_FILE_NAME}").join(values, _FILE_NAME)
    named = {each.name: _quoted(layout.naming(each)) for each in data}
    return frame.selectExpr(
        *(f"{named.get(each.name, _quoted(each.name))} AS {_quoted(each.name)}" for each in scan.read_fields)
    )


def _values(files: Mapping[str, Mapping[str, Any]], layout: Layout) -> pa.Table:
    """The partition values of files, by their names."""
    rows = partition_rows(list(files.values()), layout)
    columns = [rows.column(each.name) for each in layout.partition_fields]
    names = [path.rpartition("/")[2] for path in files]
    return pa.table([pa.array(names), *columns], names=[_FILE_NAME, *(each.name for each in layout.partition_fields)])


def _read_by_tasks(session: SparkSession, scan: Scan, address: StoreAddress, files: Files) -> DataFrame:
    known = scan.layout.arrow_schema
    columns = tuple(each.name for each in scan.read_fields)
    schema = spark_schema(pa.schema([known.field(name) for name in columns]))
    groups = [(bytearray(pickle.dumps(group)),) for group in file_groups(files)]
    if not groups:
        return session.createDataFrame([], schema)
    reader = GroupReader(scan.layout, address, columns)
    frame = session.createDataFrame(groups, "files binary").repartition(len(groups))
    return frame.mapInArrow(partial(_read_groups, reader), schema)


def _read_groups(reader: GroupReader, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The part that runs on executors: groups of files in, their rows out."""
    groups = [pickle.loads(each.as_buffer()) for batch in batches for each in batch.column(0)]  # noqa: S301  our driver's
    yield from reader.batches(list(chain(*groups)))


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
