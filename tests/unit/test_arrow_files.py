"""Files from Arrow data are the adds that their rows say, in whatever form partition values come, however it is cut."""

from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from deltamirror.catalog import files as files_module
from deltamirror.catalog.files import adds
from deltamirror.delta.actions import Add

TEXTS = pa.map_(pa.string(), pa.string())


def batch(values: list[Any], kind: pa.DataType = TEXTS) -> pa.RecordBatch:
    number = len(values)
    columns = {
        "path": pa.array([f"p{each}" for each in range(number)]),
        "partition_values": pa.array(values, kind),
        "size": pa.array(range(number), pa.int64()),
        "modification_time": pa.array([7] * number, pa.int64()),
        "stats": pa.array([None if each % 2 else f'{{"numRecords":{each}}}' for each in range(number)], pa.string()),
    }
    return pa.RecordBatch.from_pydict(columns)


def values_of(data: pa.RecordBatch | pa.Table) -> list[dict[str, str | None]]:
    return [add.partition_values for add in adds(data)]


def test_every_field_of_a_row_is_in_its_add() -> None:
    [_, second] = adds(batch([[("day", "x")], [("day", None)]]))
    assert second == Add(
        path="p1", partition_values={"day": None}, size=1, modification_time=7, data_change=True, stats=None
    )
    fields = {
        "tags": [{"k": "v"}], "base_row_id": [4], "default_row_commit_version": [5], "clustering_provider": ["liquid"],
        "deletion_vector": ['{"storageType":"u","pathOrInlineDv":"x","sizeInBytes":1,"cardinality":2}'],
        "data_change": [False],
    }  # fmt: skip
    whole = pa.table({**batch([[]]).to_pydict(), **fields})
    [add] = adds(whole.set_column(1, "partition_values", pa.array([[]], TEXTS)))
    assert (add.tags, add.base_row_id, add.default_row_commit_version) == ({"k": "v"}, 4, 5)
    assert (add.clustering_provider, add.data_change, add.partition_values) == ("liquid", False, {})
    assert add.deletion_vector is not None
    assert add.deletion_vector.cardinality == 2


@pytest.mark.parametrize("size", [1, 3, 10_000])
def test_a_part_of_a_batch_has_its_own_partition_values(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "_ROWS_AT_ONCE", size)
    given = [{"day": str(each), "hour": None} if each % 3 else {} for each in range(20)]
    data = batch([list(each.items()) for each in given])
    assert values_of(data) == given
    assert values_of(data.slice(4, 9)) == given[4:13]
    assert values_of(pa.Table.from_batches([data.slice(15), data.slice(0, 2)])) == given[15:] + given[:2]


def test_a_row_without_partition_values_has_none() -> None:
    assert values_of(batch([[("day", "x")], None, [("day", "y")]])) == [{"day": "x"}, {}, {"day": "y"}]


def test_the_last_value_of_a_column_counts() -> None:
    assert values_of(batch([[("day", "x"), ("day", "y")]])) == [{"day": "y"}]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.map_(pa.string(), pa.date32()), [("day", date(2024, 5, 1))]),
        (pa.map_(pa.large_string(), pa.large_string()), [("day", "2024-05-01")]),
        (pa.map_(pa.string(), pa.dictionary(pa.int8(), pa.string())), [("day", "2024-05-01")]),
        (pa.struct({"day": pa.date32()}), {"day": date(2024, 5, 1)}),
        (pa.string(), '{"day":"2024-05-01"}'),
    ],
)
def test_partition_values_are_texts_whatever_they_came_as(kind: pa.DataType, value: object) -> None:
    assert values_of(batch([value, value], kind)) == [{"day": "2024-05-01"}] * 2
