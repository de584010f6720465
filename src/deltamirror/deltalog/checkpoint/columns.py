"""Columns in pieces, and in one."""

import pyarrow as pa


def combined(column: pa.ChunkedArray) -> pa.Array:
    """The column in one piece; one that is so already is not copied."""
    match column.chunks:
        case []:
            return pa.array([], column.type)
        case [whole]:
            return whole
        case chunks:
            return pa.concat_arrays(chunks)
