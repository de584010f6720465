"""Which files a filter can be true of, by partition values and statistics: what the log says of a file, as guarantees.

Arrow finds out whether a filter contradicts what is guaranteed of all rows of a file. Only columns that the filter
names are looked at, and only at the top: columns inside of structs exclude no file.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from decimal import Decimal as Number
from functools import reduce
from operator import and_
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from deltamirror.delta.partitions import PartitionValue, parse_partition
from deltamirror.delta.schema import DataType, Decimal, Field, Primitive
from deltamirror.errors import Unsupported
from deltamirror.rows.layout import Layout

__all__ = ["live_records", "mentioned", "partition_guarantee", "partition_rows", "possible_files"]

_TIMES: Final = frozenset({"timestamp", "timestamp_ntz"})
_UNBOUNDED: Final = frozenset({"boolean", "binary", "variant", "void"})


def mentioned(condition: pc.Expression, fields: Sequence[Field]) -> list[Field]:
    """The columns that a filter may name: more where its text has other words that are names of columns."""
    text = str(condition)
    return [each for each in fields if each.name in text]


def possible_files(files: Sequence[Mapping[str, Any]], condition: pc.Expression, layout: Layout) -> list[int]:
    """The numbers of the files that may have rows for a filter, which names columns as users do."""
    named = mentioned(condition, layout.schema.fields)
    file_format, nowhere = ds.ParquetFileFormat(), fs.LocalFileSystem()
    fragments = [
        file_format.make_fragment(str(number), nowhere, partition_expression=_guarantee(file, named, layout))
        for number, file in enumerate(files)
    ]
    dataset = ds.FileSystemDataset(fragments, layout.arrow_schema, file_format)
    try:
        return [int(each.path) for each in dataset.get_fragments(filter=condition)]
    except pa.ArrowException:  # a value that cannot be computed, such as a sum that is too large: its rows will tell
        return list(range(len(files)))


def partition_guarantee(
    values: Mapping[str, str | None], layout: Layout, naming: Callable[[Field], str]
) -> pc.Expression:
    """The values of a file's partition columns, as something that all of its rows have."""
    return _all(
        _has_value(naming(each), each, _value(each, values, layout), layout) for each in layout.partition_fields
    )


def partition_rows(files: Sequence[Mapping[str, Any]], layout: Layout) -> pa.RecordBatch:
    """The values that files have in the partition columns, as users name them: one row for each file.

    A column without a name is there, so that there are rows where a table has no partitions.
    """
    fields = layout.partition_fields
    columns = [
        pa.array([_value(each, file["partition_values"], layout) for file in files], layout.arrow_type(each.type))
        for each in fields
    ]
    return pa.RecordBatch.from_arrays([*columns, pa.nulls(len(files))], names=[*(each.name for each in fields), ""])


def live_records(file: Mapping[str, Any]) -> int | None:
    """How many rows a file has, as far as its statistics tell, without those that are deleted."""
    records = _decoded(file["stats"]).get("numRecords")
    if not isinstance(records, int):
        return None
    deleted = json.loads(file["deletion_vector"])["cardinality"] if file["deletion_vector"] is not None else 0
    return records - int(deleted)


def _guarantee(file: Mapping[str, Any], named: Sequence[Field], layout: Layout) -> pc.Expression:
    partitions = {each.name for each in layout.partition_fields}
    values = {each: _value(each, file["partition_values"], layout) for each in named if each.name in partitions}
    known = (_has_value(each.name, each, value, layout) for each, value in values.items() if not _is_nan(value))
    stats = _decoded(file["stats"])
    bounds = (part for each in named if each.name not in partitions for part in _bounds(each, stats, layout))
    return _all([*known, *bounds])


def _is_nan(value: object) -> bool:
    """Arrow compares NaN with nothing: of a file with it, nothing is guaranteed."""
    return value == "NaN" or value != value


def _value(field: Field, values: Mapping[str, str | None], layout: Layout) -> PartitionValue:
    text = values.get(layout.naming(field))
    try:
        return parse_partition(text, field.type)
    except ValueError as error:  # of another writer: years beyond 9999
        problem = f"a file has {text!r} as its value of the partition column {field.name!r}, which cannot be read"
        hint = "read this table by Delta Spark"
        raise Unsupported(f"table {layout.table!r}: {problem}", hint=hint, table=layout.table) from error


def _has_value(name: str, field: Field, value: PartitionValue, layout: Layout) -> pc.Expression:
    if value is None:
        return pc.field(name).is_null()
    return pc.field(name) == pa.scalar(value, layout.arrow_type(field.type))


def _bounds(field: Field, stats: Mapping[str, Any], layout: Layout) -> Iterator[pc.Expression]:
    if not _has_bounds(field.type):
        return
    name, column = layout.naming(field), pc.field(field.name)
    nulls, low, high = (_member(stats, part, name) for part in ("nullCount", "minValues", "maxValues"))
    if _is_nan(low) or _is_nan(high):
        return
    with suppress(ValueError, TypeError, ArithmeticError, pa.ArrowException):  # then it says nothing
        if nulls is not None and nulls == stats.get("numRecords"):
            yield column.is_null()
            return
        for part, value in (("low", low), ("high", high)):
            if value is None:
                continue
            bound = _scalar(value, field.type, layout, is_upper=part == "high")
            inside = column >= bound if part == "low" else column <= bound
            yield inside if nulls == 0 else inside | column.is_null()


def _has_bounds(kind: DataType) -> bool:
    return isinstance(kind, Decimal) or (isinstance(kind, Primitive) and kind.name not in _UNBOUNDED)


def _scalar(value: object, kind: DataType, layout: Layout, *, is_upper: bool) -> pa.Scalar:
    """A bound as a value of its column. Times are cut to milliseconds in statistics, so that the upper one is later."""
    if isinstance(kind, Primitive) and kind.name in _TIMES:
        time = datetime.fromisoformat(str(value))
        return pa.scalar(time + timedelta(milliseconds=is_upper), layout.arrow_type(kind))
    if kind == Primitive("string"):
        return pa.scalar(value, pa.string())
    given = float(value) if isinstance(value, Number) and isinstance(kind, Primitive) else value
    return pa.scalar(parse_partition(given, kind), layout.arrow_type(kind))  # type: ignore[arg-type]


def _member(stats: Mapping[str, Any], part: str, name: str) -> Any:
    found = stats.get(part)
    return found.get(name) if isinstance(found, Mapping) else None


def _decoded(stats: str | None) -> Mapping[str, Any]:
    try:
        found = json.loads(stats or "{}", parse_float=Number)
    except ValueError:
        return {}
    return found if isinstance(found, Mapping) else {}


def _all(parts: Any) -> pc.Expression:
    return reduce(and_, parts, pc.scalar(True))
