"""Data files as callers have them: actions, mappings, or Arrow data with a row for each file."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from deltamirror.delta.actions import Add, DeletionVector
from deltamirror.errors import InvalidAction

__all__ = ["Files", "adds"]

Files: TypeAlias = Iterable[Add | Mapping[str, Any]] | pa.Table | pa.RecordBatchReader
"""Adds, mappings of their fields as on the wire (``partitionValues``), or Arrow data.

Arrow columns have the names of the fields in Python (``partition_values``). ``partition_values`` and ``tags`` are
maps, structs or JSON text; ``deletion_vector`` is a struct or JSON text. ``data_change`` is true where absent.
"""

_FIELDS = tuple(field.name for field in msgspec.structs.fields(Add))
_REQUIRED = ("path", "size", "modification_time")


def adds(files: Files) -> Iterable[Add]:
    """The files as actions; Arrow data is converted batch by batch."""
    if isinstance(files, pa.Table):
        return _from_batches(files.to_batches(), files.schema)
    if isinstance(files, pa.RecordBatchReader):
        return _from_batches(files, files.schema)
    return (file if isinstance(file, Add) else _from_mapping(index, file) for index, file in enumerate(files))


def _from_mapping(index: int, file: Mapping[str, Any]) -> Add:
    try:
        return msgspec.convert({"partitionValues": {}, "dataChange": True, **file}, Add)
    except (msgspec.ValidationError, TypeError) as error:
        raise _wrong(index, str(error)) from error


def _from_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[Add]:
    if unknown := [name for name in schema.names if name not in _FIELDS]:
        raise _wrong(None, f"there is no field {unknown[0]!r}; fields are {', '.join(_FIELDS)}")
    if missing := [name for name in _REQUIRED if name not in schema.names]:
        raise _wrong(None, f"the column {missing[0]!r} is missing")
    for batch in batches:
        try:
            columns = [_column(name, batch) for name in _FIELDS]
        except (msgspec.DecodeError, TypeError, ValueError) as error:
            raise _wrong(None, str(error)) from error
        for values in zip(*columns, strict=True):
            yield Add(**dict(zip(_FIELDS, values, strict=True)))


def _column(name: str, batch: pa.RecordBatch) -> list[Any]:
    if name not in batch.schema.names:
        return _absent(name, batch.num_rows)
    values = batch.column(name).to_pylist()
    if name == "partition_values":
        return [_map(value) or {} for value in values]
    if name == "tags":
        return [_map(value) for value in values]
    return [_vector(value) for value in values] if name == "deletion_vector" else values


def _absent(name: str, rows: int) -> list[Any]:
    if name == "partition_values":
        return [{} for _ in range(rows)]
    return [True if name == "data_change" else None] * rows


def _map(value: object) -> dict[str, Any] | None:
    if value is None or isinstance(value, dict):
        return value
    if isinstance(value, str):
        decoded: dict[str, Any] = msgspec.json.decode(value)
        return decoded
    return dict(value)  # type: ignore[call-overload, no-any-return]  # pyarrow gives a map as a list of pairs


def _vector(value: object) -> DeletionVector | None:
    if isinstance(value, str):
        return msgspec.json.decode(value, type=DeletionVector)
    return None if value is None else DeletionVector(**value)  # type: ignore[arg-type]  # a struct with its fields


def _wrong(index: int | None, problem: str) -> InvalidAction:
    return InvalidAction(
        f"a file is not an add: {problem}",
        hint="give Add values, mappings with the fields of an add, or Arrow data with a column for each field",
        rule="add.shape",
        action="add",
        index=index,
    )
