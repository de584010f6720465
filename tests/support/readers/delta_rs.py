"""The delta-rs reader (``deltalake``) as a worker: it is told a location, and says what it sees there."""

import json
from datetime import date
from typing import Any
from urllib.parse import unquote

import deltalake
import pyarrow as pa

from tests.support.readers.azure_access import AzureAccess
from tests.support.readers.rows import fingerprint, rows_or_error
from tests.support.readers.s3_access import S3Access
from tests.support.suite.worker import serve, take_stdout


def answer(request: dict[str, Any]) -> object:
    """Do what one request asks."""
    if "rows_of" in request:
        return [rows_or_error(_read, *each) for each in request["rows_of"]]
    return snapshot(request)


def _read(location: str, column: str | None) -> pa.Table:
    condition = "" if column is None else " WHERE {} IS NOT NULL".format('"' + column.replace('"', '""') + '"')
    table = deltalake.DeltaTable(location)
    return pa.table(deltalake.QueryBuilder().register("t", table).execute(f"SELECT * FROM t{condition}"))


def snapshot(request: dict[str, Any]) -> dict[str, object]:
    """The table at a location."""
    access = S3Access.asked(request) or AzureAccess.asked(request)
    options = access.environment() if access else None
    table = deltalake.DeltaTable(request["location"], version=request["version"], storage_options=options)
    return {
        "version": table.version(),
        "protocol": _protocol(table),
        "metadata": _metadata(table),
        "files": [_file(action) for action in pa.table(table.get_add_actions()).to_pylist()],
        "rows": _rows(table) if request["rows"] else None,
    }


def _protocol(table: deltalake.DeltaTable) -> dict[str, object]:
    protocol = table.protocol()
    return {
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "readerFeatures": protocol.reader_features,
        "writerFeatures": protocol.writer_features,
    }


def _metadata(table: deltalake.DeltaTable) -> dict[str, object]:
    metadata = table.metadata()
    return {
        "id": str(metadata.id),
        "name": metadata.name,
        "description": metadata.description,
        "createdTime": metadata.created_time,
        "partitionColumns": metadata.partition_columns,
        "configuration": metadata.configuration,
        "schema": json.loads(table.schema().to_json()),
    }


def _file(action: dict[str, Any]) -> dict[str, object]:
    values = action.get("partition") or {}
    return {
        "path": unquote(action["path"]),
        "size": action["size_bytes"],
        "partition_values": {name: _text(value) for name, value in values.items()},
    }


def _text(value: object) -> str | None:
    """A partition value as the log writes it, for the types whose text does not depend on a time zone."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case date():
            return value.isoformat()
        case _:
            return str(value)


def _rows(table: deltalake.DeltaTable) -> dict[str, object]:
    batches = deltalake.QueryBuilder().register("t", table).execute("SELECT * FROM t")
    return fingerprint(pa.table(batches))


if __name__ == "__main__":
    serve(take_stdout(), f"delta-rs {deltalake.__version__}", answer)
