"""Row groups that stay as they are, told from the footer of a file and from the paths of newer actions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamirror.deltalog.checkpoint import parquet
from deltamirror.publish.checkpoint import grouping
from deltamirror.publish.checkpoint.unchanged import Group, groups_of, unchanged_groups

pytestmark = pytest.mark.requirement("R9")

VECTOR = pa.struct([("storageType", pa.string()), ("pathOrInlineDv", pa.string()), ("offset", pa.int32())])
ADD = pa.struct(
    [("path", pa.string()), ("size", pa.int64()), ("price", pa.decimal128(9, 2)), ("deletionVector", VECTOR)]
)
REMOVE = pa.struct([("path", pa.string()), ("deletionTimestamp", pa.int64()), ("deletionVector", VECTOR)])
SCHEMA = pa.schema([("txn", pa.struct([("appId", pa.string())])), ("add", ADD), ("remove", REMOVE)])
ROW_BYTES = 8 + 16 + 4 + 8 + 4
"""Of the numbers of a row, be they null: a size, a price, a time, and the offsets of two vectors."""
NEWER = pa.schema([("path", pa.large_string()), ("deletionVector", VECTOR)])
TXN: dict[str, Any] = {"txn": {"appId": "app"}}
V = {"storageType": "u", "pathOrInlineDv": "ab", "offset": 1}
FEWEST_ROWS = 2


@pytest.fixture(autouse=True)
def _small_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "FEWEST_ROWS", FEWEST_ROWS)


def added(*paths: str, **fields: object) -> list[dict[str, Any]]:
    return [{"add": {"path": path, "size": 1, "price": Decimal("1.50"), **fields}} for path in paths]


def removed(*paths: str, at: int | None = 1_000, **fields: object) -> list[dict[str, Any]]:
    return [{"remove": {"path": path, "deletionTimestamp": at, **fields}} for path in paths]


def file_of(*groups: Sequence[dict[str, Any]], **options: Any) -> pa.Buffer:
    """A file with a row group of each of these rows."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, SCHEMA, store_schema=False, **options) as writer:
        for rows in groups:
            writer.write_table(pa.Table.from_pylist(list(rows), SCHEMA))
    return sink.getvalue()


def found_in(data: pa.Buffer) -> list[Group]:
    return groups_of(parquet.File(data), compression="snappy")


def newer_of(paths: Iterable[str | tuple[str, dict[str, Any]]]) -> pa.Table:
    """Actions in the order of their keys."""
    named = [(each, None) if isinstance(each, str) else each for each in paths]
    return pa.Table.from_pylist([{"path": path, "deletionVector": vector} for path, vector in named], NEWER)


def staying(
    data: pa.Buffer,
    *,
    adds: Iterable[str | tuple[str, dict[str, Any]]] = (),
    removes: Iterable[str | tuple[str, dict[str, Any]]] = (),
    most_bytes: int | None = None,
    after: int = 0,
) -> list[int]:
    """The numbers of the row groups that stay, where no other limit is told with the largest of them as the limit."""
    newer = newer_of(adds), newer_of(removes)
    most_bytes = most_bytes or max(each.num_bytes for each in found_in(data))
    file = parquet.File(data)
    found = unchanged_groups(file, newer, compression="snappy", most_bytes=most_bytes, tombstones_after=after)
    return [each.number for each in found]


def test_the_footer_tells_what_a_row_group_has() -> None:
    data = file_of(added("b", "a", "c"), [*removed("y", at=7), *removed("x", at=5), *added("d"), TXN])
    first, second = (parquet.opened(data).metadata.row_group(number).total_byte_size for number in range(2))
    assert found_in(data) == [
        Group(
            number=0,
            num_rows=3,
            num_files=3,
            num_removes=0,
            num_bytes=first,
            least_bytes=first,
            files=("a", "c"),
            removes=None,
            oldest=0,
        ),
        Group(
            number=1,
            num_rows=4,
            num_files=1,
            num_removes=2,
            num_bytes=second,
            least_bytes=second,
            files=("d", "d"),
            removes=("x", "y"),
            oldest=5,
        ),
    ]
    assert [each.has_others for each in found_in(data)] == [False, True]


