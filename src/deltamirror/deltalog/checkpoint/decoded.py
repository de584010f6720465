"""Rows of files and removes from decoded actions."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from deltamirror.delta.actions import Add, Remove
from deltamirror.deltalog.checkpoint.layout import FILES, REMOVES, VECTOR
from deltamirror.deltalog.checkpoint.maps import maps_of

_REPEATING: Final = frozenset({"partitionValues", "tags", "deletionVector"})


def adds_table(adds: Sequence[tuple[int, Add]]) -> pa.Table:
    """A row for each add, with its ordinal."""
    return _table(adds, FILES)


def removes_table(removes: Sequence[tuple[int, Remove]]) -> pa.Table:
    """A row for each remove, with its ordinal."""
    return _table(removes, REMOVES)


def files_of_columns(columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """The files of adds that are given by the fields of the line.

    Maps and deletion vectors, many of which are equal, are pairs: those that differ, and the place of each row's among
    them.
    """
    return pa.table([_files_column(columns[field.name], field) for field in FILES], FILES)


def _files_column(values: Sequence[Any], field: pa.Field) -> pa.Array:
    if field.name not in _REPEATING:
        return _column(values, field)
    distinct, places = values
    return _column(distinct, field).take(pa.array(places, pa.int32()))


def _table(actions: Sequence[tuple[int, Add | Remove]], schema: pa.Schema) -> pa.Table:
    attributes = _attributes(Add if schema is FILES else Remove)
    bodies = [action for _, action in actions]
    columns = [_column([getattr(each, attributes[field.name]) for each in bodies], field) for field in schema]
    ordinals = pa.array([ordinal for ordinal, _ in actions], pa.int64())
    return pa.table([*columns, ordinals], schema.append(pa.field("ordinal", pa.int64())))


def _attributes(struct: type[Add | Remove]) -> dict[str, str]:
    return {each.encode_name: each.name for each in msgspec.structs.fields(struct)}


def _column(values: Sequence[Any], field: pa.Field) -> pa.Array:
    match field.name:
        case "dataChange":  # no file action of a checkpoint changes data
            return pa.array([False] * len(values))
        case "partitionValues" | "tags":
            return maps_of(values)
        case "deletionVector":
            return pa.array([None if each is None else msgspec.to_builtins(each) for each in values], VECTOR)
        case _:
            return pa.array(values, field.type)
