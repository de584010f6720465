"""ClickHouse (``chdb``, on the Delta kernel in Rust) as a worker: it is told a location, and says what it sees there.

It shows neither protocol nor metadata, no partition values, and not the version that it read unless that was asked for.
Files are known by the rows that come from them: it lists those that have rows, and lists none unless rows are asked
for. It knows no null list, map or struct: of a table with such columns it shows how many rows there are, not which.
"""

import os
from typing import Any
from urllib.parse import quote

import chdb
import pyarrow as pa

from tests.support.readers.rows import fingerprint
from tests.support.readers.s3_access import S3Access, bucket_and_key
from tests.support.suite.worker import serve, take_stdout


def snapshot(request: dict[str, Any]) -> dict[str, object]:
    table, root = _table_function(request["location"], S3Access.asked(request))
    version = request["version"]
    settings = "" if version is None else f" SETTINGS delta_lake_snapshot_version = {int(version)}"
    columns = _asked(f"DESCRIBE TABLE {table}{settings}").column("name").to_pylist()
    rows = _asked(f"SELECT * FROM {table}{settings}") if request["rows"] else None
    return {
        "version": version,
        "protocol": None,
        "metadata": None,
        "columns": columns,
        "files": None if rows is None else _files(table, settings, root),
        "rows": None if rows is None else _rows(rows),
    }


def _table_function(location: str, s3: S3Access | None) -> tuple[str, str]:
    """The call that reads a table, and what its files' paths begin with."""
    if s3 is None:
        return f"deltaLakeLocal({_quoted(location)})", location.rstrip("/") + "/"
    bucket, key = bucket_and_key(location)
    arguments = (f"{s3.endpoint}/{bucket}/{quote(key)}", s3.access_key, s3.secret_key)
    return f"deltaLake({', '.join(map(_quoted, arguments))})", f"{bucket}/{key}/"


def _files(table: str, settings: str, root: str) -> list[dict[str, object]]:
    found = _asked(f"SELECT DISTINCT _path AS path, _size AS size FROM {table}{settings}").to_pylist()
    return [{"path": row["path"].removeprefix(root), "size": row["size"], "partition_values": None} for row in found]


def _rows(rows: pa.Table) -> dict[str, object]:
    shown = fingerprint(rows)
    return {**shown, "digest": None} if any(pa.types.is_nested(field.type) for field in rows.schema) else shown


def _asked(statement: str) -> pa.Table:
    return chdb.query(statement, "ArrowTable")  # type: ignore[no-untyped-call]  # it has no annotations


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


if __name__ == "__main__":
    # It reads below its working directory only.
    os.chdir("/")
    serve(take_stdout(), f"ClickHouse {chdb.engine_version} (chdb {chdb.__version__})", snapshot)
