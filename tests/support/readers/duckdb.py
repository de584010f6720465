"""DuckDB's ``delta_scan`` (the Delta kernel in Rust) as a worker: it is told a location, and says what it sees there,
or appends to it.

It shows neither protocol nor metadata, and not the version that it read unless that was asked for.
"""

from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_delta
import duckdb_extension_httpfs
import pyarrow as pa

from tests.support.readers.rows import fingerprint, rows_or_error
from tests.support.readers.s3_access import S3Access
from tests.support.suite.worker import serve, take_stdout


class DuckDB:
    """Answers requests, from one database in memory: to load the extensions for each would take longer than to read."""

    def __init__(self) -> None:
        """Load the extensions from their wheels: nothing is downloaded."""
        # A table that is copied to where another one was may have files of the same names.
        self._connection = duckdb.connect(
            config={"autoinstall_known_extensions": "false", "enable_external_file_cache": "false"}
        )
        for name, package in (("httpfs", duckdb_extension_httpfs), ("delta", duckdb_extension_delta)):
            folder = Path(package.__file__).parent / "extensions" / f"v{duckdb.__version__}"
            self._connection.load_extension(str(folder / f"{name}.duckdb_extension"))

    def answer(self, request: dict[str, Any]) -> object:
        """Do what one request asks."""
        if "rows_of" in request:
            return [rows_or_error(self._read, *each) for each in request["rows_of"]]
        if "append" not in request:
            return self.snapshot(request)
        self.append(request["append"])
        return None

    def append(self, location: str) -> None:
        """Add a row whose id is 0 to the table at a location."""
        self._connection.execute(f"ATTACH '{location}' AS appended (TYPE delta)")
        try:
            self._connection.execute("INSERT INTO appended VALUES (0)")
        finally:
            self._connection.execute("DETACH appended")

    def snapshot(self, request: dict[str, Any]) -> dict[str, object]:
        """The table at a location."""
        location, version = request["location"], request["version"]
        if s3 := S3Access.asked(request):
            self._connection.execute(_secret(s3))
        pinned = "" if version is None else f", version => {int(version)}"
        scan = f"SELECT * FROM delta_scan($1{pinned})"
        return {
            "version": version,
            "protocol": None,
            "metadata": None,
            "columns": self._asked(f"DESCRIBE {scan}", location).column("column_name").to_pylist(),
            "files": [_file(row, location) for row in self._listed(location, pinned)],
            "rows": fingerprint(self._asked(scan, location)) if request["rows"] else None,
        }

    def _read(self, location: str, column: str | None) -> pa.Table:
        condition = "" if column is None else " WHERE {} IS NOT NULL".format('"' + column.replace('"', '""') + '"')
        return self._asked(f"SELECT * FROM delta_scan($1){condition}", location)

    def _listed(self, location: str, pinned: str) -> list[dict[str, Any]]:
        files: list[dict[str, Any]] = self._asked(f"SELECT * FROM delta_list_files($1{pinned})", location).to_pylist()
        return files

    def _asked(self, statement: str, location: str) -> pa.Table:
        return self._connection.execute(statement, [location]).to_arrow_table()


def _secret(s3: S3Access) -> str:
    address = s3.endpoint.removeprefix("http://")
    return (
        f"CREATE OR REPLACE SECRET (TYPE s3, KEY_ID '{s3.access_key}', SECRET '{s3.secret_key}', REGION '{s3.region}',"
        f" ENDPOINT '{address}', URL_STYLE 'path', USE_SSL false)"
    )


def _file(row: dict[str, Any], location: str) -> dict[str, object]:
    path = row["data_file"].removeprefix("file://").removeprefix(location.rstrip("/") + "/")
    # It lists a null as the text NULL.
    values = {name: None if value == "NULL" else value for name, value in row["partitions"] or []}
    return {"path": path, "partition_values": values}


if __name__ == "__main__":
    serve(take_stdout(), f"DuckDB {duckdb.__version__} delta_scan", DuckDB().answer)
