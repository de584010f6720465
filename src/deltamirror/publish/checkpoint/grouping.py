"""Which rows of a checkpoint share a row group."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

import pyarrow as pa

FEWEST_ROWS: Final = 10_000
"""A row group costs its readers as much as some thousand rows do."""

ENOUGH_BYTES: Final = 256 * 1024 * 1024
"""So many bytes of Arrow data are enough for a row group of fewer rows: Arrow decodes a column of texts at once, up to
two gigabytes of them."""

_SMALL_PART: Final = 4
"""File actions that fill less than this part of a row group share theirs with the other actions."""


def row_groups(batches: Iterable[pa.RecordBatch], columns: pa.Schema, most_bytes: int) -> Iterator[pa.Table]:
    """Rows of at most ``most_bytes`` of Arrow data, but no fewer than ``FEWEST_ROWS`` unless they are the last.

    Where so few rows have more than ``ENOUGH_BYTES``, there are as many as have not, or one. There is one row group at
    least, which has no rows where there are none.
    """
    waiting = columns.empty_table()
    for batch in batches:
        waiting = pa.concat_tables([waiting, pa.Table.from_batches([batch])])
        while waiting.nbytes > most_bytes and waiting.num_rows > (fewest := _fewest_rows(waiting)):
            count = max(_rows_within(waiting, most_bytes), fewest)
            yield waiting.slice(0, count)
            waiting = waiting.slice(count)
    yield waiting


def classic_row_groups(batches: Iterable[pa.RecordBatch], columns: pa.Schema, most_bytes: int) -> Iterator[pa.Table]:
    """The same of a classic checkpoint, whose first batch has the actions that are no files.

    These change with nearly every checkpoint, and the row group that holds them. So they have one to themselves, unless
    the others are few.
    """
    remaining = iter(batches)
    others = pa.Table.from_batches([next(remaining)])
    files = row_groups(remaining, columns, most_bytes)
    first = next(files)
    if has_few_rows(first.num_rows, first.nbytes) or first.nbytes < most_bytes // _SMALL_PART:
        yield pa.concat_tables([others, first])
        yield from files
    else:
        yield from chain([others, first], files)


def has_few_rows(num_rows: int, num_bytes: int) -> bool:
    """Whether a row group with so many rows, and bytes of them, is to have more."""
    return num_rows < FEWEST_ROWS and num_bytes < ENOUGH_BYTES // _SMALL_PART


def _fewest_rows(table: pa.Table) -> int:
    few = table.slice(0, FEWEST_ROWS)
    return FEWEST_ROWS if few.nbytes <= ENOUGH_BYTES else max(_rows_within(few, ENOUGH_BYTES), 1)


def _rows_within(table: pa.Table, most_bytes: int) -> int:
    """How many of the first rows have no more than so many bytes."""
    return bisect_right(range(1, table.num_rows + 1), most_bytes, key=lambda count: int(table.slice(0, count).nbytes))
