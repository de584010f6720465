"""Real Parquet data files and the adds that describe them, as an engine would write both."""

import json
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltamirror.delta.actions import Add, DeletionVector
from deltamirror.delta.paths import PartitionValue, decode_path, encode_path, partition_directory, partition_text
from deltamirror.delta.schema import StructType
from deltamirror.delta.schema.arrow import to_arrow
from deltamirror.txnlog.tables.reading import Snapshot
from tests.support.readers.reader import SeenFile, SeenTable
from tests.support.readers.rows import fingerprint

_FIELD_ID = b"PARQUET:field_id"
_COLUMN_ID = "delta.columnMapping.id"


def data_file(
    folder: Path, rows: pa.Table, *, schema: StructType, partition: Mapping[str, PartitionValue] | None = None
) -> Add:
    """Write rows (without the partition columns) below a table's folder; the add of the file, with statistics.

    Columns get the physical names and field ids that the schema maps them to.
    """
    partition = partition or {}
    stored = _physical(rows, schema)
    directory = partition_directory(partition, {name: partition_text(value) for name, value in partition.items()})
    path = "/".join(filter(None, [directory, f"part-{uuid.uuid4()}.parquet"]))
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(stored, target)
    return Add(
        path=encode_path(path),
        partition_values={_physical_name(schema, name): partition_text(value) for name, value in partition.items()},
        size=target.stat().st_size,
        modification_time=target.stat().st_mtime_ns // 1_000_000,
        data_change=True,
        stats=stats_of(stored),
    )


def stats_of(rows: pa.Table) -> str:
    """The statistics of a file: exact bounds and null counts of its plain columns."""
    columns = {
        name: rows.column(name) for name in rows.column_names if not pa.types.is_nested(rows.schema.field(name).type)
    }
    bounds = {name: pc.min_max(column).as_py() for name, column in columns.items()}
    bounded = {name: bound for name, bound in bounds.items() if bound["min"] is not None}
    stats = {
        "numRecords": rows.num_rows,
        "minValues": {name: _plain(bound["min"]) for name, bound in bounded.items()},
        "maxValues": {name: _plain(bound["max"]) for name, bound in bounded.items()},
        "nullCount": {name: column.null_count for name, column in columns.items()},
    }
    return json.dumps(stats, separators=(",", ":"), ensure_ascii=False)


def seen_by_us(snapshot: Snapshot, folder: Path) -> SeenTable:
    """A snapshot in the form in which readers show tables; its rows are read from the files that it lists.

    A table with deletion vectors hides its rows: nothing here reads what is deleted.
    """
    files = [_seen_file(file) for file in snapshot.files().to_pylist()]
    rows = None if any(file.deletion_vector for file in files) else fingerprint(_rows(snapshot, files, folder))
    return SeenTable(
        reader="deltamirror",
        version=snapshot.version,
        protocol=_protocol(snapshot),
        metadata=_metadata(snapshot),
        files=tuple(sorted(files)),
        row_count=None if rows is None else int(str(rows["count"])),
        row_digest=None if rows is None else str(rows["digest"]),
        schema=_metadata(snapshot)["schema"],
        columns=tuple(field.name for field in snapshot.schema.fields),
    )


def _seen_file(file: Mapping[str, Any]) -> SeenFile:
    vector = file["deletion_vector"]
    values = json.loads(file["partition_values"])
    return SeenFile(
        path=decode_path(file["path"]),
        deletion_vector="" if vector is None else msgspec.json.decode(vector, type=DeletionVector).unique_id,
        size=file["size"],
        partition_values=tuple(sorted(values.items())),
    )


def _rows(snapshot: Snapshot, files: Iterable[SeenFile], folder: Path) -> pa.Table:
    parts = [_rows_of(snapshot, folder / file.path, dict(file.partition_values or ())) for file in files]
    return pa.concat_tables([to_arrow(snapshot.schema).empty_table(), *parts])


def _rows_of(snapshot: Snapshot, path: Path, partition: Mapping[str, str | None]) -> pa.Table:
    stored = pq.ParquetFile(path).read()
    columns = []
    for field, wanted in zip(snapshot.schema.fields, to_arrow(snapshot.schema), strict=True):
        name = field.physical_name
        if name in partition:
            columns.append(pa.repeat(pa.scalar(partition[name], pa.string()), stored.num_rows).cast(wanted.type))
        elif name in stored.column_names:
            columns.append(stored.column(name).cast(wanted.type))
        else:
            columns.append(pa.nulls(stored.num_rows, wanted.type))
    return pa.table(columns, schema=to_arrow(snapshot.schema))


def _protocol(snapshot: Snapshot) -> dict[str, object]:
    protocol = snapshot.protocol
    return {
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "readerFeatures": protocol.reader_features,
        "writerFeatures": protocol.writer_features,
    }


def _metadata(snapshot: Snapshot) -> dict[str, Any]:
    metadata = snapshot.metadata
    return {
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "createdTime": metadata.created_time,
        "partitionColumns": metadata.partition_columns,
        "configuration": metadata.configuration,
        "schema": json.loads(str(metadata.schema_string)),
    }


def _physical(rows: pa.Table, schema: StructType) -> pa.Table:
    fields = [_physical_field(rows.schema.field(name), schema) for name in rows.column_names]
    return pa.table(rows.columns, schema=pa.schema(fields))


def _physical_field(field: pa.Field, schema: StructType) -> pa.Field:
    found = schema.get(field.name)
    assert found is not None, field.name
    number = found.metadata.get(_COLUMN_ID)
    renamed = field.with_name(found.physical_name)
    return renamed if number is None else renamed.with_metadata({_FIELD_ID: str(number).encode()})


def _physical_name(schema: StructType, column: str) -> str:
    found = schema.get(column)
    assert found is not None, column
    return found.physical_name


def _plain(value: Any) -> object:
    match value:
        case datetime():
            return value.replace(tzinfo=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case Decimal():
            return float(value)
        case _:
            return value
