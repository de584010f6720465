"""The writers that run in the project's own Python: delta-rs, DuckDB, Sail, and the hand-made logs."""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import duckdb
import duckdb_extension_delta
from pyspark.sql import SparkSession

from tests.reference.delta_rs import DELTA_RS
from tests.reference.handmade import HANDMADE
from tests.reference.others import DUCKDB, SAIL


def main() -> None:
    """Write the logs of one of these writers, and its name into ``writer.json``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("writer", choices=sorted(WRITERS))
    parser.add_argument("--logs", required=True, type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="reference-") as folder:
        names, failed = WRITERS[asked.writer](Path(folder), asked.logs)
    (asked.logs / "writer.json").write_text(json.dumps(names, indent=2) + "\n")
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


Written = tuple[dict[str, str], list[str]]


def delta_rs(folder: Path, logs: Path) -> Written:
    """Whatever delta-rs does."""
    names = {"writer": "delta-rs", "deltalake": version("deltalake")}
    return names, DELTA_RS.run(None, folder=folder, logs=logs)


def with_duckdb(folder: Path, logs: Path) -> Written:
    """Appends by DuckDB, with the extension of its wheel."""
    names = {"writer": "DuckDB", "duckdb": duckdb.__version__, "deltalake": version("deltalake")}
    files = Path(duckdb_extension_delta.__file__).parent / "extensions" / f"v{duckdb.__version__}"
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        connection.load_extension(str(files / "delta.duckdb_extension"))
        return names, DUCKDB.run(connection, folder=folder, logs=logs)


def with_sail(folder: Path, logs: Path) -> Written:
    """Sail, asked through Spark Connect."""
    from pysail.spark import SparkConnectServer  # noqa: PLC0415  (a server, for this writer only)

    server = SparkConnectServer(ip="127.0.0.1", port=0)
    server.start(background=True)
    host, port = server.listening_address
    session = SparkSession.builder.remote(f"sc://{host}:{port}").create()
    try:
        return {"writer": "Sail", "pysail": version("pysail")}, SAIL.run(session, folder=folder, logs=logs)
    finally:
        session.stop()
        server.stop()


def by_hand(folder: Path, logs: Path) -> Written:
    """No writer at all."""
    return {"writer": "tests/reference/handmade.py"}, HANDMADE.run(None, folder=folder, logs=logs)


WRITERS: dict[str, Callable[[Path, Path], Written]] = {
    "delta-rs": delta_rs,
    "duckdb": with_duckdb,
    "sail": with_sail,
    "handmade": by_hand,
}

if __name__ == "__main__":
    main()
