"""What a transaction collects for one table until it commits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from deltamirror.catalog.rows import Replacement, RowWrite
from deltamirror.delta.actions import Action, Metadata, Protocol
from deltamirror.delta.conflicts import PartitionRead, ReadSet
from deltamirror.delta.definition import Alteration
from deltamirror.delta.paths import PartitionValue, partition_text
from deltamirror.txnlog.commit.request import Operation
from deltamirror.txnlog.content.state import TableState
from deltamirror.txnlog.tables.reading import Snapshot

__all__ = ["Partitions", "TableWork", "partition_read"]

Partitions: TypeAlias = Mapping[str, PartitionValue | Sequence[PartitionValue]]
"""Partition columns with the value, or the values, that were read."""


@dataclass(slots=True)
class TableWork:
    """What the transaction does to one table."""

    snapshot: Snapshot | None = None
    seen: TableState | None = None
    """The table when the transaction first named it, or as the catalog remembered it then."""
    looked: int | None = None
    """The version at which the transaction looked at the table itself, since more was done than to add files."""
    read_version: int | None = None
    """The oldest version that actions were said to be computed from."""
    at_version: int | None = None
    streams: list[Iterable[Action]] = field(default_factory=list)
    removed: list[tuple[str, bool]] = field(default_factory=list)
    alterations: list[Alteration] = field(default_factory=list)
    app_versions: dict[str, int] = field(default_factory=dict)
    lines: Iterable[bytes] | None = None
    rows: list[RowWrite] = field(default_factory=list)
    replaces: Replacement | None = None
    """What an overwrite takes the place of."""
    founded: tuple[Metadata, Protocol] | None = None
    """Metadata and protocol that files of rows were written for: alterations draw names by chance, so once."""
    whole_table: bool = False
    partitions: list[PartitionRead] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    reads: bool = False

    @property
    def writes(self) -> bool:
        """Whether anything was asked for besides reading."""
        return bool(self.streams or self.removed or self.alterations or self.rows or self.lines is not None)

    @property
    def read_set(self) -> ReadSet | None:
        """What was read, where that was said."""
        if not self.reads:
            return None
        return ReadSet(whole_table=self.whole_table, partitions=tuple(self.partitions), files=frozenset(self.files))

    @property
    def changes_metadata(self) -> bool:
        """Whether the table may have other metadata afterwards."""
        return bool(self.alterations) or any(rows.merges_schema for rows in self.rows)

    def described(self, operation: Operation) -> Operation:
        """How the change describes itself: as it was told, or as Delta Spark describes rows that do more than add."""
        more = next((rows for rows in self.rows if rows.replaces is not None or rows.merges_schema), None)
        if operation.name is not None or more is None:
            return operation
        return replace(operation, name="WRITE", parameters=operation.parameters or more.parameters)


def partition_read(taken: Snapshot, box: Partitions) -> PartitionRead:
    """Partitions that were read, by their names in the log; InvalidInput for what is no value of its column."""
    texts = {column: frozenset(_texts(value)) for column, value in box.items()}
    for column, values in texts.items():
        taken.require_partition_values(column, values)
    return {taken.physical_partition(column): values for column, values in texts.items()}


def _texts(value: PartitionValue | Sequence[PartitionValue]) -> Iterable[str | None]:
    several = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    return (partition_text(each) for each in (value if several else [value]))  # type: ignore[union-attr, arg-type]
