"""What a table holds, by what was asked for: files with their rows, seen through the columns of the moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.admission.kinds import Column, viewed
from tests.support.readers.rows import row_texts


@dataclass(frozen=True, slots=True)
class File:
    """A data file as it was written, and what has been deleted of it since."""

    columns: tuple[Column, ...]
    rows: tuple[Mapping[int, Any], ...]
    partition: Mapping[int, Any] = field(default_factory=dict)
    deleted: frozenset[int] = frozenset()


@dataclass(slots=True)
class Model:
    """A table."""

    columns: tuple[Column, ...]
    partitioning: tuple[int, ...] = ()
    files: dict[str, File] = field(default_factory=dict)
    """By the path that a reader opens."""

    def rows(self, without_null: int | None = None) -> list[str]:
        """All rows as texts, as every reader has to see them; without those where a column is null."""
        found = [row for file in self.files.values() for row in self._rows_of(file)]
        name = next((column.name for column in self.columns if column.uid == without_null), None)
        return row_texts(row for row in found if name is None or row[name] is not None)

    def _rows_of(self, file: File) -> list[dict[str, Any]]:
        kept = [row for number, row in enumerate(file.rows) if number not in file.deleted]
        written = {column.uid: column for column in file.columns}
        return [{now.name: _value(now, row, written, file) for now in self.columns} for row in kept]


def _value(now: Column, row: Mapping[int, Any], written: Mapping[int, Column], file: File) -> Any:
    if now.uid not in written:
        return None
    value = file.partition[now.uid] if now.uid in file.partition else row.get(now.uid)
    return viewed(written[now.uid].kind, value, now.kind)
