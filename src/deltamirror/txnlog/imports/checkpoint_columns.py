"""Rows of files and removes from the columns of a checkpoint, a column at a time: a million of them in a second or two.

The rows are in the order of ``path_hash``, in which the databases take them in fastest.
"""

from collections.abc import Iterable, Sequence
from itertools import count, repeat

import pyarrow as pa
import pyarrow.compute as pc

from deltamirror.delta.actions import DeletionVector
from deltamirror.errors import InvalidInput
from deltamirror.txnlog.content.rows import json_text, path_hash, vector_text
from deltamirror.txnlog.database.access import Row

_VECTOR_FIELDS = ("storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality")


def added_rows(files: pa.Table, *, table_id: int, commit_id: int, first: int) -> list[Row]:
    """The rows of ``dl_files`` for the adds of a checkpoint, with ordinals from ``first`` on."""
    _require(files, "add", ("path", "size", "modificationTime"))
    files, hashes = _by_hash(files)
    vectors = _vectors(_column(files, "deletionVector"))
    columns: Sequence[Iterable[object]] = (
        hashes,
        repeat(commit_id),
        count(first),
        _values(files, "path"),
        _vector_ids(vectors),
        _map_texts(_column(files, "partitionValues"), nulls=True).fill_null("{}").to_pylist(),
        _values(files, "size"),
        _values(files, "modificationTime"),
        _column(files, "dataChange").fill_null(False).to_pylist(),
        _values(files, "stats"),
        _map_texts(_column(files, "tags"), nulls=False).to_pylist(),
        map(vector_text, vectors),
        _values(files, "baseRowId"),
        _values(files, "defaultRowCommitVersion"),
        _values(files, "clusteringProvider"),
    )
    return list(zip(repeat(table_id, len(hashes)), *columns, strict=False))


def removed_rows(removes: pa.Table, *, table_id: int, commit_id: int, first: int) -> list[Row]:
    """The rows of ``dl_removes`` for the tombstones of a checkpoint, with ordinals from ``first`` on."""
    _require(removes, "remove", ("path",))
    removes, hashes = _by_hash(removes)
    vectors = _vectors(_column(removes, "deletionVector"))
    columns: Sequence[Iterable[object]] = (
        hashes,
        repeat(commit_id),
        count(first),
        _values(removes, "path"),
        _vector_ids(vectors),
        _values(removes, "deletionTimestamp"),
        _column(removes, "dataChange").fill_null(False).to_pylist(),
        _values(removes, "extendedFileMetadata"),
        _map_texts(_column(removes, "partitionValues"), nulls=True).to_pylist(),
        _values(removes, "size"),
        map(vector_text, vectors),
        _values(removes, "baseRowId"),
        _values(removes, "defaultRowCommitVersion"),
    )
    return list(zip(repeat(table_id, len(hashes)), *columns, strict=False))


def _require(actions: pa.Table, name: str, fields: Iterable[str]) -> None:
    for field in fields:
        if actions.column(field).null_count:
            raise InvalidInput(
                f"the checkpoint has a row of {name} without {field}",
                hint="the checkpoint is damaged: import from another one (--from-version)",
            )


def _by_hash(actions: pa.Table) -> tuple[pa.Table, list[int]]:
    hashes = pa.array(map(path_hash, actions.column("path").to_pylist()), pa.int64())
    order = pc.sort_indices(hashes)
    return actions.take(order), hashes.take(order).to_pylist()


def _column(actions: pa.Table, name: str) -> pa.Array:
    return actions.column(name).combine_chunks()


def _values(actions: pa.Table, name: str) -> Sequence[object]:
    found: Sequence[object] = actions.column(name).to_pylist()
    return found


def _vectors(column: pa.StructArray) -> list[DeletionVector | None]:
    if column.null_count == len(column):
        return [None] * len(column)
    fields = zip(*(column.field(name).to_pylist() for name in _VECTOR_FIELDS), strict=True)
    return [
        _vector(*each) if valid else None for valid, each in zip(column.is_valid().to_pylist(), fields, strict=True)
    ]


def _vector(kind: str, place: str, offset: int | None, size: int, cardinality: int) -> DeletionVector:
    return DeletionVector(
        storage_type=kind, path_or_inline_dv=place, offset=offset, size_in_bytes=size, cardinality=cardinality
    )


def _vector_ids(vectors: Iterable[DeletionVector | None]) -> Iterable[str | None]:
    return (None if each is None else each.unique_id for each in vectors)


def _map_texts(maps: pa.MapArray, *, nulls: bool) -> pa.Array:
    """The maps as JSON text. Entries without a value are null, or are left out."""
    if not nulls and maps.items.null_count:
        return pa.array([_without_nulls(each) for each in maps.to_pylist()], pa.string())
    entries = pc.binary_join_element_wise(_quoted(maps.keys), _quoted(maps.items).fill_null("null"), ":")
    joined = pc.binary_join(pa.ListArray.from_arrays(maps.offsets, entries), ",")
    texts = pc.binary_join_element_wise("{", joined, "}", "")
    return pc.if_else(maps.is_valid(), texts, pa.scalar(None, pa.string()))


def _without_nulls(entries: Sequence[tuple[str, str | None]] | None) -> str | None:
    return None if entries is None else json_text({key: value for key, value in entries if value is not None})


def _quoted(texts: pa.Array) -> pa.Array:
    """The texts as JSON; each is encoded once, however often it comes."""
    encoded = texts.dictionary_encode()
    return pa.array(map(json_text, encoded.dictionary.to_pylist()), pa.string()).take(encoded.indices)
