"""Which rows share a row group: full ones, never very small ones, and the other actions by themselves."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from deltamirror.publish.checkpoint import grouping
from deltamirror.publish.checkpoint.grouping import classic_row_groups, row_groups

pytestmark = pytest.mark.requirement("R9")

SCHEMA = pa.schema([("n", pa.int64())])
ROW_BYTES = 8


@pytest.fixture(autouse=True)
def fewest_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups have at least four rows."""
    monkeypatch.setattr(grouping, "FEWEST_ROWS", 4)


def batches(*sizes: int) -> Iterator[pa.RecordBatch]:
    start = 0
    for size in sizes:
        yield pa.record_batch([pa.array(range(start, start + size), pa.int64())], schema=SCHEMA)
        start += size


def sizes_of(groups: Iterator[pa.Table]) -> list[int]:
    found = list(groups)
    values = [value for group in found for value in group.column("n").to_pylist()]
    assert values == list(range(len(values)))
    return [group.num_rows for group in found]


@pytest.mark.parametrize(
    ("batch_sizes", "most_rows", "expected"),
    [
        ((), 10, [0]),
        ((0,), 10, [0]),
        ((3, 3), 10, [6]),
        ((10,), 10, [10]),
        ((11,), 10, [10, 1]),
        ((6, 6, 9), 10, [10, 10, 1]),
        ((20,), 10, [10, 10]),
        ((4,), 1, [4]),
        ((5,), 1, [4, 1]),
        ((9,), 3, [4, 4, 1]),
    ],
)
def test_row_groups_are_full_but_never_of_few_rows(
    batch_sizes: tuple[int, ...], most_rows: int, expected: list[int]
) -> None:
    assert sizes_of(row_groups(batches(*batch_sizes), SCHEMA, most_rows * ROW_BYTES)) == expected


@pytest.mark.parametrize(
    ("enough_rows", "most_rows", "expected"),
    [(5, 1, [4, 4, 4, 1]), (4, 1, [4, 4, 4, 1]), (3, 1, [3, 3, 3, 3, 1]), (0, 1, [1] * 13), (3, 6, [6, 6, 1])],
)
def test_row_groups_of_long_rows_may_have_few(
    monkeypatch: pytest.MonkeyPatch, enough_rows: int, most_rows: int, expected: list[int]
) -> None:
    monkeypatch.setattr(grouping, "ENOUGH_BYTES", enough_rows * ROW_BYTES)
    assert sizes_of(row_groups(batches(6, 7), SCHEMA, most_rows * ROW_BYTES)) == expected


@pytest.mark.parametrize(
    ("batch_sizes", "most_rows", "expected"),
    [
        ((2,), 8, [2]),
        ((2, 3), 8, [5]),
        ((2, 4), 8, [2, 4]),
        ((2, 4), 16, [2, 4]),
        ((2, 4), 20, [6]),
        ((2, 9), 8, [2, 8, 1]),
        ((2, 20), 100, [22]),
    ],
)
def test_other_actions_have_a_row_group_to_themselves_unless_files_are_few(
    batch_sizes: tuple[int, ...], most_rows: int, expected: list[int]
) -> None:
    assert sizes_of(classic_row_groups(batches(*batch_sizes), SCHEMA, most_rows * ROW_BYTES)) == expected


def test_other_actions_do_not_share_the_row_group_of_a_few_long_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "ENOUGH_BYTES", 3 * ROW_BYTES)
    assert sizes_of(classic_row_groups(batches(2, 7), SCHEMA, ROW_BYTES)) == [2, 3, 3, 1]


def test_rows_of_unequal_size_are_measured_one_by_one() -> None:
    texts = pa.table({"s": pa.array(["x" * 100, *["y"] * 20])})
    found = list(row_groups(texts.to_batches(), texts.schema, 160))
    assert pa.concat_tables(found).equals(texts)
    first, second = found[0], texts.slice(0, found[0].num_rows + 1)
    assert first.nbytes <= 160 < second.nbytes


def test_files_after_a_small_row_group_are_not_lost() -> None:
    """A row group is small if the next row alone nearly fills one."""
    others = pa.table({"s": ["o"]})
    files = pa.table({"s": [*"abcde", "x" * 1_000]})
    groups = list(classic_row_groups([*others.to_batches(), *files.to_batches()], files.schema, 1_000))
    assert [group.num_rows for group in groups] == [6, 1]
    assert pa.concat_tables(groups).equals(pa.concat_tables([others, files]))
