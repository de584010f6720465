"""Columns whose values repeat have dictionaries in Parquet files, and the others do not."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamirror.rows.dictionaries import columns_with_dictionaries

ROWS = 40_000
REPEATED: dict[str, pa.Array] = {
    "day": pa.array([f"2026-11-{number % 28 + 1:02}" for number in range(ROWS)]),
    "many": pa.array([number * 7 % 10_000 for number in range(ROWS)]),
    "nothing": pa.nulls(ROWS, pa.int64()),
    "list": pa.array([[number, number + 1] for number in range(ROWS)]),
    "struct": pa.array([{"inside": number} for number in range(ROWS)]),
}
UNIQUE: dict[str, pa.Array] = {
    "id": pa.array(range(ROWS)),
    "text": pa.array([f"order {number}" for number in range(ROWS)]),
    "amount": pa.array([number / 7 for number in range(ROWS)]),
    "at": pa.array(range(ROWS), pa.timestamp("us", "UTC")),
}


def encoded(rows: pa.Table, use_dictionary: Any) -> dict[str, bool]:
    """Which columns of a file have a dictionary."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, use_dictionary=use_dictionary)
    group = pq.ParquetFile(sink.getvalue()).metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    return {each.path_in_schema.partition(".")[0]: "RLE_DICTIONARY" in each.encodings for each in columns}


def test_only_columns_whose_values_repeat_have_dictionaries() -> None:
    rows = pa.table({**REPEATED, **UNIQUE})
    found = encoded(rows, columns_with_dictionaries(rows))
    assert found == {**dict.fromkeys(REPEATED, True), **dict.fromkeys(UNIQUE, False)}


@pytest.mark.parametrize("rows", [pa.table(REPEATED), pa.table(UNIQUE).slice(0, 100), pa.table(UNIQUE).slice(0, 0)])
def test_all_columns_have_them_where_they_repeat_or_rows_are_few(rows: pa.Table) -> None:
    assert columns_with_dictionaries(rows) is True


def test_a_type_whose_values_cannot_be_counted_has_one() -> None:
    decimals = pa.array(range(ROWS)).cast(pa.decimal128(20, 0))
    rows = pa.table({"id": UNIQUE["id"], "price": decimals, "flag": pa.array([True] * ROWS)})
    assert columns_with_dictionaries(rows) == ["price", "flag"]
