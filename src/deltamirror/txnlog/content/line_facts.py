"""What the lines of a commit determine of its rows: of its version, of its files, and of what it has besides."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Table
from sqlalchemy.engine import Row as ResultRow

from deltamirror.delta.actions import Action, Add, CommitInfo, DomainMetadata, Metadata, Protocol, Remove, Txn
from deltamirror.delta.properties import in_commit_timestamps
from deltamirror.txnlog.content.row_differences import text_without_nulls
from deltamirror.txnlog.content.rows import file_row, json_text, remove_row, small_row
from deltamirror.txnlog.database.access import Row
from deltamirror.txnlog.database.schema import files, removes

FILE_COLUMNS: Final = tuple(str(column.name) for column in files.columns)
REMOVE_COLUMNS: Final = tuple(str(column.name) for column in removes.columns)
ADDED_VALUES: Final = FILE_COLUMNS.index("partition_values")
REMOVED_VALUES: Final = REMOVE_COLUMNS.index("partition_values")
UNDETERMINED: Final = frozenset({"table_id", "commit_id", "ordinal"})
"""The columns of both that follow from no line."""


_NULL: Final = '":null'


@dataclass(slots=True)
class RowSum:
    """How many rows of files a commit has, and a sum of what they say: of a million as well as of one."""

    number: int = 0
    total: int = 0

    def add(self, row: Row, values: int) -> None:
        """Count a row, whatever its number among those of its commit; ``values`` is where its partition values are."""
        text = row[values]
        if text is not None and _NULL in text:
            row = (*row[:values], text_without_nulls(text), *row[values + 1 :])
        self.number += 1
        self.total += hash((row[1], *row[4:]))


@dataclass(slots=True)
class LineFacts:
    """The lines of one commit, taken in part after part."""

    is_damaged: bool = False
    """Whether the database does not have all of them any more."""
    num_lines: int = 0
    info: CommitInfo | None = None
    app_ids: list[str] = field(default_factory=list)
    domains: list[str] = field(default_factory=list)
    changes_protocol: bool = False
    metadata: Metadata | None = None
    added: RowSum = field(default_factory=RowSum)
    removed: RowSum = field(default_factory=RowSum)
    small: dict[Table, list[Row]] = field(default_factory=dict)
    """The rows besides those of files, under table and version 0."""

    def take(self, actions: Iterable[Action]) -> None:
        """The next lines."""
        for action in actions:
            self.num_lines += 1
            match action:
                case Add():
                    self.added.add(file_row(0, 0, 0, action), ADDED_VALUES)
                case Remove():
                    self.removed.add(remove_row(0, 0, 0, action), REMOVED_VALUES)
                case CommitInfo():
                    self.info = self.info or action
                case Txn():
                    self.app_ids.append(action.app_id)
                case DomainMetadata():
                    self.domains.append(action.domain)
                case Protocol():
                    self.changes_protocol = True
                case Metadata():
                    self.metadata = action
            if (found := small_row(0, 0, action)) is not None:
                self.small.setdefault(found[0], []).append(found[1])

    def version_values(self, row: ResultRow[Any], metadata: Metadata | None) -> dict[str, object]:
        """The columns of a row of ``dl_table_versions`` that the lines determine, under the metadata in force."""
        info = self.info
        found: dict[str, object] = {
            "operation": None if info is None else info.operation,
            "changes_metadata": self.metadata is not None,
            "changes_protocol": self.changes_protocol,
            "app_ids": _names(self.app_ids),
            "domains": _names(self.domains),
            "num_lines": self.num_lines,
            "num_added": self.added.number,
            "num_removed": self.removed.number,
        }
        if info is None:
            return found
        if row.kind == "authored":
            return found | {
                "committed_at": info.timestamp,
                "txn_id": info.txn_id,
                "read_version": info.read_version,
                "is_blind_append": info.is_blind_append,
            }
        stated = info.in_commit_timestamp
        if stated is not None and metadata is not None and in_commit_timestamps(metadata):
            found["committed_at"] = stated
        return found


def _names(found: list[str]) -> str | None:
    return json_text(found) if found else None
