"""A checkpoint in one Parquet file, of which the next one takes over row groups, and reads the others."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from deltamirror.delta.actions import Action, Metadata, Protocol
from deltamirror.delta.replay import State
from deltamirror.deltalog.checkpoint import content, parquet
from deltamirror.deltalog.checkpoint.content import Newer
from deltamirror.deltalog.checkpoint.layout import checkpoint_columns
from deltamirror.deltalog.checkpoint.reading import OTHER_KEYS, other_actions
from deltamirror.deltalog.checkpoint.reconciliation import FileActions
from deltamirror.deltalog.checkpoint.state import tombstones_after
from deltamirror.errors import InvalidInput
from deltamirror.publish.checkpoint.encoding import encoded
from deltamirror.publish.checkpoint.older_actions import older_actions
from deltamirror.publish.checkpoint.stitching import have_same_form
from deltamirror.publish.checkpoint.unchanged import Group, unchanged_groups
from deltamirror.work import CheckpointUnit

UNREADABLE: Final = (InvalidInput, pa.ArrowException, LookupError, TypeError, ValueError)
"""The errors that reading a file of another writer may lead to: it is not a checkpoint that we understand."""

_SMALL: Final = 1024 * 1024
_TIMES_SMALLER: Final = 32
"""A base of fewer bytes, some 10,000 files of a table, is decoded and encoded in less time than row groups of it are
taken over; where row groups are smaller than by default, it is one so many times smaller than one of them."""


@dataclass(frozen=True, slots=True)
class ClassicBase:
    """The bytes of a checkpoint, and its actions that are no files."""

    file: parquet.File
    others: Sequence[Action]
    metadata: Metadata
    protocol: Protocol

    @classmethod
    def of(cls, data: pa.Buffer) -> Self:
        """One of the errors ``UNREADABLE`` where the bytes are no checkpoint."""
        file = parquet.File(data)
        others = [action for rows in _rows_of_others(file) for action in other_actions(rows)]
        state = State()
        state.apply(others)
        return cls(file, others, state.metadata, state.protocol)

    @property
    def data(self) -> pa.Buffer:
        """The bytes."""
        return self.file.data

    def unchanged(self, newer: Newer, unit: CheckpointUnit) -> list[Group]:
        """The row groups that the checkpoint after newer commits takes over.

        There are none unless the file has the form that the next one gets, in schema, writer and version of Spark; nor
        where it is small.
        """
        if self.data.size < min(_SMALL, unit.row_group_bytes // _TIMES_SMALLER):
            return []
        metadata = newer.others.metadata
        columns = checkpoint_columns(metadata, newer.others.protocol)
        schema = content.checkpoint_schema(columns)
        empty = encoded([columns.empty_table()], columns, schema, compression=unit.compression)
        if not have_same_form(self.data, empty):
            return []
        return unchanged_groups(
            self.file,
            newer.files,
            compression=unit.compression,
            most_bytes=unit.row_group_bytes,
            tombstones_after=tombstones_after(metadata, committed_at=unit.committed_at),
        )

    def file_actions(self, metadata: Metadata, protocol: Protocol, *, without: Collection[int]) -> FileActions:
        """The files and tombstones of all row groups but some, for a checkpoint with these."""
        described = self.metadata, self.protocol
        return older_actions([self.file], described, wanted=(metadata, protocol), without=without)


def _rows_of_others(file: parquet.File) -> Iterator[pa.Table]:
    """The columns of actions that are no files, of all row groups that may have some.

    The statistics of other writers are not asked.
    """
    is_ours = parquet.has_our_form(file.metadata)
    names = [name for name in OTHER_KEYS if name in file.schema.names]
    for number in range(file.metadata.num_row_groups):
        if not is_ours or _may_have_others(file.metadata.row_group(number)):
            yield file.row_group(number, columns=names)


def _may_have_others(group: pq.RowGroupMetaData) -> bool:
    keys = {f"{name}.{key}" for name, key in OTHER_KEYS.items()}
    columns = [each for each in map(group.column, range(group.num_columns)) if each.path_in_schema in keys]
    told = [each.statistics for each in columns]
    return any(each is None or not each.has_null_count or each.null_count < group.num_rows for each in told)
