"""The file actions of an earlier checkpoint, read for the next one."""

from collections.abc import Container, Sequence

import pyarrow as pa

from deltamirror.delta.actions import Metadata, Protocol
from deltamirror.deltalog.checkpoint import parquet
from deltamirror.deltalog.checkpoint.layout import FILES, STATS_PARSED
from deltamirror.deltalog.checkpoint.reconciliation import FileActions
from deltamirror.deltalog.checkpoint.row_groups import parquet_actions
from deltamirror.deltalog.checkpoint.statistics import statistics_schema


def older_actions(
    files: Sequence[parquet.File],
    described: tuple[Metadata, Protocol],
    *,
    wanted: tuple[Metadata, Protocol],
    without: Container[int] = (),
) -> FileActions:
    """The files and tombstones of files that a checkpoint consists of, but for row groups of some numbers.

    They have ``stats_parsed`` where the files are ours, and the statistics of what was ``described`` have the same
    columns as those of what is ``wanted``: what a Parquet file shows of a type is less than what the type is.
    """
    is_same = statistics_schema(*described) == statistics_schema(*wanted)
    has_typed = is_same and bool(files) and all(parquet.has_our_form(each.metadata) for each in files)
    columns = _with_statistics(files[0]) if has_typed else FILES
    actions = parquet_actions(*files, columns=columns, without=without)
    return actions.files, actions.removes


def _with_statistics(file: parquet.File) -> pa.Schema:
    """Other writers read the texts of statistics in their own ways."""
    add = file.schema.field("add").type
    return pa.schema([*FILES, *(each for each in add if each.name == STATS_PARSED)])
