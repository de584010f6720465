"""Rows of the projections, from actions and back."""

import zlib
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Table

from deltamirror.config.overrides import switched_by
from deltamirror.delta import lines
from deltamirror.delta.actions import Action, Add, DeletionVector, DomainMetadata, Metadata, Protocol, Remove, Txn
from deltamirror.delta.paths import path_identity
from deltamirror.delta.validation import PlainBlock
from deltamirror.txnlog.database.access import Columns, Row
from deltamirror.txnlog.database.schema import app_transactions, domains, files, metadata, protocols, removes

T = TypeVar("T")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode
_ADD_NAMES = tuple(each.encode_name for each in msgspec.structs.fields(Add))
_decode_vector = msgspec.json.Decoder(DeletionVector).decode


def json_text(value: object) -> str:
    """JSON as the columns keep it."""
    return _encode(value).decode()


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
        json_text(add.partition_values),
        add.size,
        add.modification_time,
        add.data_change,
        add.stats,
        None if add.tags is None else json_text(add.tags),
        vector_text(vector),
        add.base_row_id,
        add.default_row_commit_version,
        add.clustering_provider,
    )


def file_columns(table_id: int, commit_id: int, blocks: Sequence[tuple[int, PlainBlock]]) -> Columns:
    """The rows of ``dl_files`` for blocks of adds, each with the ordinal of its first."""
    paths = _joined(block.paths for _, block in blocks)
    return {
        "table_id": [table_id] * len(paths),
        "path_hash": [zlib.crc32(path.encode()) for path in paths],  # such a path is its own identity
        "commit_id": [commit_id] * len(paths),
        "ordinal": _joined(range(first, first + len(block.paths)) for first, block in blocks),
        "size": _joined(block.sizes for _, block in blocks),
        "modification_time": _joined(block.times for _, block in blocks),
        "data_change": _joined(block.data_changes for _, block in blocks),
        "path": paths,
        "partition_values": _joined(block.partition_values for _, block in blocks),
        "stats": _joined(block.stats for _, block in blocks),
    }


def _joined(columns: Iterable[Iterable[T]]) -> list[T]:
    return list(chain.from_iterable(columns))


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
        None if values is None else json_text(values),
        remove.size,
        vector_text(vector),
        remove.base_row_id,
        remove.default_row_commit_version,
    )


def vector_text(vector: DeletionVector | None) -> str | None:
    """A deletion vector as the columns keep it."""
    return None if vector is None else json_text(vector)


def small_row(table_id: int, version: int, action: Action) -> tuple[Table, Row] | None:
    """The row of what a commit has besides files, and the table that it belongs to; None for what leaves none."""
    match action:
        case Metadata():
            return metadata, (table_id, version, lines.encode(action).decode(), switched_by(action.configuration))
        case Protocol():
            return protocols, (table_id, version, lines.encode(action).decode())
        case Txn():
            return app_transactions, (table_id, action.app_id, version, action.version, action.last_updated)
        case DomainMetadata():
            return domains, (table_id, action.domain, version, action.configuration, action.removed)
        case _:
            return None


ADD_COLUMNS = tuple(files.c[field.name] for field in msgspec.structs.fields(Add))
"""The columns of ``dl_files`` that make up an action."""

REMOVE_COLUMNS = tuple(removes.c[field.name] for field in msgspec.structs.fields(Remove) if field.name in removes.c)
"""The columns of ``dl_removes`` that make up an action: it keeps neither tags nor statistics."""


def add_of(row: Sequence[Any]) -> Add:
    """The action behind a row of ``ADD_COLUMNS``; more may follow them."""
    # By position: by name, the values of a row cost more than all else.
    path, values, size, time, change, stats, tags, vector, base, default, provider, *_ = row
    return Add(
        path=path,
        partition_values=_decode(values),
        size=size,
        modification_time=time,
        data_change=change,
        stats=stats,
        tags=_tags(tags),
        deletion_vector=_vector(vector),
        base_row_id=base,
        default_row_commit_version=default,
        clustering_provider=provider,
    )


def add_columns(rows: Sequence[Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """The fields of the actions behind rows of ``ADD_COLUMNS``, of which there is one at least.

    Of what the columns have as JSON, there are the values that differ, and the place of each row's among them.
    """
    columns = dict(zip(_ADD_NAMES, zip(*rows, strict=True), strict=False))
    decoders: dict[str, Callable[[Any], Any]] = {"partitionValues": _decode, "tags": _tags, "deletionVector": _vector}
    return {**columns, **{name: _distinct(columns[name], decode) for name, decode in decoders.items()}}


def _distinct(texts: Sequence[Any], decode: Callable[[Any], T]) -> tuple[list[T], list[int]]:
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    return list(map(decode, places)), list(map(places.__getitem__, texts))


def _tags(text: Any) -> Any:
    return None if text is None else _decode(text)


def _vector(text: Any) -> DeletionVector | None:
    return None if text is None else _decode_vector(text)


def remove_of(row: Sequence[Any]) -> Remove:
    """The action behind a row of ``REMOVE_COLUMNS``."""
    path, time, change, extended, values, size, vector, base, default = row
    return Remove(
        path=path,
        deletion_timestamp=time,
        data_change=change,
        extended_file_metadata=extended,
        partition_values=None if values is None else _decode(values),
        size=size,
        deletion_vector=_vector(vector),
        base_row_id=base,
        default_row_commit_version=default,
    )