def test_a_row_group_of_few_rows_stays_where_these_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    data = file_of(added("a" * 3_000), added("b"), added("c", "d"))
    assert staying(data, most_bytes=100) == [2]
    monkeypatch.setattr(grouping, "ENOUGH_BYTES", 10_000)
    assert staying(data, most_bytes=100) == [0, 2]


def test_a_row_group_has_at_least_the_bytes_of_its_numbers_however_few_it_has_encoded() -> None:
    (found,) = found_in(file_of(added(*["a"] * 3_000)))
    assert found.num_bytes < found.least_bytes == 3_000 * ROW_BYTES


class _Changed:
    """A part of a footer of which some things are told otherwise."""

    def __init__(self, real: object, **changes: object) -> None:
        self._real, self._changes = real, changes

    def __getattr__(self, name: str) -> object:
        return self._changes[name] if name in self._changes else getattr(self._real, name)


@dataclass(frozen=True)
class Doubt:
    """What a footer tells of a column, and of its statistics, in place of the truth."""

    column: dict[str, object] = field(default_factory=dict)
    statistics: dict[str, object] = field(default_factory=dict)

    def told_of(self, column: Any) -> object:
        statistics = _Changed(column.statistics, **self.statistics)
        return _Changed(column, **{"statistics": statistics, **self.column})


def _let_footers_tell(doubt: Doubt, path: str, patch: pytest.MonkeyPatch) -> None:
    opened = parquet.opened

    def changed_column(column: Any) -> object:
        return doubt.told_of(column) if column.path_in_schema == path else column

    def changed_group(group: Any) -> object:
        return _Changed(group, column=lambda number: changed_column(group.column(number)))

    def changed(data: pa.Buffer, _footer: object = None) -> object:
        file = opened(data)
        metadata = _Changed(file.metadata, row_group=lambda number: changed_group(file.metadata.row_group(number)))
        return _Changed(file, metadata=metadata)

    patch.setattr(parquet, "opened", changed)


OF_ANY_COLUMN = [
    Doubt(column={"statistics": None}),
    Doubt(column={"compression": "ZSTD"}),
    Doubt(column={"data_page_offset": 1, "dictionary_page_offset": None}),
    Doubt(statistics={"has_null_count": False}),
    Doubt(statistics={"has_min_max": False}),
]
PATHS = ["add.path", "remove.path"]


@pytest.mark.parametrize(
    ("path", "doubt"),
    [
        *((path, doubt) for path in (*PATHS, "remove.deletionTimestamp") for doubt in OF_ANY_COLUMN),
        *((path, Doubt(column={"num_values": 3})) for path in PATHS),
    ],
    ids=str,
)
def test_a_row_group_in_doubt_is_left_out(path: str, doubt: Doubt, monkeypatch: pytest.MonkeyPatch) -> None:
    data = file_of([*added("a", "b"), *removed("c", "d")])
    assert len(found_in(data)) == 1
    _let_footers_tell(doubt, path, monkeypatch)
    assert found_in(data) == []


def test_a_path_that_is_too_long_for_statistics_leaves_its_row_group_out() -> None:
    data = file_of(added("a", "b"), added("c", "d" * 10_000), added("e", "f"))
    assert [each.number for each in found_in(data)] == [0, 2]


def test_a_tombstone_without_a_time_leaves_its_row_group_out() -> None:
    data = file_of([*removed("a", at=None), *removed("b"), *added("c")], [*removed("d"), *added("e")])
    assert [each.number for each in found_in(data)] == [1]


def test_a_file_without_the_columns_of_files_has_no_row_group_to_take_over() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"x": [1]}), sink)
    assert found_in(sink.getvalue()) == []


