"""Arrow columns brought to the types of a table: cast where that loses nothing, refused by name elsewhere.

Types are compared before any row is looked at (``require_castable``). Rows are refused where a value does not fit after
all (nanoseconds in a column of microseconds), or is null in a column that is NOT NULL. A null struct is refused where a
field of it is NOT NULL, as Delta Spark does: delta-rs opens no such table as Arrow or pandas data.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from deltamirror.delta.schema import ArrayType, DataType, Decimal, Field, MapType, Primitive, StructType, type_text
from deltamirror.delta.schema.arrow import from_arrow
from deltamirror.delta.schema.keys import CURRENT_DEFAULT, GENERATION_EXPRESSION
from deltamirror.delta.widening import TYPE_WIDENING, is_widening
from deltamirror.errors import InvalidInput, InvalidSchema
from deltamirror.rows.layout import Layout
from deltamirror.rows.text_lengths import TextLength

_INTEGER_BITS: Final[Mapping[str, int]] = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_EXACT_BITS: Final[Mapping[str, int]] = {"float": 16, "double": 32}
"""The widest integers that a column of floating point numbers holds exactly."""
_DIGITS: Final[Mapping[int, int]] = {8: 3, 16: 5, 32: 10, 64: 20}
"""The digits that integers of so many bits need, as Spark counts them."""
_SAME: Final[Mapping[str, tuple[Callable[[pa.DataType], bool], ...]]] = {
    "string": (kinds.is_string, kinds.is_large_string, kinds.is_string_view),
    "binary": (kinds.is_binary, kinds.is_large_binary, kinds.is_binary_view, kinds.is_fixed_size_binary),
    "boolean": (kinds.is_boolean,),
    "date": (kinds.is_date,),
}
_WIDENING: Final = f"merge_schema=True (mergeSchema in Spark), on a table that has {TYPE_WIDENING}"
_LISTS: Final = (
    kinds.is_list,
    kinds.is_large_list,
    kinds.is_fixed_size_list,
    kinds.is_list_view,
    kinds.is_large_list_view,
)


def is_list(kind: pa.DataType) -> bool:
    """Whether this is a list, of whichever layout."""
    return any(is_kind(kind) for is_kind in _LISTS)


def require_castable(source: pa.Schema, layout: Layout) -> None:
    """Refuse data with a column that the table lacks, or whose values might not fit; and a missing NOT NULL column."""
    _require_fields(list(source), layout.schema, "", layout)


def plain_schema(source: pa.Schema) -> pa.Schema:
    """The columns without encodings, such as dictionaries."""
    return pa.schema([each.with_type(decoded_type(each.type)) for each in source])


def _require_fields(given: list[pa.Field], wanted: StructType, parent: str, layout: Layout) -> None:
    found: dict[str, pa.Field] = {}
    for each in given:
        if each.name.lower() in found:
            raise _refused(layout, f"the data has the column {parent + each.name!r} twice, but for case", "rename one")
        found[each.name.lower()] = each
    for field in wanted.fields:
        if (source := found.pop(field.name.lower(), None)) is None:
            _require_optional(field, parent, layout)
        else:
            _require_type(source.type, field.type, parent + field.name, layout)
    if found:
        names = ", ".join(each.name for each in wanted.fields)
        where = f"the struct {parent[:-1]!r}" if parent else "the table"
        problem = f"the data has a column {parent + next(iter(found.values())).name!r}, which {where} lacks"
        hint = f"leave it out, or add it to the table: merge_schema=True (mergeSchema in Spark); there are: {names}"
        raise _refused(layout, problem, hint)


def _require_optional(field: Field, parent: str, layout: Layout) -> None:
    name = parent + field.name
    if not field.nullable:
        raise _refused(layout, f"the column {name!r} is NOT NULL, and missing from the data", "add it to the data")
    for key, what in ((CURRENT_DEFAULT, "a default"), (GENERATION_EXPRESSION, "a generation expression")):
        if key in field.metadata:
            problem = f"the column {name!r} has {what}, {field.metadata[key]}, and is missing from the data"
            raise _refused(layout, problem, "add it to the data: expressions of SQL are not evaluated here")


def _require_type(source: pa.DataType, kind: DataType, path: str, layout: Layout) -> None:
    source = decoded_type(source)
    match kind:
        case StructType() if kinds.is_struct(source):
            _require_fields([source.field(i) for i in range(source.num_fields)], kind, f"{path}.", layout)
        case ArrayType(element) if is_list(source):
            _require_type(source.value_type, element, f"{path}.element", layout)
        case MapType(key, value) if kinds.is_map(source):
            _require_type(source.key_type, key, f"{path}.key", layout)
            _require_type(source.item_type, value, f"{path}.value", layout)
        case _ if not kinds.is_null(source) and not _is_lossless(source, kind):
            problem = f"the column {path!r} is {type_text(kind)}, the data has {source}"
            raise _refused(layout, problem, _cast_hint(source, kind, path))


def _is_lossless(source: pa.DataType, kind: DataType) -> bool:
    if isinstance(kind, Decimal):
        return _fits_decimal(source, kind)
    if not isinstance(kind, Primitive):
        return False
    name = kind.name
    if kinds.is_integer(source):
        bits = source.bit_width + kinds.is_unsigned_integer(source)
        return bool(bits <= _INTEGER_BITS.get(name, 0) or source.bit_width <= _EXACT_BITS.get(name, 0))
    if kinds.is_floating(source):
        return name == "double" or (name == "float" and bool(source.bit_width <= 32))
    if kinds.is_timestamp(source):
        return name == ("timestamp_ntz" if source.tz is None else "timestamp")
    return any(is_same(source) for is_same in _SAME.get(name, ()))


def _fits_decimal(source: pa.DataType, kind: Decimal) -> bool:
    before_point = kind.precision - kind.scale
    if kinds.is_integer(source):
        return _DIGITS[source.bit_width] <= before_point
    if not kinds.is_decimal(source):
        return False
    return bool(source.scale <= kind.scale and source.precision - source.scale <= before_point)


def _require_sound(name: str, column: pa.Array) -> None:
    """Refuse values that Arrow does not allow: texts that are not UTF-8, decimals beyond their precision."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InvalidInput(
            f"column {name!r} holds values that are not valid for its type {column.type}: {error}",
            hint="build the column by pa.array, which checks values; text is UTF-8",
        ) from None


