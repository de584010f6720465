"""The actions of a checkpoint, read part by part: what is many of them lies aside."""

from collections.abc import Container, Iterable

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
    return gathered(in_threads(lambda place: _actions(*place, columns), places), columns=columns)


def gathered(parts: Iterable[CheckpointActions], *, columns: pa.Schema = FILES) -> CheckpointActions:
    """The actions of parts of a checkpoint, in order; what is many of them lies aside."""
    others: list[Action] = []
    adds, removes = Gathering(columns), Gathering(REMOVES)
    for part in parts:
        others += part.others
        adds.add(part.files)
        removes.add(part.removes)
    return CheckpointActions(others, adds.whole(), removes.whole())


def _actions(file: parquet.File, number: int, columns: pa.Schema) -> CheckpointActions:
    return actions_of_table(file.row_group(number), columns=columns)