def test_row_groups_with_other_actions_do_not_stay() -> None:
    assert staying(file_of([*added("a", "b"), TXN], added("c", "d"), [*added("e"), *removed("f")])) == [1, 2]


def test_row_groups_of_few_rows_or_bytes_do_not_stay() -> None:
    data = file_of(added("a", "b"), added("c"))
    assert staying(data, most_bytes=1) == [0]
    least = found_in(data)[0].least_bytes
    assert staying(data, most_bytes=8 * least + 7) == [0]
    assert staying(data, most_bytes=8 * least + 8) == []


def test_row_groups_that_are_too_large_do_not_stay_unless_they_have_the_fewest_rows() -> None:
    data = file_of(added("a", "b"), added("c", "d", "e"))
    size = found_in(data)[1].num_bytes
    assert staying(data, most_bytes=size) == [0, 1]
    assert staying(data, most_bytes=size - 1) == [0]


def test_row_groups_stay_until_a_tombstone_expires() -> None:
    data = file_of(added("a", "b"), [*removed("c", at=6), *removed("d", at=5)])
    assert staying(data, after=4) == [0, 1]
    assert staying(data, after=5) == [0]


@pytest.mark.parametrize("make", [added, removed])
def test_row_groups_stay_unless_too_many_may_have_the_same_path(make: Any) -> None:
    apart = [make("a", "b"), make("h", "i")]
    eight = [make(f"c{number}", "e") for number in range(7)] + [make("e", "g")]
    assert staying(file_of(*apart, *eight)) == list(range(10))
    assert staying(file_of(*apart, *eight, make("e", "f"))) == [0, 1]


@pytest.mark.parametrize("make", [added, removed])
@pytest.mark.parametrize("newer", ["adds", "removes"])
@pytest.mark.parametrize("path", ["c", "d", "e"])
def test_a_row_group_with_a_path_of_a_newer_action_does_not_stay(make: Any, newer: str, path: str) -> None:
    data = file_of(make("a", "b"), make("c", "d", "e"), make("f", "g"))
    replaced: dict[str, Any] = {newer: [path]}
    others: dict[str, Any] = {newer: ["bb", "cc", "x"]}
    assert staying(data, **replaced) == [0, 2]
    assert staying(data, **others) == [0, 1, 2]


def test_a_path_counts_with_its_deletion_vector() -> None:
    data = file_of(added("a", "b"), added("c", "d", deletionVector=V), added("e", "f"))
    assert staying(data, adds=["d"]) == [0, 1, 2]
    assert staying(data, adds=[("b", V), ("d", V)]) == [0, 2]
    assert staying(data, adds=[("b", V), ("d", {**V, "offset": 2})]) == [0, 1, 2]


@pytest.mark.parametrize(("there", "newer"), [("z%2fx", "z%2Fx"), ("s3://b/z", "S3://b/z"), ("z%2Fx", "z%2fx")])
def test_a_path_counts_in_every_spelling_that_is_equal(there: str, newer: str) -> None:
    data = file_of(added("a", "b"), added("c", there))
    assert staying(data, adds=[newer]) == [0]


def test_only_the_paths_of_row_groups_that_may_have_a_newer_one_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    data = file_of(added("a", "b"), added("m", "p"), removed("q", "s"), added("x", "y"))
    read: list[tuple[int, Sequence[str] | None]] = []
    real = parquet.File.row_group

    def row_group(file: parquet.File, number: int, *, columns: Sequence[str] | None = None) -> pa.Table:
        read.append((number, columns))
        return real(file, number, columns=columns)

    monkeypatch.setattr(parquet.File, "row_group", row_group)
    assert staying(data, adds=["a", "l", "w"], removes=["r"]) == [1, 2, 3]
    assert sorted(read) == [
        (0, ["add.path", "add.deletionVector"]),
        (2, ["remove.path", "remove.deletionVector"]),
    ]
