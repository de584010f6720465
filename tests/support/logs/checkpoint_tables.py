"""Checkpoints as single tables, which the mirror itself never has in memory at once."""

import pyarrow as pa

from deltamirror.deltalog.checkpoint.content import CheckpointState, row_batches
from deltamirror.deltalog.checkpoint.layout import FILES
from deltamirror.deltalog.checkpoint.parquet import File
from deltamirror.deltalog.checkpoint.reading import actions_of_table, state_of_actions


def rows(state: CheckpointState) -> pa.Table:
    """The table of a classic checkpoint."""
    return pa.Table.from_batches(row_batches(state))


def state_of_table(table: pa.Table, *, version: int, columns: pa.Schema = FILES) -> CheckpointState:
    """What a classic checkpoint says: the inverse of ``rows``."""
    return state_of_actions(actions_of_table(table, columns=columns), version=version)


def table_of(data: bytes) -> pa.Table:
    """All rows of a file."""
    file = File(data)
    groups = [file.row_group(number) for number in range(file.metadata.num_row_groups)]
    return pa.concat_tables(groups) if groups else file.schema.empty_table()
