"""Data files as callers have them: actions, mappings, or Arrow data with a row for each file."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import PurePath
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from deltamirror.arguments import shown
from deltamirror.catalog.inputs import converted, partition_texts, with_partition_texts
from deltamirror.delta.actions import Add, DeletionVector
from deltamirror.errors import InvalidAction, InvalidInput

Files: TypeAlias = (
    Iterable[Add | Mapping[str, Any]] | Add | Mapping[str, Any] | pa.Table | pa.RecordBatch | pa.RecordBatchReader
)
"""Adds, mappings of their fields as on the wire (``partitionValues``), one of them, or Arrow data.

Arrow columns have the names of the fields in Python (``partition_values``). ``partition_values`` and ``tags`` are
maps, structs or JSON text; ``deletion_vector`` is a struct or JSON text. ``data_change`` is true where absent.
"""

_FIELDS = tuple(field.name for field in msgspec.structs.fields(Add))
_WIRE_NAMES = {field.name: field.encode_name for field in msgspec.structs.fields(Add)}
_ON_THE_WIRE = frozenset(_WIRE_NAMES.values())
_ROWS_AT_ONCE = 10_000
_REQUIRED = ("path", "size", "modification_time")
_ROWS = "rows are taken as a DataFrame of Spark, or as Arrow data: of any frame, what its library gives as Arrow"
_PATH = "a path says too little: give Add(path=…, partition_values={…}, size=…, modification_time=…, data_change=True)"


def is_listing(schema: pa.Schema, columns: Collection[str], table: str) -> bool:
    """Whether Arrow data lists files, and does not hold rows of a table with these columns.

    A listing has path, size and modification time, and no column that is no field of an add.
    """
    names = set(schema.names)
    if not names.issuperset(_REQUIRED) or not names.issubset(_FIELDS):
        return False
    if names <= {column.lower() for column in columns}:
        raise InvalidInput(
            f"the data may be a listing of files, or rows of table {table!r}, which has the same columns",
            hint="give the files as Add values: append(table, [Add(…), …]); or overwrite, which takes rows only",
        )
    return True


def adds(files: Files) -> Iterable[Add]:
    """The files as actions; Arrow data is converted batch by batch, that of other libraries, too."""
    if isinstance(files, pa.RecordBatch):
        return _from_arrow([files], files.schema)
    if isinstance(files, pa.Table):
        return _from_arrow(files.to_batches(), files.schema)
    if hasattr(files, "__arrow_c_stream__") and not isinstance(files, type):
        reader = pa.RecordBatchReader.from_stream(files)
        return _from_arrow(reader, reader.schema)
    several = [files] if isinstance(files, Add | Mapping) else files
    if not isinstance(several, Iterable) or isinstance(several, str | bytes | bytearray | type):
        raise _wrong(None, f"{shown(files)} was given", hint=_hint(files))
    return converted(several, _add)


def _hint(given: object) -> str:
    if isinstance(given, str | bytes | PurePath):
        return _PATH
    return _ROWS if hasattr(given, "toPandas") or hasattr(given, "columns") else ""


def _add(index: int, file: object) -> Add:
    if type(file) is Add:
        return with_partition_texts(file, index)
    if isinstance(file, Mapping):
        return _from_mapping(index, file)
    raise _wrong(index, f"{shown(file)} was given", hint=_hint(file))


def _from_mapping(index: int, file: Mapping[Any, Any]) -> Add:
    named = {"partitionValues": {}, "dataChange": True, **{_WIRE_NAMES.get(key, key): file[key] for key in file}}
    if unknown := [name for name in named if name not in _ON_THE_WIRE]:
        raise _wrong(index, f"there is no field {unknown[0]!r}; fields are {', '.join(sorted(_ON_THE_WIRE))}")
    values = named["partitionValues"]
    if isinstance(values, Mapping):
        named["partitionValues"] = partition_texts(values, action="add", index=index)
    try:
        return msgspec.convert(named, Add)
    except (msgspec.ValidationError, TypeError) as error:
        raise _wrong(index, str(error)) from error


def _from_arrow(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[Add]:
    if unknown := [name for name in schema.names if name not in _FIELDS]:
        problem = f"there is no field {unknown[0]!r}; fields are {', '.join(_FIELDS)}"
        raise _wrong(None, problem, hint="" if "path" in schema.names else _ROWS)
    if missing := [name for name in _REQUIRED if name not in schema.names]:
        raise _wrong(None, f"the column {missing[0]!r} is missing")
    return _from_batches(batches)


def _from_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[Add]:
    for batch in _parts(batches):
        try:
            columns = [_column(name, batch) for name in _FIELDS]
        except (msgspec.DecodeError, TypeError, ValueError) as error:
            raise _wrong(None, str(error)) from error
        made = map(_made, *columns)
        yield from made if _has_partition_texts(batch) else map(with_partition_texts, made)


def _made(
    path: Any, values: Any, size: Any, time: Any, change: Any, stats: Any,
    tags: Any, vector: Any, base: Any, default: Any, provider: Any,
) -> Add:  # fmt: skip
    """One add. To give the fields as a mapping costs three times as much."""
    return Add(
        path=path,
        partition_values=values,
        size=size,
        modification_time=time,
        data_change=change,
        stats=stats,
        tags=tags,
        deletion_vector=vector,
        base_row_id=base,
        default_row_commit_version=default,
        clustering_provider=provider,
    )


def _parts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches in slices, so that not all values of a large one are in memory twice."""
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            yield batch.slice(start, _ROWS_AT_ONCE)


def _has_partition_texts(batch: pa.RecordBatch) -> bool:
    """Whether the partition values are a map from texts to texts, and have nothing to be spelled as text."""
    kind = batch.schema.field("partition_values").type if "partition_values" in batch.schema.names else None
    return isinstance(kind, pa.MapType) and pa.types.is_string(kind.key_type) and pa.types.is_string(kind.item_type)


def _column(name: str, batch: pa.RecordBatch) -> list[Any]:
    if name not in batch.schema.names:
        return _absent(name, batch.num_rows)
    column = batch.column(name)
    if name == "partition_values" and isinstance(column, pa.MapArray) and not column.null_count:
        return _maps(column)
    values = column.to_pylist()
    if name == "partition_values":
        return [_map(value) or {} for value in values]
    if name == "tags":
        return [_map(value) for value in values]
    return [_vector(value) for value in values] if name == "deletion_vector" else values


def _maps(column: pa.MapArray) -> list[dict[Any, Any]]:
    """The maps, from all of their keys and values at once."""
    ends = column.offsets.to_pylist()
    first, last = ends[0], ends[-1]
    keys, items = (values.slice(first, last - first).to_pylist() for values in (column.keys, column.items))
    places = ((begin - first, end - first) for begin, end in pairwise(ends))
    return [dict(zip(keys[begin:end], items[begin:end], strict=True)) for begin, end in places]


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


def _wrong(index: int | None, problem: str, hint: str = "") -> InvalidAction:
    forms = "give Add values, mappings with the fields of an add, or Arrow data with a column for each field"
    return InvalidAction(
        f"a file is not an add: {problem}",
        hint=hint or f"{forms}; docs/reference/actions.md lists the fields",
        rule="add.shape",
        action="add",
        index=index,
    )
