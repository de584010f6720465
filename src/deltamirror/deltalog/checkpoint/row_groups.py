"""The actions of a Parquet file, read row group by row group: what is many of them lies aside."""

from collections.abc import Container

import pyarrow as pa

from deltamirror.delta.actions import Action
from deltamirror.deltalog.checkpoint import parquet
from deltamirror.deltalog.checkpoint.blocks import in_threads
from deltamirror.deltalog.checkpoint.layout import FILES, REMOVES
from deltamirror.deltalog.checkpoint.reading import CheckpointActions, actions_of_table
from deltamirror.deltalog.checkpoint.scratch import Gathering


def parquet_actions(
    *files: parquet.File, columns: pa.Schema = FILES, without: Container[int] = ()
) -> CheckpointActions:
    """The actions of all rows of files, in order, but for row groups of some numbers; files have these ``columns``."""
    numbers = ((file, number) for file in files for number in range(file.metadata.num_row_groups))
    places = [(file, number) for file, number in numbers if number not in without]
    others: list[Action] = []
    adds, removes = Gathering(columns), Gathering(REMOVES)
    for found in in_threads(lambda place: _actions(*place, columns), places):
        others += found.others
        adds.add(found.files)
        removes.add(found.removes)
    return CheckpointActions(others, adds.whole(), removes.whole())


def _actions(file: parquet.File, number: int, columns: pa.Schema) -> CheckpointActions:
    return actions_of_table(file.row_group(number), columns=columns)
