"""DuckDB's ``delta_scan`` (the Delta kernel in Rust) as a worker: it is told a location, and says what it sees there.

It shows neither protocol nor metadata, and not the version that it read unless that was asked for.
"""

from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_delta

from tests.support.rows import fingerprint
from tests.support.worker import serve, take_stdout


def connect() -> duckdb.DuckDBPyConnection:
    """A connection with the extension loaded from its wheel: nothing is downloaded."""
    folder = Path(duckdb_extension_delta.__file__).parent / "extensions" / f"v{duckdb.__version__}"
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    connection.load_extension(str(folder / "delta.duckdb_extension"))
    return connection


def snapshot(request: dict[str, Any]) -> dict[str, object]:
    location, version = request["location"], request["version"]
    pinned = "" if version is None else f", version => {int(version)}"
    with connect() as connection:
        listed = connection.execute(f"SELECT * FROM delta_list_files($1{pinned})", [location]).to_arrow_table()
        scan = f"SELECT * FROM delta_scan($1{pinned})"
        rows = fingerprint(connection.execute(scan, [location]).to_arrow_table()) if request["rows"] else None
    files = [_file(row, location) for row in listed.to_pylist()]
    return {"version": version, "protocol": None, "metadata": None, "files": files, "rows": rows}


def _file(row: dict[str, Any], location: str) -> dict[str, object]:
    path = row["data_file"].removeprefix("file://").removeprefix(location.rstrip("/") + "/")
    # It lists a null as the text NULL.
    values = {name: None if value == "NULL" else value for name, value in row["partitions"] or []}
    return {"path": path, "partition_values": values}


if __name__ == "__main__":
    connect().close()
    serve(take_stdout(), f"DuckDB {duckdb.__version__} delta_scan", snapshot)
