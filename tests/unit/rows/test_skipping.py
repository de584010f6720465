"""Files that a filter leaves out have no row for it, and those whose bounds contradict it are left out."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.rows.parsing import condition_of
from deltamirror.rows.skipping import partition_choice, possible_files
from tests.unit.rows.test_statistics import layout

LAYOUT = layout("day string, id long, price decimal(6,2), at timestamp", partition_by=("day",))

DATES = layout("day date, shop string, id long", partition_by=("day", "shop"))


@dataclass(frozen=True)
class File:
    """Rows of one partition, and what a log says of them."""

    day: str | None
    ids: tuple[int | None, ...]

    @property
    def partition_values(self) -> dict[str, str | None]:
        return {"day": self.day}

    @property
    def stats(self) -> str:
        present = [each for each in self.ids if each is not None]
        bounds = {"minValues": {"id": min(present)}, "maxValues": {"id": max(present)}} if present else {}
        nulls = {"id": len(self.ids) - len(present)}
        return json.dumps({"numRecords": len(self.ids), **bounds, "nullCount": nulls})

    def has_row(self, condition: str) -> bool:
        rows = [{"day": self.day, "id": each} for each in self.ids]
        return any(eval(PYTHON[condition], {}, row) for row in rows)  # noqa: S307  texts of this file


PYTHON = {
    "day = 'b'": "day == 'b'",
    "day IS NULL": "day is None",
    "id = 3": "id == 3",
    "id > 6": "id is not None and id > 6",
    "id IS NULL": "id is None",
    "id IS NOT NULL AND day = 'a'": "id is not None and day == 'a'",
    "(day = 'a' AND id < 3) OR (day = 'b' AND id > 6)": (
        "id is not None and ((day == 'a' and id < 3) or (day == 'b' and id > 6))"
    ),
    "day IN ('a', 'c') AND id BETWEEN 2 AND 4": "id is not None and day in ('a', 'c') and 2 <= id <= 4",
}

FILES = st.builds(
    File,
    st.sampled_from(["a", "b", "c", None]),
    st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=1, max_size=3).map(tuple),
)


def left(files: Sequence[File], condition: str, stats: Sequence[str | None] | None = None) -> list[int]:
    bounds = condition_of(condition, LAYOUT).of_bounds()
    found = [each.stats for each in files] if stats is None else stats
    return possible_files([each.partition_values for each in files], found, bounds, LAYOUT)


@pytest.mark.parametrize("condition", PYTHON)
@given(files=st.lists(FILES, max_size=8))
def test_a_file_with_a_row_for_the_filter_is_left(condition: str, files: list[File]) -> None:
    found = left(files, condition)
    assert found == sorted(found)
    assert {number for number, each in enumerate(files) if each.has_row(condition)} <= set(found)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("day = 'b'", [2, 3]),
        ("id > 6", [1, 3]),
        ("day = 'b' AND id > 6", [3]),
        ("(day = 'a' AND id < 3) OR (day = 'b' AND id > 6)", [0, 3]),
        ("id IS NULL", [4]),
        ("day IS NULL", [4]),
    ],
)
def test_partitions_and_bounds_exclude_files_together(condition: str, expected: list[int]) -> None:
    files = [File("a", (1, 2)), File("a", (7, 8)), File("b", (1, 2)), File("b", (7, 8)), File(None, (None,))]
    assert left(files, condition) == expected


@pytest.mark.parametrize(
    "stats",
    [
        None,
        "",
        "no JSON",
        "[1]",
        '{"minValues": 5}',
        '{"minValues":{"id":"x"},"maxValues":{"id":null}}',
        '{"minValues":{"id":1e400},"maxValues":{"id":1}}',
        '{"minValues":{"id":NaN}}',
    ],
)
def test_statistics_that_say_nothing_exclude_no_file(stats: str | None) -> None:
    assert left([File("a", (1,))], "id = 3", [stats]) == [0]


@pytest.mark.parametrize(
    ("condition", "column", "low", "high", "is_left"),
    [
        ("price = 1.10", "price", "1.1", "1.10", True),
        ("price > 1.10", "price", "0.5", "1.10", False),
        ("price >= 9999.99", "price", "0.5", "9999.99", True),
        ("at > timestamp '2026-01-01 00:00:00.0005'", "at", '"2025-01-01T00:00:00Z"', '"2026-01-01T00:00:00Z"', True),
        ("at > timestamp '2026-01-01 00:00:00.002'", "at", '"2025-01-01T00:00:00Z"', '"2026-01-01T00:00:00Z"', False),
    ],
)
def test_bounds_are_values_of_their_type(condition: str, column: str, low: str, high: str, *, is_left: bool) -> None:
    bounds = f'"minValues":{{"{column}":{low}}},"maxValues":{{"{column}":{high}}}'
    stats = f'{{"numRecords":2,{bounds},"nullCount":{{"{column}":0}}}}'
    assert left([File("a", (1,))], condition, [stats]) == [0] * is_left


def chosen(condition: str, texts: Sequence[str]) -> list[str]:
    choice = partition_choice(condition_of(condition, DATES).of_bounds(), DATES)
    assert choice is not None
    return list(choice(texts))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("day = '2024-03-05'", ['{"day":"2024-03-05","shop":"a"}', '{"shop":"b","day":"2024-03-05"}']),
        ("day > '2024-03-05' OR day IS NULL", ['{"day":"2024-03-06","shop":"a"}', '{"day":null,"shop":"a"}']),
        ("shop = 'b' AND id = 7", ['{"shop":"b","day":"2024-03-05"}']),
        ("day = '2030-01-01'", []),
    ],
)
def test_the_partitions_of_a_filter_are_chosen(condition: str, expected: list[str]) -> None:
    texts = [
        '{"day":"2024-03-05","shop":"a"}',
        '{"shop":"b","day":"2024-03-05"}',
        '{"day":"2024-03-06","shop":"a"}',
        '{"day":null,"shop":"a"}',
    ]
    assert chosen(condition, texts) == expected


def test_a_partition_whose_value_cannot_be_read_is_chosen() -> None:
    """Whether a file has it at all, the listing tells: it may be of files that are gone."""
    texts = ['{"day":"2024-03-05","shop":"a"}', '{"day":"12024-03-05","shop":"a"}']
    assert chosen("day = '2030-01-01'", texts) == texts[1:]


def test_a_filter_without_partition_columns_chooses_no_partitions() -> None:
    assert partition_choice(condition_of("id = 7", DATES).of_bounds(), DATES) is None
    assert partition_choice(None, DATES) is None


FEW = layout("day string, weight double, big long, id long", partition_by=("day", "weight", "big"))
OF_PARTITIONS = {
    "day = 'b'": "day == 'b'",
    "day IS NULL": "day is None",
    "day <> 'b' OR weight IS NULL": "weight is None or (day is not None and day != 'b')",
    "weight > 1": "weight is not None and weight > 1",
    "weight < 1 AND day = 'a'": "weight is not None and weight < 1 and day == 'a'",
    "big IN (1, 2) OR day = 'c'": "big in (1, 2) or day == 'c'",
    "NOT (big = 1)": "big is not None and big != 1",
}
PARTITIONS = st.fixed_dictionaries(
    {
        "day": st.sampled_from(["a", "b", "c", None, ""]),
        "weight": st.sampled_from(["0.5", "1.5", "NaN", "Infinity", None]),
        "big": st.sampled_from(["1", "2", "3", None]),
    }
)


def is_true(condition: str, partition: dict[str, str | None]) -> bool:
    day, weight, big = partition["day"], partition["weight"], partition["big"]
    values = {
        "day": day or None,
        "weight": None if weight is None else float(weight),
        "big": None if big is None else int(big),
    }
    return bool(eval(OF_PARTITIONS[condition], {}, values))  # noqa: S307  texts of this file


@pytest.mark.parametrize("condition", OF_PARTITIONS)
@given(partitions=st.lists(PARTITIONS, max_size=8))
def test_the_partitions_of_a_filter_of_nothing_else_are_those_that_files_are_left_of(
    condition: str, partitions: list[dict[str, str | None]]
) -> None:
    """Exactly where a value is no NaN: Arrow compares that with nothing, so that its partitions stay."""
    bounds = condition_of(condition, FEW).of_bounds()
    choice = partition_choice(bounds, FEW)
    assert choice is not None
    texts = [json.dumps(each) for each in partitions]
    found = choice(texts)
    expected = [
        text
        for text, values in zip(texts, partitions, strict=True)
        if is_true(condition, values) or ("weight" in condition and values["weight"] == "NaN")
    ]
    assert list(found) == expected
    left_of = possible_files(partitions, [None] * len(partitions), bounds, FEW)
    assert {texts[number] for number in left_of} <= set(found)


def test_a_filter_that_cannot_be_computed_for_a_partition_leaves_all_of_them() -> None:
    choice = partition_choice(pc.add_checked(pc.field("big"), 1) > 5, FEW)
    assert choice is not None
    texts = [json.dumps({"day": "a", "weight": "1", "big": str(each)}) for each in (1, 2**63 - 1)]
    assert list(choice(texts)) == texts
    assert list(choice(texts[:1])) == []
