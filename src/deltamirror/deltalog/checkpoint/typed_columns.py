"""Partition values and statistics as typed columns: what ``partitionValues_parsed`` and ``stats_parsed`` hold.

A statistic that cannot be read as a value of its column is null, as if the file had none. Statistics that are no JSON
object at all are a struct of nulls; a file without statistics, or with an empty text, has null.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from decimal import Decimal as Number
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from deltamirror.delta.actions import Metadata, Protocol
from deltamirror.delta.properties import write_stats_as_struct
from deltamirror.delta.schema import DataType, Decimal, Field, Primitive, StructType
from deltamirror.delta.schema.arrow import to_arrow
from deltamirror.deltalog.checkpoint.columns import combined
from deltamirror.deltalog.checkpoint.layout import STATS_PARSED
from deltamirror.deltalog.checkpoint.maps import value_of
from deltamirror.deltalog.checkpoint.parquet import as_stored
from deltamirror.deltalog.checkpoint.statistics import statistics_schema
from deltamirror.deltalog.checkpoint.values import as_date, as_decimal, as_float, as_local_time, as_time, of_partition

_FEW_TEXTS: Final = 256
_DECODER: Final = json.JSONDecoder(parse_float=Number)
_TIMES: Final[Mapping[str, Callable[[str], int | None]]] = {
    "date": as_date,
    "timestamp": as_time,
    "timestamp_ntz": as_local_time,
}
"""What JSON has as strings; Arrow's parser of JSON would take only some of their spellings."""

_NON_FINITE: Final = frozenset({"NaN", "Infinity", "+Infinity", "-Infinity", "+INF", "-INF"})
_RANGES: Final = {name: 2 ** (bits - 1) for name, bits in (("byte", 8), ("short", 16), ("integer", 32), ("long", 64))}


def partition_values(maps: pa.MapArray, schema: StructType) -> pa.StructArray:
    """The values of the partition columns, from their texts."""
    fields = list(to_arrow(schema))
    columns = [_partition_column(maps, each, to.type) for each, to in zip(schema.fields, fields, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=fields)


def statistics(texts: pa.Array, schema: StructType) -> pa.StructArray:
    """The statistics that the texts hold."""
    kind = pa.struct(list(to_arrow(schema)))
    known = texts.drop_null()
    parsed = _parsed(known, schema, kind)
    if not texts.null_count:
        return parsed
    places = pc.subtract(pc.cumulative_sum(texts.is_valid().cast(pa.int64())), 1)
    return parsed.take(pc.if_else(texts.is_valid(), places, pa.scalar(None, pa.int64())))


def with_statistics(
    older: pa.Table, newer: pa.Table, metadata: Metadata, protocol: Protocol
) -> tuple[pa.Table, pa.Table]:
    """Both tables with ``stats_parsed``, where the older one brings those that the table has; otherwise without."""
    if STATS_PARSED not in older.column_names:
        return older, newer
    schema = statistics_schema(metadata, protocol)
    field = pa.field(STATS_PARSED, pa.struct(list(to_arrow(schema))))
    known = older.column(STATS_PARSED)
    older = older.drop_columns([STATS_PARSED])
    if not write_stats_as_struct(metadata) or known.type != as_stored(pa.schema([field])).field(0).type:
        return older, newer
    parsed = statistics(combined(newer.column("stats")), schema)
    return older.append_column(field, known.cast(field.type)), newer.append_column(field, parsed)


def _partition_column(maps: pa.MapArray, each: Field, kind: pa.DataType) -> pa.Array:
    """Every distinct text is read once."""
    texts = value_of(maps, each.name).dictionary_encode()
    return _partition_values(texts.dictionary, each, kind).take(texts.indices)


def _partition_values(texts: pa.Array, each: Field, kind: pa.DataType) -> pa.Array:
    if pa.types.is_date(kind):
        with suppress(pa.ArrowInvalid):  # one that is spelled in a way that only Spark takes
            return texts.cast(kind)
    return pa.array([of_partition(text, each.type) for text in texts.to_pylist()], kind)


def _parsed(texts: pa.Array, schema: StructType, kind: pa.StructType) -> pa.StructArray:
    """By Arrow, but for the few texts around one that Arrow does not take."""
    try:
        return _by_arrow(texts, schema, kind)
    except pa.ArrowInvalid:
        if len(texts) <= _FEW_TEXTS:
            return pa.array([_object(text, schema) for text in texts.to_pylist()], kind)
    half = len(texts) // 2
    return pa.concat_arrays([_parsed(part, schema, kind) for part in (texts.slice(0, half), texts.slice(half))])


def _by_arrow(texts: pa.Array, schema: StructType, kind: pa.StructType) -> pa.StructArray:
    objects = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
    if not pc.all(objects).as_py():
        raise pa.ArrowInvalid("not objects")
    joined = _lines(texts)
    options = pj.ParseOptions(explicit_schema=pa.schema(_plain(kind)), unexpected_field_behavior="ignore")
    reading = pj.ReadOptions(use_threads=False, block_size=joined.size + 1)
    table = pj.read_json(pa.BufferReader(joined), parse_options=options, read_options=reading)
    if table.num_rows != len(texts):
        raise pa.ArrowInvalid("a text of several objects")
    return _struct([table.column(each.name).combine_chunks() for each in kind], schema, kind)


def _lines(texts: pa.Array) -> pa.Buffer:
    together = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts.cast(pa.string()))
    return pc.binary_join(together, "\n")[0].as_buffer()