def _cast_hint(source: pa.DataType, kind: DataType, path: str) -> str:
    if kinds.is_timestamp(source) and kind == Primitive("timestamp"):
        return f"say which zone {path} is in: pc.assume_timezone(…, 'UTC'), or tz_localize('UTC') in pandas"
    casts = f"cast {path} to {type_text(kind)} beforehand: only casts that lose nothing are made here"
    return f"{casts}; or widen the column: {_WIDENING}" if widened_type(kind, source) else casts


def widened_type(kind: DataType, source: pa.DataType) -> DataType | None:
    """The type of the data, if a column of this type could be widened to it."""
    try:
        found = from_arrow(pa.schema([("", source)])).fields[0].type
    except InvalidSchema:
        return None
    return found if is_widening(kind, found) else None


class Caster:
    """Turns batches of checked data into the columns of a layout, under the names of its data files.

    ``fits_texts`` holds texts against the lengths that columns were declared with, as Spark does with new values.
    """

    def __init__(self, source: pa.Schema, layout: Layout, *, fits_texts: bool = False) -> None:
        require_castable(source, layout)
        self._layout, self._fits_texts = layout, fits_texts
        self.schema = pa.schema([layout.arrow_field(each) for each in layout.schema.fields])

    def cast(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch; InvalidInput names the column whose values do not fit."""
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            _require_sound(name, column)
        columns = self._fields(
            {name.lower(): column for name, column in zip(batch.schema.names, batch.columns, strict=True)},
            self._layout.schema,
            "",
            length=batch.num_rows,
        )
        return pa.record_batch(list(columns), schema=self.schema)

    def _fields(
        self, given: Mapping[str, pa.Array], wanted: StructType, parent: str, *, length: int
    ) -> Iterator[pa.Array]:
        for field in wanted.fields:
            path = parent + field.name
            column = self._cast(given.get(field.name.lower(), pa.nulls(length)), field.type, path)
            if self._fits_texts and (limit := TextLength.of(field)) is not None:
                column = self._fitted(column, limit, path)
            if not field.nullable and column.null_count:
                self._refuse_nulls(path, column.null_count)
            yield column

    def _cast(self, column: pa.Array, kind: DataType, path: str) -> pa.Array:
        target = self._layout.arrow_type(kind)
        if column.type == target and not _is_nested(kind):
            return column
        column = _decoded(column)
        if column.null_count and (required := _required_field(kind)) is not None:
            self._refuse_null_structs(path, column.null_count, required)
        if kinds.is_null(column.type):
            return pa.nulls(len(column), target)
        match kind:
            case StructType():
                return self._struct(column, kind, target, path)
            case ArrayType(element, contains_null):
                values = self._cast(column.flatten(), element, f"{path}.element")
                if not contains_null and values.null_count:
                    self._refuse_nulls(f"{path}.element", values.null_count)
                return pa.ListArray.from_arrays(_offsets(column), values, type=target)
            case MapType():
                return self._map(column, kind, target, path)
            case _:
                return self._plain(column, target, kind, path)

    def _struct(self, column: pa.StructArray, kind: StructType, target: pa.DataType, path: str) -> pa.StructArray:
        given = {each.name.lower(): child for each, child in zip(column.type, _children(column), strict=True)}
        children = self._fields(given, kind, f"{path}.", length=len(column))
        return pa.StructArray.from_arrays(list(children), fields=list(target), mask=column.is_null())

    def _map(self, column: pa.MapArray, kind: MapType, target: pa.DataType, path: str) -> pa.MapArray:
        entries = _as_list(column)
        keys, values = entries.flatten().flatten()
        values = self._cast(values, kind.value, f"{path}.value")
        if not kind.value_contains_null and values.null_count:
            self._refuse_nulls(f"{path}.value", values.null_count)
        keys = self._cast(keys, kind.key, f"{path}.key")
        return pa.MapArray.from_arrays(_offsets(entries), keys, values, type=target)

    def _plain(self, column: pa.Array, target: pa.DataType, kind: DataType, path: str) -> pa.Array:
        try:
            return column.cast(target)
        except pa.ArrowException as error:
            problem = f"the column {path!r} is {type_text(kind)}, and a value of the data does not fit: {error}"
            raise _refused(self._layout, problem, "round or correct the values beforehand") from error

    def _fitted(self, column: pa.Array, limit: TextLength, path: str) -> pa.Array:
        try:
            return limit.fitted(column)
        except ValueError as error:
            problem = f"the column {path!r} is {limit.declared}, and a value of the data does not fit: {error}"
            raise _refused(self._layout, problem, "shorten the values beforehand") from None

    def _refuse_nulls(self, path: str, count: int) -> None:
        problem = f"the column {path!r} is NOT NULL, and {count:,} of its values in one batch of the data are null"
        raise _refused(self._layout, problem, "fill or drop these rows")

    def _refuse_null_structs(self, path: str, count: int, required: str) -> None:
        problem = (
            f"the struct {path!r} has the field {required!r}, which is NOT NULL, and {count:,} of the structs in one "
            "batch of the data are null"
        )
        raise _refused(self._layout, problem, "fill or drop these rows")


def _is_encoded(kind: pa.DataType) -> bool:
    return bool(kinds.is_dictionary(kind) or kinds.is_run_end_encoded(kind))


def decoded_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values, whatever encodes them."""
    while _is_encoded(kind):
        kind = kind.value_type
    return kind


def _decoded(column: pa.Array) -> pa.Array:
    """The values one by one, of whichever type they are: Arrow itself does this for some types only."""
    while _is_encoded(column.type):
        is_dictionary = kinds.is_dictionary(column.type)
        values = column.dictionary if is_dictionary else column.values
        column = _without_views(values).take(column.indices if is_dictionary else _run_numbers(column))
    return column


def _run_numbers(column: pa.RunEndEncodedArray) -> pa.Array:
    """In which of the runs each value is."""
    runs = pa.RunEndEncodedArray.from_arrays(column.run_ends, pa.array(range(len(column.values)), pa.int64()))
    return pc.run_end_decode(runs.slice(column.offset, len(column)))


def _without_views(values: pa.Array) -> pa.Array:
    if kinds.is_string_view(values.type):
        return values.cast(pa.large_string())
    return values.cast(pa.large_binary()) if kinds.is_binary_view(values.type) else values


def _children(column: pa.StructArray) -> list[pa.Array]:
    """The fields of structs, null wherever the struct is; runs cannot say so, and the struct does."""
    flat = enumerate(column.flatten())
    return [column.field(number) if kinds.is_run_end_encoded(child.type) else child for number, child in flat]


def _required_field(kind: DataType) -> str | None:
    """The first field of a struct that is NOT NULL, however deep in structs."""
    for field in kind.fields if isinstance(kind, StructType) else ():
        if not field.nullable:
            return field.name
        if (inside := _required_field(field.type)) is not None:
            return f"{field.name}.{inside}"
    return None


def _is_nested(kind: DataType) -> bool:
    return isinstance(kind, StructType | ArrayType | MapType)


def _offsets(column: pa.Array) -> pa.Array:
    """Where each list of a column begins in its flattened values; null where there is no list."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).cast(pa.int64())
    starts = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
    missing = pa.concat_arrays([column.is_null(), pa.array([False])])
    return pc.if_else(missing, pa.scalar(None, pa.int32()), starts)


def _as_list(column: pa.MapArray) -> pa.ListArray:
    entry = pa.struct([pa.field("key", column.type.key_type, nullable=False), pa.field("value", column.type.item_type)])
    return column.cast(pa.list_(entry))


def _refused(layout: Layout, problem: str, hint: str) -> InvalidInput:
    return InvalidInput(f"table {layout.table!r}: {problem}", hint=hint)
