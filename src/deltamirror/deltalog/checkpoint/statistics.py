"""Which statistics a table has: the columns of ``stats_parsed``, which follow from its schema and its properties."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from deltamirror.delta.actions import Metadata, Protocol
from deltamirror.delta.properties import PROPERTIES
from deltamirror.delta.schema import Decimal, Field, Primitive, StructType, parse_schema
from deltamirror.delta.schema.columns import column_paths
from deltamirror.errors import InvalidInput

_INTEGER: Final = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_LONG: Final = Primitive("long")
_WITH_BOUNDS: Final = frozenset(
    {"byte", "short", "integer", "long", "float", "double", "date", "timestamp", "timestamp_ntz", "string"}
)
"""Bounds of variants, which only shredded ones have, are left to ``stats``."""


def partition_schema(metadata: Metadata) -> StructType:
    """The partition columns in their order, under their physical names."""
    schema = parse_schema(metadata.schema_string)
    columns = {each.name: each for each in schema.fields}
    fields = (columns.get(name) or schema.get(name) for name in metadata.partition_columns)
    return StructType(tuple(Field(each.physical_name, each.type) for each in fields if each is not None))


def statistics_schema(metadata: Metadata, protocol: Protocol) -> StructType:
    """The columns of ``stats_parsed``, under their physical names."""
    indexed = _indexed(metadata)
    bounds, counts = tuple(_bounds(indexed)), tuple(_null_counts(indexed))
    fields = [Field("numRecords", _LONG)]
    fields += [Field(name, StructType(bounds)) for name in ("minValues", "maxValues") if bounds]
    fields += [Field("nullCount", StructType(counts))] if counts else []
    if "deletionVectors" in (protocol.writer_features or ()):
        fields.append(Field("tightBounds", Primitive("boolean")))
    return StructType(tuple(fields))


def _bounds(fields: Iterable[Field]) -> Iterator[Field]:
    for each in fields:
        if isinstance(each.type, StructType):
            inner = tuple(_bounds(each.type.fields))
            yield from [Field(each.physical_name, StructType(inner))] if inner else []
        elif isinstance(each.type, Decimal) or (isinstance(each.type, Primitive) and each.type.name in _WITH_BOUNDS):
            yield Field(each.physical_name, each.type)


def _null_counts(fields: Iterable[Field]) -> Iterator[Field]:
    for each in fields:
        if isinstance(each.type, StructType):
            inner = tuple(_null_counts(each.type.fields))
            yield from [Field(each.physical_name, StructType(inner))] if inner else []
        else:
            yield Field(each.physical_name, _LONG)


def _indexed(metadata: Metadata) -> tuple[Field, ...]:
    """The columns with statistics, cut down to the fields that have some."""
    schema = parse_schema(metadata.schema_string)
    names = metadata.configuration.get("delta.dataSkippingStatsColumns")
    if names is not None:
        return tuple(_chosen(schema.fields, [tuple(map(str.lower, path)) for path in column_paths(names)]))
    data = tuple(each for each in schema.fields if each.name not in metadata.partition_columns)
    limit = _most_leaves(metadata)
    return data if limit < 0 else _first_leaves(data, limit)[0]


def _most_leaves(metadata: Metadata) -> int:
    """Below zero it stands for all. Delta Spark lets users set -1 or more, but reads whatever number is there."""
    known = PROPERTIES["delta.dataSkippingNumIndexedCols"]
    text = metadata.configuration.get(known.key, known.default or "")
    if _INTEGER.fullmatch(text) is None:
        raise InvalidInput(
            f"property {known.key} has to be {known.expects}, not {text!r}", hint="set the property to such a value"
        )
    return int(text)


def _chosen(fields: Iterable[Field], names: Sequence[tuple[str, ...]]) -> Iterator[Field]:
    """The named columns; the name of a struct stands for all that is in it."""
    for each in fields:
        rests = [name[1:] for name in names if name[0] == each.name.lower()]
        if rests and not any(rests):
            yield each
        elif rests and isinstance(each.type, StructType):
            inner = StructType(tuple(_chosen(each.type.fields, [rest for rest in rests if rest])))
            yield replace(each, type=inner)


def _first_leaves(fields: Iterable[Field], limit: int) -> tuple[tuple[Field, ...], int]:
    """The fields that the first ``limit`` leaves lie in, and how many leaves these have."""
    found: list[Field] = []
    count = 0
    for each in fields:
        if count >= limit:
            break
        kind, leaves = each.type, 1
        if isinstance(kind, StructType):
            inner, leaves = _first_leaves(kind.fields, limit - count)
            kind = StructType(inner)
        found.append(replace(each, type=kind))
        count += leaves
    return tuple(found), count