def _plain(kind: pa.StructType) -> list[pa.Field]:
    """The fields as Arrow reads them from JSON: dates and times as texts."""
    return [each.with_type(_plain_type(each.type)) for each in kind]


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct(_plain(kind))
    return pa.string() if pa.types.is_temporal(kind) else kind


def _struct(
    columns: list[pa.Array], schema: StructType, kind: pa.StructType, missing: pa.Array | None = None
) -> pa.StructArray:
    typed = [_typed(*each) for each in zip(columns, schema.fields, kind, strict=True)]
    return pa.StructArray.from_arrays(typed, fields=list(kind), mask=missing)


def _typed(column: pa.Array, each: Field, to: pa.Field) -> pa.Array:
    if isinstance(each.type, StructType):
        children = [column.field(number) for number in range(column.type.num_fields)]
        return _struct(children, each.type, to.type, column.is_null())
    if not pa.types.is_temporal(to.type):
        return column
    try:
        return column.cast(to.type)
    except pa.ArrowInvalid:
        texts = column.dictionary_encode()
        values = [_of_json(text, each.type) for text in texts.dictionary.to_pylist()]
        return pa.array(values, to.type).take(texts.indices)


def _object(text: str, schema: StructType) -> dict[str, object] | None:
    """The first object of the text, if there is one; an empty text is as none."""
    try:
        value, _ = _DECODER.raw_decode(text.strip())
    except (ValueError, RecursionError):
        return {} if text.strip() else None
    return _members(value, schema) or {}


def _members(value: object, schema: StructType) -> dict[str, object] | None:
    if not isinstance(value, Mapping):
        return None
    return {each.name: _of_json(value.get(each.name), each.type) for each in schema.fields}


def _of_json(value: object, kind: DataType) -> object:
    """A value as Spark reads it from JSON."""
    match kind:
        case StructType():
            return _members(value, kind)
        case Decimal():
            return as_decimal(str(value), kind) if _is_number(value) or isinstance(value, str) else None
        case Primitive(name) if name in _TIMES:
            return _TIMES[name](value) if isinstance(value, str) else None
        case Primitive(name) if name in _RANGES:
            return _integer(value, _RANGES[name])
        case Primitive("float" | "double"):
            return _float(value, kind)
        case Primitive("boolean"):
            return value if isinstance(value, bool) else None
        case _:
            return _text(value)


def _integer(value: object, limit: int) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Number) and not isinstance(value, bool)


def _float(value: object, kind: Primitive) -> object:
    """Numbers, and the words for those that JSON has none for."""
    if isinstance(value, str):
        return as_float(value) if value in _NON_FINITE else None
    return of_partition(str(value), kind) if _is_number(value) else None


def _text(value: object) -> str | None:
    """A string that has a UTF-8 form."""
    if not isinstance(value, str):
        return None
    try:
        value.encode()
    except UnicodeEncodeError:
        return None
    return value
