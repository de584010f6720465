"""Statistics as text, from the typed columns of a checkpoint that has no text: as Spark's ``to_json`` writes them.

Nulls are left out, and so are dates and times outside of the years 1 to 9999: delta-rs fails at some of Spark's texts
of them, and a bound that is missing excludes no file. Times are cut to milliseconds. All of it is done column by
column, without a Python object for any file.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltamirror.delta.lines import json_text
from deltamirror.delta.partitions import java_double
from deltamirror.deltalog.checkpoint.layout import STATS_PARSED

_PREFIX: Final = f"add.{STATS_PARSED}."
_TEXT: Final = pa.large_string()
_DAYS: Final = (-719_162, 2_932_896)
_SECONDS: Final = (_DAYS[0] * 86_400, (_DAYS[1] + 1) * 86_400 - 1)
"""The first and the last of the years 1 to 9999, from 1970 on."""
_PARTS: Final = {"s": 1, "ms": 1_000, "us": 1_000_000}
"""How many make a second. Nanoseconds do not reach beyond these years."""


def needed_columns(file: pq.ParquetFile, groups: Sequence[int]) -> list[str]:
    """The typed statistics of ``add``, unless these row groups have a text for every file."""
    leaves = {file.schema.column(number).path: number for number in range(len(file.schema))}
    if not any(path.startswith(_PREFIX) for path in leaves):
        return []
    if "add.stats" in leaves and "add.path" in leaves:
        texts, paths = (_count_nulls(file.metadata, groups, leaves[path]) for path in ("add.stats", "add.path"))
        return [] if texts is not None and texts == paths else [STATS_PARSED]
    return [STATS_PARSED]


def zoned_times(file: pq.ParquetFile) -> frozenset[str]:
    """The typed statistics that are INT96, which is how times of a zone are written, and does not tell so."""
    columns = (file.schema.column(number) for number in range(len(file.schema)))
    return frozenset(
        each.path.removeprefix(_PREFIX)
        for each in columns
        if each.physical_type == "INT96" and each.path.startswith(_PREFIX)
    )


def with_texts(table: pa.Table, *, zoned: Collection[str]) -> pa.Table:
    """Rows of a checkpoint, with a text in place of the typed statistics of every file that has none."""
    place = table.schema.get_field_index("add")
    chunks = [_with_texts(chunk, zoned) for chunk in table.column(place).chunks]
    return table.set_column(place, "add", pa.chunked_array(chunks))


def _with_texts(adds: pa.StructArray, zoned: Collection[str]) -> pa.StructArray:
    columns = {each.name: adds.field(each.name) for each in adds.type}
    texts = statistics_texts(columns.pop(STATS_PARSED), zoned=zoned)
    columns["stats"] = pc.coalesce(columns["stats"].cast(_TEXT), texts) if "stats" in columns else texts
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns), mask=adds.is_null())


def _count_nulls(footer: pq.FileMetaData, groups: Sequence[int], leaf: int) -> int | None:
    """How many values are null; None where the file does not say."""
    found = [footer.row_group(group).column(leaf).statistics for group in groups]
    if any(each is None or not each.has_null_count for each in found):
        return None
    return sum(int(each.null_count) for each in found)


def statistics_texts(parsed: pa.StructArray, *, zoned: Collection[str] = ()) -> pa.Array:
    """The text of each struct; null where that is null.

    ``zoned`` are the dotted paths below ``parsed`` of times that are in UTC though their type does not say so.
    """
    return _object(parsed, "", zoned)


def _object(column: pa.StructArray, path: str, zoned: Collection[str]) -> pa.Array:
    members = [
        _member(each.name, _value(child, f"{path}{each.name}", zoned))
        for each, child in zip(column.type, column.flatten(), strict=True)
    ]
    body = _joined(*members) if members else pa.repeat(pa.scalar("", _TEXT), len(column))
    return pc.if_else(column.is_valid(), _joined("{", pc.utf8_ltrim(body, ","), "}"), pa.scalar(None, _TEXT))


def _member(name: str, texts: pa.Array) -> pa.Array:
    """With a comma before it, or nothing where the value is null."""
    return pc.fill_null(_joined(f",{json_text(name)}:", texts), "")


def _value(column: pa.Array, path: str, zoned: Collection[str]) -> pa.Array:
    kind = column.type
    if pa.types.is_struct(kind):
        return _object(column, f"{path}.", zoned)
    if pa.types.is_timestamp(kind):
        return _joined('"', _time(_common_times(column), is_zoned=path in zoned), '"')
    if pa.types.is_date32(kind):
        return _joined('"', _within(column, column.cast(pa.int32()), *_DAYS).cast(_TEXT), '"')
    if pa.types.is_floating(kind):  # the text that Arrow gives has as few digits as the width of the number allows
        return _each(column.cast(_TEXT), _number)
    if pa.types.is_decimal(kind):
        return _each(column, str)
    return column.cast(_TEXT) if pa.types.is_integer(kind) or pa.types.is_boolean(kind) else _each(column, _string)


def _common_times(column: pa.Array) -> pa.Array:
    if (parts := _PARTS.get(column.type.unit)) is None:
        return column
    return _within(column, column.cast(pa.int64()), _SECONDS[0] * parts, (_SECONDS[1] + 1) * parts - 1)


def _within(column: pa.Array, numbers: pa.Array, first: int, last: int) -> pa.Array:
    """The column, and null where its number is outside of a range."""
    inside = pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))
    return pc.if_else(inside, column, pa.scalar(None, column.type))


def _time(column: pa.Array, *, is_zoned: bool) -> pa.Array:
    """Arrow puts a Z behind a time whose type has a zone."""
    floor = pc.floor_temporal(column, unit="millisecond").cast(pa.timestamp("ms", column.type.tz))
    text = pc.replace_substring(floor.cast(_TEXT), " ", "T")
    return _joined(text, "Z") if is_zoned and column.type.tz is None else text


def _each(column: pa.Array, text_of: Callable[[Any], str]) -> pa.Array:
    """Every distinct value is written once."""
    distinct = column.dictionary_encode()
    texts = [None if value is None else text_of(value) for value in distinct.dictionary.to_pylist()]
    return pa.array(texts, _TEXT).take(distinct.indices)


def _number(digits: str) -> str:
    """As Java spells it. JSON has no numbers for those that are not finite: they are strings."""
    text = java_double(float(digits))
    return text if text[-1].isdigit() else f'"{text}"'


def _string(value: str | bytes) -> str:
    return json_text(value.decode() if isinstance(value, bytes) else value)


def _joined(*parts: pa.Array | str) -> pa.Array:
    """The texts behind one another; null where one of them is."""
    return pc.binary_join_element_wise(
        *(pa.scalar(each, _TEXT) if isinstance(each, str) else each for each in parts), pa.scalar("", _TEXT)
    )
