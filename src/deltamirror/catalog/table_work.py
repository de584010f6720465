"""What a transaction collects for one table until it commits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, TypeAlias

from deltamirror.catalog.edits import Edit, Edited
from deltamirror.catalog.maintenance.restore import Restoration
from deltamirror.catalog.rows import Box, Replacement, RowWrite, removed_file, replaced_files
from deltamirror.delta.actions import Action, Metadata, Protocol, Remove
from deltamirror.delta.conflicts import PartitionRead, ReadSet
from deltamirror.delta.definition import Alteration
from deltamirror.delta.paths import PartitionValue, partition_text
from deltamirror.delta.schema import parse_schema
from deltamirror.errors import InvalidInput
from deltamirror.txnlog.commit.fingerprint import ActionsDigest, TableContent
from deltamirror.txnlog.commit.request import Committed, Operation, no_version
from deltamirror.txnlog.content.state import TableState
from deltamirror.txnlog.tables.reading import Snapshot, live_adds

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
    is_record: bool = False
    """The table gets a version also if nothing else is asked for."""
    rows: list[RowWrite] = field(default_factory=list)
    replaces: Replacement | None = None
    """What an overwrite takes the place of."""
    edit: Edit | None = None
    """Rows to be deleted, updated or merged."""
    session: Any = None
    """The session of Spark by which that is done."""
    adds_files: bool = False
    """Whether data files come that were written elsewhere."""
    edited: Edited | None = None
    """What the edit came to, once it was carried out."""
    restores: Restoration | None = None
    """The version that it brings back."""
    founded: tuple[Metadata, Protocol] | None = None
    """Metadata and protocol that files of rows were written for: alterations draw names by chance, so once."""
    whole_table: bool = False
    partitions: list[PartitionRead] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    reads: bool = False

    @property
    def taken(self) -> Snapshot:
        """The table as the transaction took it, which it has."""
        assert self.snapshot is not None  # noqa: S101 - narrows the type
        return self.snapshot

    @property
    def columns(self) -> Sequence[str]:
        """The names of the table's columns; none where the table was not seen."""
        known = self.snapshot or self.seen
        return () if known is None else [each.name for each in parse_schema(known.metadata.schema_string).fields]

    @property
    def computed_from(self) -> int | None:
        """The version that the changes were computed from; None: they go after any."""
        taken = None if self.snapshot is None else self.snapshot.version
        if (exact := self.at_version) is not None:
            # It is computed from the version before, unless something was read earlier.
            return oldest(self.read_version, None if taken is None else min(taken, max(0, exact - 1)))
        if taken is None and self.read_version is None and self.seen is not None and self.seen.version == self.looked:
            return None  # the first sight says as much, and leaves blind appends free of it
        return oldest(self.read_version, self.looked, taken)

    @property
    def writes(self) -> bool:
        """Whether anything was asked for besides reading."""
        asked = self.streams or self.removed or self.alterations or self.rows or self.lines is not None
        return bool(asked or (self.edit is not None and self.edited is None)) or self.is_record

    @property
    def meets_rules(self) -> bool:
        """Whether all rows that come are copies, or were held against the rules of the table."""
        return self.edited is not None and not self.adds_files

    @property
    def is_looked_up(self) -> bool:
        """Whether the actions are found out when the transaction commits, so that a retry may find others."""
        return bool(self.removed or self.alterations or self.rows or self.edit is not None)

    @property
    def read_set(self) -> ReadSet | None:
        """What was read, where that was said."""
        if not self.reads:
            return None
        return ReadSet(whole_table=self.whole_table, partitions=tuple(self.partitions), files=frozenset(self.files))

    @property
    def changes_metadata(self) -> bool:
        """Whether the table may have other metadata afterwards."""
        return bool(self.alterations) or any(rows.changes_schema for rows in self.rows)

    def read_at(self, version: int | None, table: str) -> None:
        """Count a version of the table as read, which it has to have."""
        if version is not None and version > self.taken.version:
            raise no_version(table, version, head=self.taken.version)
        self.read_version = oldest(self.read_version, version)

    def require_consistent(self, table: str) -> None:
        """Refuse other changes of a table that is restored: they were made for its rows and columns as they are now."""
        if self.restores is not None and (self.is_looked_up or self.adds_files):
            hint = "make other changes to it in the next transaction"
            raise InvalidInput(f"the transaction restores {table!r}, and changes it otherwise, too", hint=hint)

    def require_untouched(self, table: str, doing: str, *, by_files: bool = False) -> None:
        """Refuse a second change of rows: which rows it means would depend on the first, whose files are not there."""
        has_files = by_files and self.adds_files
        if has_files or self.removed or self.rows or self.replaces is not None or self.edit is not None:
            is_first = self.removed or self.replaces is not None or self.edit is not None
            done = f"changes or replaces rows of {table!r}" if is_first else f"appends to {table!r}"
            hint = f"{doing} a table once in a transaction, before anything is appended to it"
            raise InvalidInput(f"the transaction {done} already", hint=hint)

    def require_alone(self, table: str) -> None:
        """Refuse rows and files beside an edit with change data: readers of the feed take nothing else of a commit."""
        if self.rows or self.adds_files:
            hint = "add them in a transaction of their own"
            raise InvalidInput(
                f"table {table!r} has delta.enableChangeDataFeed, and the transaction adds rows to it beside a change "
                "that is recorded row by row: readers of the feed would not see them",
                hint=hint,
            )

    def content(self, table: str, operation: Operation) -> TableContent:
        """What was asked for, to be told from other requests; streams are taken into memory."""
        self.streams = [list(stream) for stream in self.streams]
        self.lines = None if self.lines is None else list(self.lines)
        return TableContent(
            table=table,
            operation=operation.name,
            at_version=self.at_version,
            is_verbatim=self.lines is not None,
            actions=ActionsDigest.of(chain(*self.streams), self.lines or ()).text(),
            removed=self.removed,
            alterations=self.alterations,
            rows=[*([self.edit.fingerprint] if self.edit else []), *(each.fingerprint for each in self.rows)],
        )

    def take(self, edited: Edited, taken: Snapshot) -> None:
        """Take in what the edit came to; changes to the partitions that it looked into conflict with it."""
        self.edited, self.reads = edited, True
        if edited.removes or edited.written.adds:
            self.streams += [edited.written.adds, edited.written.changes, edited.removes]
        self.whole_table |= edited.boxes is None
        self.partitions += [partition_read(taken, box) for box in edited.boxes or ()]

    def replaced(self, boxes: Sequence[Box] | None) -> list[Remove]:
        """The removes of the files that rows replace; only changes to these partitions conflict with it."""
        self.reads = True
        self.whole_table |= boxes is None
        self.partitions += [partition_read(self.taken, box) for box in boxes or ()]
        return replaced_files(self.taken, boxes)

    def removes(self) -> list[Remove]:
        """The removes of the files that were named by their paths."""
        if not self.removed:
            return []
        found = live_adds(self.taken, [path for path, _ in self.removed])
        return [removed_file(found[path], data_change) for path, data_change in self.removed]

    def described(self, operation: Operation) -> Operation:
        """How the change describes itself: as it was told, or as Delta Spark describes what was done."""
        if self.edited is not None:
            return self.edited.described(operation)
        if operation.name is None and (found := self.restores) is not None:
            return replace(operation, name="RESTORE", parameters=found.parameters, metrics=found.metrics)
        more = next((rows for rows in self.rows if rows.replaces is not None or rows.merges_schema), None)
        if operation.name is not None or more is None:
            return operation
        return replace(operation, name="WRITE", parameters=operation.parameters or more.parameters)


def idle_answer(works: Iterable[TableWork]) -> Committed | None:
    """The answer where edits found no row to change, and nothing else was asked for: no version is made."""
    found = list(works)
    times = [work.snapshot.timestamp for work in found if work.edited is not None and work.snapshot is not None]
    if not times or any(work.writes for work in found):
        return None
    return Committed(versions={}, timestamp=max(times))


def oldest(*versions: int | None) -> int | None:
    """The oldest of some versions; None of none."""
    return min((version for version in versions if version is not None), default=None)


def partition_read(taken: Snapshot, box: Partitions) -> PartitionRead:
    """Partitions that were read, by their names in the log; InvalidInput for what is no value of its column."""
    texts = {column: frozenset(_texts(value)) for column, value in box.items()}
    for column, values in texts.items():
        taken.require_partition_values(column, values)
    return {taken.physical_partition(column): values for column, values in texts.items()}


def _texts(value: PartitionValue | Sequence[PartitionValue]) -> Iterable[str | None]:
    several = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    return (partition_text(each) for each in (value if several else [value]))  # type: ignore[union-attr, arg-type]
