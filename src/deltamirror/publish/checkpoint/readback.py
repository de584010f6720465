"""Whether the bytes of a checkpoint say what was meant: they are decoded, and compared value by value."""

from itertools import accumulate

import pyarrow as pa

from deltamirror.deltalog.checkpoint import parquet
from deltamirror.deltalog.checkpoint.blocks import in_threads
from deltamirror.errors import Internal


def check(data: bytes | pa.Buffer, table: pa.Table) -> None:
    """Internal unless the file has the table's schema and, in the same order, its rows; a few row groups at a time."""
    file = parquet.File(data)
    if not file.schema.equals(parquet.as_stored(table.schema)):
        raise Internal("a checkpoint, read back, has another schema than its table")
    if file.metadata.num_rows != table.num_rows:
        raise Internal(f"a checkpoint, read back, has {file.metadata.num_rows:,} rows instead of {table.num_rows:,}")
    counts = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
    parts = enumerate(zip(accumulate(counts, initial=0), counts, strict=False))

    def check_group(part: tuple[int, tuple[int, int]]) -> None:
        number, (start, count) = part
        _check_columns(file.row_group(number), table.slice(start, count))

    for _ in in_threads(check_group, parts):
        pass


def is_same(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    """Whether values are equal to the bit, NaN included, and nulls are in the same places at every level."""
    if pa.types.is_struct(one.type):
        pairs = zip(one.flatten(), other.flatten(), strict=True)
        return bool(one.is_valid().equals(other.is_valid())) and all(is_same(*pair) for pair in pairs)
    if pa.types.is_floating(one.type) or pa.types.is_timestamp(one.type):
        return bool(_bits(one).equals(_bits(other)))
    return bool(one.equals(other))


def _check_columns(group: pa.Table, expected: pa.Table) -> None:
    for name in expected.column_names:
        if not is_same(group.column(name), expected.column(name)):
            raise Internal(f"a checkpoint, read back, has other values in {name} than its table")


def _bits(values: pa.ChunkedArray) -> pa.Array:
    width = pa.int32() if values.type.bit_width == 32 else pa.int64()
    return values.combine_chunks().view(width)
