"""The change data feed of a table, as Delta Lake on Spark reads it."""

from collections.abc import Sequence
from pathlib import Path

from tests.support.readers.reader import Reader


def feed(spark: Reader, folder: Path, columns: Sequence[str]) -> list[tuple[str, ...]]:
    """All changes after version 0, each as texts: its version, its kind, and these columns."""
    names = ("_commit_version", "_change_type", *columns)
    found = spark.sql(f"SELECT {', '.join(names)} FROM table_changes_by_path('{folder}', 1)")
    return sorted(tuple(str(row[name]) for name in names) for row in found)
