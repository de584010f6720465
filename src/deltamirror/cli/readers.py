"""Delta readers of other people, which the tour asks what they see. Any of them may be missing."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

__all__ = ["READERS", "Reader", "Rows"]

Rows: TypeAlias = list[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader that knows nothing of the catalog."""

    name: str
    packages: str
    """What pip installs it by."""
    read: Callable[[str], pa.Table]

    def rows(self, folder: Path) -> Rows | None:
        """The rows of the table in a folder, as text, sorted; None where the reader is not installed."""
        try:
            found = self.read(str(folder))
        except ModuleNotFoundError:
            return None
        return sorted(tuple(str(value) for value in row.values()) for row in found.to_pylist())


# Imported by name, since neither is a dependency. This DuckDB is no catalog's database, which only txnlog may open: it
# reads files, as any other program would.
def _delta_rs(folder: str) -> pa.Table:
    return import_module("deltalake").DeltaTable(folder).to_pyarrow_table()


def _duckdb(folder: str) -> pa.Table:
    duckdb, extension = import_module("duckdb"), import_module("duckdb_extension_delta")
    file = Path(extension.__file__ or "").parent / "extensions" / f"v{duckdb.__version__}" / "delta.duckdb_extension"
    if not file.exists():
        raise ModuleNotFoundError(f"no Delta extension for DuckDB {duckdb.__version__}")
    with duckdb.connect() as connection:
        connection.load_extension(str(file))
        return connection.table_function("delta_scan", [folder]).to_arrow_table()


READERS = (
    Reader("delta-rs", "deltalake pyarrow", _delta_rs),
    Reader("DuckDB", "duckdb duckdb-extension-delta", _duckdb),
)
