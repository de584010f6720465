"""DuckDB's ``delta_scan`` (the Delta kernel in Rust) as a worker: it is told a location, and says what it sees there.

It shows neither protocol nor metadata, and not the version that it read unless that was asked for.
"""

from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_delta
import duckdb_extension_httpfs

from tests.support.rows import fingerprint
from tests.support.s3_access import S3Access
from tests.support.worker import serve, take_stdout


def connect(s3: S3Access | None = None) -> duckdb.DuckDBPyConnection:
    """A connection with the extensions loaded from their wheels: nothing is downloaded."""
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    for name, package in (("httpfs", duckdb_extension_httpfs), ("delta", duckdb_extension_delta)):
        folder = Path(package.__file__).parent / "extensions" / f"v{duckdb.__version__}"
        connection.load_extension(str(folder / f"{name}.duckdb_extension"))
    if s3 is not None:
        connection.execute(_secret(s3))
    return connection


def _secret(s3: S3Access) -> str:
    address = s3.endpoint.removeprefix("http://")
    return (
        f"CREATE SECRET (TYPE s3, KEY_ID '{s3.access_key}', SECRET '{s3.secret_key}', REGION '{s3.region}',"
        f" ENDPOINT '{address}', URL_STYLE 'path', USE_SSL false)"
    )


def snapshot(request: dict[str, Any]) -> dict[str, object]:
    location, version = request["location"], request["version"]
    pinned = "" if version is None else f", version => {int(version)}"
    scan = f"SELECT * FROM delta_scan($1{pinned})"
    with connect(S3Access.asked(request)) as connection:
        listed = connection.execute(f"SELECT * FROM delta_list_files($1{pinned})", [location]).to_arrow_table()
        described = connection.execute(f"DESCRIBE {scan}", [location]).to_arrow_table()
        rows = fingerprint(connection.execute(scan, [location]).to_arrow_table()) if request["rows"] else None
    return {
        "version": version,
        "protocol": None,
        "metadata": None,
        "columns": described.column("column_name").to_pylist(),
        "files": [_file(row, location) for row in listed.to_pylist()],
        "rows": rows,
    }


def _file(row: dict[str, Any], location: str) -> dict[str, object]:
    path = row["data_file"].removeprefix("file://").removeprefix(location.rstrip("/") + "/")
    # It lists a null as the text NULL.
    values = {name: None if value == "NULL" else value for name, value in row["partitions"] or []}
    return {"path": path, "partition_values": values}


if __name__ == "__main__":
    connect().close()
    serve(take_stdout(), f"DuckDB {duckdb.__version__} delta_scan", snapshot)
