"""Rows of the projections, from actions."""

import zlib
from itertools import count, repeat

import msgspec

from deltamirror.delta.actions import Add, DeletionVector, Remove
from deltamirror.delta.paths import path_identity
from deltamirror.delta.validation import PlainBlock
from deltamirror.txnlog.database import Row

__all__ = ["file_row", "file_rows", "path_hash", "remove_row"]

_encode = msgspec.json.Encoder().encode


def path_hash(path: str) -> int:
    """The hash under which a file is found; equal for spellings that mean the same file."""
    return zlib.crc32(path_identity(path).encode())


def file_row(table_id: int, commit_id: int, ordinal: int, add: Add) -> Row:
    """The row of ``dl_files``."""
    vector = add.deletion_vector
    return (
        table_id,
        path_hash(add.path),
        commit_id,
        ordinal,
        add.path,
        None if vector is None else vector.unique_id,
        _encode(add.partition_values).decode(),
        add.size,
        add.modification_time,
        add.data_change,
        add.stats,
        None if add.tags is None else _encode(add.tags).decode(),
        _vector_text(vector),
        add.base_row_id,
        add.default_row_commit_version,
        add.clustering_provider,
    )


def file_rows(table_id: int, commit_id: int, first: int, block: PlainBlock) -> list[Row]:
    """The rows of many adds, made a column at a time."""
    nothing = repeat(None)
    hashes = map(zlib.crc32, "\n".join(block.paths).encode().split(b"\n"))  # such a path is its own identity
    return list(
        zip(
            repeat(table_id),
            hashes,
            repeat(commit_id),
            count(first),
            block.paths,
            nothing,
            block.partition_values,
            block.sizes,
            block.times,
            block.data_changes,
            block.stats,
            nothing,
            nothing,
            nothing,
            nothing,
            nothing,
            strict=False,
        )
    )


def remove_row(table_id: int, commit_id: int, ordinal: int, remove: Remove) -> Row:
    """The row of ``dl_removes``."""
    vector = remove.deletion_vector
    values = remove.partition_values
    return (
        table_id,
        path_hash(remove.path),
        commit_id,
        ordinal,
        remove.path,
        None if vector is None else vector.unique_id,
        remove.deletion_timestamp,
        remove.data_change,
        remove.extended_file_metadata,
        None if values is None else _encode(values).decode(),
        remove.size,
        _vector_text(vector),
        remove.base_row_id,
        remove.default_row_commit_version,
    )


def _vector_text(vector: DeletionVector | None) -> str | None:
    return None if vector is None else _encode(vector).decode()
