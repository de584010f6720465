"""Casts lose nothing: what comes out are the values that went in, or the data is refused by name."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.errors import InvalidInput
from deltamirror.rows.casting import Caster
from tests.unit.rows.test_statistics import layout


def cast(ddl: str, column: pa.Array) -> list[Any]:
    batch = pa.record_batch({"c": column})
    found: list[Any] = Caster(batch.schema, layout(f"c {ddl}")).cast(batch).column(0).to_pylist()
    return found


NO_TEXT = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
TOO_LONG = pa.Array.from_buffers(
    pa.decimal128(5, 2), 1, [None, pa.py_buffer((10**9).to_bytes(16, "little", signed=True))]
)


@pytest.mark.parametrize(("ddl", "column"), [("string", NO_TEXT), ("decimal(5,2)", TOO_LONG)])
def test_values_that_are_not_of_their_type_are_refused(ddl: str, column: pa.Array) -> None:
    with pytest.raises(InvalidInput, match="column 'c' holds values that are not valid for its type"):
        cast(ddl, column)
    with pytest.raises(InvalidInput, match="column 'c' holds values that are not valid for its type"):
        cast(f"array<{ddl}>", pa.ListArray.from_arrays([0, 1], column))


WIDER = {
    "byte": [pa.int8()],
    "short": [pa.int8(), pa.uint8(), pa.int16()],
    "int": [pa.uint8(), pa.uint16(), pa.int32()],
    "long": [pa.int8(), pa.uint32(), pa.int64()],
    "float": [pa.uint16(), pa.float16(), pa.float32()],
    "double": [pa.int32(), pa.float32(), pa.float64()],
    "decimal(10,0)": [pa.int32(), pa.decimal128(9, 0)],
    "decimal(12,2)": [pa.int32(), pa.decimal128(11, 1), pa.decimal256(12, 2)],
}
NARROWER = {
    "byte": [pa.int16(), pa.uint8(), pa.string()],
    "int": [pa.int64(), pa.uint32(), pa.float32(), pa.date32()],
    "long": [pa.uint64(), pa.float64(), pa.decimal128(5, 0)],
    "float": [pa.int32(), pa.float64()],
    "double": [pa.int64(), pa.decimal128(5, 2)],
    "decimal(10,2)": [pa.int32(), pa.decimal128(10, 3), pa.decimal128(11, 2), pa.float64()],
    "string": [pa.int64(), pa.binary(), pa.date32()],
    "binary": [pa.string()],
    "boolean": [pa.int8()],
    "date": [pa.timestamp("us"), pa.string()],
    "timestamp": [pa.timestamp("us"), pa.date32(), pa.int64()],
    "timestamp_ntz": [pa.timestamp("us", "UTC"), pa.date32()],
    "array<int>": [pa.list_(pa.int64()), pa.int32(), pa.map_(pa.int32(), pa.int32())],
    "map<string,int>": [pa.map_(pa.string(), pa.int64()), pa.list_(pa.int32())],
    "struct<a: int>": [pa.struct([("a", pa.int64())]), pa.struct([("a", pa.int32()), ("b", pa.int32())]), pa.int32()],
}


@pytest.mark.parametrize(("ddl", "kind"), [(ddl, kind) for ddl, kinds in WIDER.items() for kind in kinds])
def test_a_wider_column_takes_narrower_values(ddl: str, kind: pa.DataType) -> None:
    values = [0, 1, 100, None]
    given = [None if each is None else Decimal(each) for each in values] if pa.types.is_decimal(kind) else values
    assert cast(ddl, pa.array(given, pa.int64()).cast(kind) if given is values else pa.array(given, kind)) == values


@pytest.mark.parametrize(("ddl", "kind"), [(ddl, kind) for ddl, kinds in NARROWER.items() for kind in kinds])
def test_a_type_that_might_lose_something_is_refused_even_without_rows(ddl: str, kind: pa.DataType) -> None:
    with pytest.raises(InvalidInput, match=r"table 't': the (column|data has a column) 'c"):
        cast(ddl, pa.array([], kind))


def runs(values: pa.Array) -> pa.Array:
    """The first value twice, and all others once."""
    return pa.RunEndEncodedArray.from_arrays(pa.array(range(2, len(values) + 2), pa.int32()), values)


TEXTS = pa.array(["b", "a", None, "a"])
ENCODED = {
    "dictionary": TEXTS.dictionary_encode(),
    "large": TEXTS.cast(pa.large_string()),
    "view": TEXTS.cast(pa.string_view()),
    "dictionary of views": pa.DictionaryArray.from_arrays([0, 1, None, 1], pa.array(["b", "a"], pa.string_view())),
    "runs": runs(TEXTS.slice(1)).slice(0, 0),
    "runs, sliced": pa.concat_arrays([runs(TEXTS)]).slice(1),
    "runs of views": runs(TEXTS.cast(pa.string_view())).slice(1),
    "runs of a dictionary": runs(TEXTS.dictionary_encode()).slice(1),
}


@pytest.mark.parametrize("encoding", ENCODED)
def test_encodings_of_texts_do_not_matter(encoding: str) -> None:
    assert cast("string", ENCODED[encoding]) == TEXTS.to_pylist()[: len(ENCODED[encoding])]


NUMBERS: list[list[int | None] | None] = [[1, 2], None, [3, None]]
LISTS = {
    "large": pa.array(NUMBERS, pa.large_list(pa.int32())),
    "fixed size": pa.array(NUMBERS, pa.list_(pa.int32(), 2)),
    "view": pa.array(NUMBERS, pa.list_view(pa.int8())),
    "large view": pa.array(NUMBERS, pa.large_list_view(pa.int32())),
    "dictionary": pa.DictionaryArray.from_arrays(
        [0, None, 1], pa.array([NUMBERS[0], NUMBERS[2]], pa.list_(pa.int32()))
    ),
    "runs": runs(pa.array(NUMBERS, pa.list_(pa.int32()))).slice(1),
    "of runs": pa.ListArray.from_arrays(
        pa.array([1, None, 3, 5], pa.int32()), runs(pa.array([0, 1, 2, 3, None][1:], pa.int32()))
    ),
}


@pytest.mark.parametrize("form", LISTS)
def test_forms_of_lists_do_not_matter(form: str) -> None:
    assert cast("array<int>", LISTS[form]) == LISTS[form].to_pylist()


def test_runs_inside_of_structs_are_decoded() -> None:
    structs = pa.StructArray.from_arrays([runs(TEXTS)], ["a"], mask=pa.array([True, False, False, False, False]))
    wanted = [None, *({"a": each} for each in TEXTS.to_pylist())]
    assert cast("struct<a: string>", structs) == wanted


@pytest.mark.parametrize(
    "kind", [pa.uuid(), pa.duration("us"), pa.time64("us"), pa.dense_union([pa.field("a", pa.int8())])]
)
def test_other_types_are_refused_by_name(kind: pa.DataType) -> None:
    with pytest.raises(InvalidInput, match=r"column 'c' is binary, the data has"):
        Caster(pa.schema([("c", kind)]), layout("c binary"))


_DEEP = st.none() | st.lists(
    st.none() | st.fixed_dictionaries({"b": st.none() | st.integers(0, 99), "a": st.none() | st.text(max_size=3)})
)
_MAPS = st.none() | st.lists(
    st.tuples(st.text(max_size=3), st.none() | st.integers(0, 9)), unique_by=lambda pair: pair[0]
)


@given(st.lists(st.tuples(_DEEP, _MAPS), max_size=8), st.integers(0, 4))
def test_nested_values_are_reordered_and_widened_wherever_they_lie(rows: list[Any], skipped: int) -> None:
    inner = pa.struct([("b", pa.uint8()), ("A", pa.large_string())])
    lists = pa.array(
        [None if deep is None else [each and {"b": each["b"], "A": each["a"]} for each in deep] for deep, _ in rows],
        pa.large_list(inner),
    )
    maps = pa.array([each for _, each in rows], pa.map_(pa.string(), pa.int8()))
    batch = pa.record_batch({"l": lists, "m": maps}).slice(skipped)
    table = layout("l array<struct<a: string, b: long, missing: date>>, m map<string, long>")
    found = Caster(batch.schema, table).cast(batch)
    found.validate(full=True)
    wanted = [
        {"l": None if deep is None else [each and {**each, "missing": None} for each in deep], "m": pairs}
        for deep, pairs in rows[skipped:]
    ]
    assert found.to_pylist() == wanted


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("c struct<a: int not null>", {"a": None}, "column 'c.a' is NOT NULL, and 1 of its values"),
        ("c struct<a: struct<b: int not null>>", {"a": {"b": None}}, "column 'c.a.b' is NOT NULL, and 1 of its values"),
        ("c struct<a: int not null>", None, "struct 'c' has the field 'a', which is NOT NULL, and 1 of the structs"),
        ("c struct<x: int, a: struct<b: int not null>>", None, "struct 'c' has the field 'a.b', which is NOT NULL"),
        ("c struct<a: struct<b: int not null>>", {"a": None}, "struct 'c.a' has the field 'b', which is NOT NULL"),
        ("c array<struct<a: int not null>>", [None], "struct 'c.element' has the field 'a', which is NOT NULL"),
        ("c map<string, struct<a: int not null>>", [("k", None)], "struct 'c.value' has the field 'a'"),
    ],
)
def test_null_in_a_required_field_is_refused_by_its_path(field: str, value: object, problem: str) -> None:
    """Delta Spark refuses a null struct of which a field is NOT NULL, too."""
    table = layout(field)
    batch = pa.RecordBatch.from_pylist([{"c": value}], table.arrow_schema)
    with pytest.raises(InvalidInput, match=problem):
        Caster(batch.schema, table).cast(batch)


@pytest.mark.parametrize("given", [pa.schema([]), pa.schema([("c", pa.null())])])
def test_a_struct_that_the_data_lacks_is_refused_where_a_field_of_it_is_required(given: pa.Schema) -> None:
    table = layout("id int, c struct<a: int not null>")
    batch = pa.RecordBatch.from_pylist([{"id": 1, "c": None}], given.append(pa.field("id", pa.int32())))
    with pytest.raises(InvalidInput, match="struct 'c' has the field 'a', which is NOT NULL"):
        Caster(batch.schema, table).cast(batch)
