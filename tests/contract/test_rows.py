"""Rows appended and replaced by Arrow: what is written, what is refused, and that nothing half is left."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from deltamirror import Catalog, Table
from deltamirror.config import RowsSettings, Settings
from deltamirror.delta.actions import Add
from deltamirror.errors import CommitUnknown, Conflict, InvalidInput, Refused, TokenReused, Unsupported
from deltamirror.rows import writing
from deltamirror.rows.statistics import FileStatistics
from deltamirror.steps import Moment, Step, observed
from tests.support.rows.orders import DAY, NEXT, ORDERS, ids, orders

pytestmark = pytest.mark.requirement("R89")
NAIVE = datetime.fromisoformat("2024-01-01T00:00:00.000001")


@pytest.fixture
def table(lake: Catalog, tmp_path: Path) -> Table:
    return lake.create_table("orders", location=tmp_path / "orders", schema=ORDERS, partition_by=["day"])


def on_disk(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and "_delta_log" not in str(path)
    }


def assert_no_stray_files(table: Table, folder: Path, versions: int) -> None:
    named = {add.path for version in range(versions + 1) for add in table.snapshot(version).adds()}
    assert on_disk(folder) == named


class Capsule:
    """What any other library hands over."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._rows.__arrow_c_stream__(requested_schema)


def _dataset(rows: pa.Table, folder: Path) -> ds.Dataset:
    pq.write_table(rows, folder / "given.parquet")
    return ds.dataset(folder / "given.parquet")


FORMS: dict[str, Callable[[pa.Table, Path], object]] = {
    "table": lambda rows, _: rows,
    "batch": lambda rows, _: rows.to_batches()[0],
    "reader": lambda rows, _: rows.to_reader(),
    "dataset": _dataset,
    "pandas": lambda rows, _: rows.to_pandas(),
    "capsule": lambda rows, _: Capsule(rows),
}


@pytest.mark.parametrize("form", FORMS)
def test_arrow_data_of_any_form_becomes_rows(table: Table, tmp_path: Path, form: str) -> None:
    table.append(FORMS[form](orders(1, 2, 3), tmp_path))
    assert table.to_arrow().sort_by("id").to_pylist() == orders(1, 2, 3).to_pylist()
    [entry] = table.history(1)
    assert (entry.operation, entry.parameters) == ("WRITE", {"mode": "Append", "partitionBy": "[]"})
    assert (entry.metrics["numFiles"], entry.metrics["numOutputRows"]) == ("1", "3")


def test_rows_are_written_to_a_store_of_objects_and_read_from_there(lake: Catalog) -> None:
    table = lake.create_table("objects", location="memory://rows/objects", schema=ORDERS, partition_by=["day"])
    table.append(pa.concat_tables([orders(1, 2), orders(3, day=NEXT)]))
    assert ids(table.to_arrow()) == [1, 2, 3]


def test_files_are_named_and_placed_as_delta_spark_does(table: Table) -> None:
    table.append(pa.concat_tables([orders(1), orders(2, day=None)]))
    paths = sorted(add.path for add in table.snapshot().adds())
    name = r"part-00000-[0-9a-f-]{36}\.c000\.snappy\.parquet"
    folders = ("day=2024-05-01", "day=__HIVE_DEFAULT_PARTITION__")
    assert all(re.fullmatch(f"{folder}/{name}", path) for folder, path in zip(folders, paths, strict=True))
    assert {add.partition_values["day"] for add in table.snapshot().adds()} == {"2024-05-01", None}


def test_one_transaction_writes_rows_to_several_tables_or_to_none(lake: Catalog, table: Table, tmp_path: Path) -> None:
    daily = lake.create_table("daily", location=tmp_path / "daily", schema="day date, total double")
    total = pa.table({"day": [DAY], "total": [1.5]})
    with lake.transaction() as tx:
        tx.append("orders", orders(1, 2))
        tx.overwrite("daily", total)
    assert tx.result.versions == {"orders": 1, "daily": 1}
    tx = lake.transaction()
    tx.overwrite("daily", total)
    tx.append("orders", pa.table({"id": pa.array([None], pa.int64())}))
    with pytest.raises(InvalidInput, match="NOT NULL"):
        tx.commit()
    assert (table.info().head, daily.info().head) == (1, 1)
    assert_no_stray_files(daily, tmp_path / "daily", 1)
    assert lake.snapshot(["orders", "daily"]).versions == {"orders": 1, "daily": 1}


def test_an_overwrite_replaces_everything_or_the_partitions_that_are_named(table: Table) -> None:
    table.append(pa.concat_tables([orders(1, 2), orders(3, day=NEXT), orders(4, day=None)]))
    table.overwrite(orders(20), replace_where="day = '2024-05-01'")
    assert ids(table.to_arrow()) == [3, 4, 20]
    table.overwrite(orders(30, day=NEXT), replace_where={"day": [NEXT, None]})
    assert ids(table.to_arrow()) == [20, 30]
    assert table.history(1)[0].parameters["predicate"] == "(day = '2024-05-02' OR day IS NULL)"
    table.overwrite(orders(21), dynamic=True)
    assert ids(table.to_arrow()) == [21, 30]
    table.overwrite(orders(5))
    assert ids(table.to_arrow()) == [5]
    [entry] = table.history(1)
    assert (entry.operation, entry.parameters) == ("WRITE", {"mode": "Overwrite", "partitionBy": "[]"})
    assert entry.metrics["numRemovedFiles"] == "2"
    table.overwrite(orders())
    assert table.to_arrow().num_rows == 0


def test_an_overwrite_conflicts_with_what_it_replaces_only(lake: Catalog, table: Table, tmp_path: Path) -> None:
    table.append(pa.concat_tables([orders(1), orders(2, day=NEXT)]))
    with lake.transaction() as tx:
        tx.overwrite("orders", orders(10), replace_where="day = '2024-05-01'")
        table.append(orders(3, day=NEXT))
    assert ids(table.to_arrow()) == [2, 3, 10]
    tx = lake.transaction()
    tx.overwrite("orders", orders(11), replace_where="day = '2024-05-01'")
    table.append(orders(4))
    with pytest.raises(Conflict):
        tx.commit()
    assert ids(table.to_arrow()) == [2, 3, 4, 10]
    assert_no_stray_files(table, tmp_path / "orders", table.info().head)


def test_an_overwrite_of_an_empty_table_conflicts_with_rows_that_came_meanwhile(lake: Catalog, table: Table) -> None:
    tx = lake.transaction()
    tx.overwrite("orders", orders(1))
    table.append(orders(2))
    with pytest.raises(Conflict):
        tx.commit()
    assert ids(table.to_arrow()) == [2]


def test_a_repeated_token_writes_nothing_again(table: Table, tmp_path: Path) -> None:
    first = table.append(orders(1), token="load 1")
    before = on_disk(tmp_path / "orders")
    again = table.append(orders(1), token="load 1")
    assert (again.versions, again.already_applied) == (first.versions, True)
    assert on_disk(tmp_path / "orders") == before
    with pytest.raises(TokenReused):
        table.overwrite(orders(1), token="load 1")
    assert on_disk(tmp_path / "orders") == before


def test_an_application_version_that_is_recorded_writes_nothing(lake: Catalog, table: Table, tmp_path: Path) -> None:
    for _ in range(2):
        with lake.transaction() as tx:
            tx.set_transaction("orders", "stream", 7)
            tx.append("orders", orders(1))
    assert tx.result.already_applied
    assert ids(table.to_arrow()) == [1]
    assert_no_stray_files(table, tmp_path / "orders", 1)


class Struck(Exception):
    """Raised where a step takes place."""


def strike(at: Moment, step: Step, turn: int) -> Callable[[Moment, Step], None]:
    seen = 0

    def observer(moment: Moment, found: Step) -> None:
        nonlocal seen
        seen += (moment, found) == (at, step)
        if (moment, found) == (at, step) and seen == turn:
            raise Struck

    return observer


@pytest.fixture(params=["at once", "in threads"])
def files_put(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files are put at once, and large ones while the next is filled: let a test do both."""
    if request.param == "in threads":
        monkeypatch.setattr(writing, "_WORTH_A_THREAD", 0)


@pytest.mark.usefixtures("files_put")
@pytest.mark.parametrize("moment", list(Moment))
def test_files_of_a_write_that_breaks_off_are_deleted(table: Table, tmp_path: Path, moment: Moment) -> None:
    rows = pa.concat_tables([orders(1), orders(2, day=NEXT)])
    with pytest.raises(Struck), observed(strike(moment, Step.PUT_ROWS, 2)):
        table.append(rows)
    assert on_disk(tmp_path / "orders") == set()
    table.append(rows)
    assert ids(table.to_arrow()) == [1, 2]


def test_files_stay_where_the_outcome_of_a_commit_is_unknown(
    lake: Catalog, table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = lake.writer.commit

    def lost(request: Any) -> None:
        commit(request)
        raise CommitUnknown("the reply was lost")

    monkeypatch.setattr(lake.writer, "commit", lost)
    with pytest.raises(CommitUnknown):
        table.append(orders(1))
    assert ids(table.to_arrow()) == [1]


@pytest.mark.usefixtures("files_put")
def test_large_data_becomes_files_of_the_wanted_size_in_bounded_memory(tmp_path: Path) -> None:
    small = Settings(rows=RowsSettings(target_file_size=20_000, memory=200_000))
    with Catalog(f"sqlite:///{tmp_path / 'lake.db'}", settings=small) as lake:
        lake.init()
        table = lake.create_table("t", location=tmp_path / "t", schema="id long, p long", partition_by=["p"])
        batches = (
            pa.record_batch({"id": range(n, n + 5_000), "p": [k % 3 for k in range(5_000)]})
            for n in range(0, 100_000, 5_000)
        )
        schema = pa.schema([("id", pa.int64()), ("p", pa.int64())])
        table.append(pa.RecordBatchReader.from_batches(schema, batches))
        adds = table.snapshot().adds()
        assert len(adds) > 3
        assert {add.path.rpartition(".c")[2] for add in adds} >= {"000.snappy.parquet", "001.snappy.parquet"}
        assert ids(table.to_arrow()) == list(range(100_000))


def test_one_large_batch_becomes_files_of_the_wanted_size(tmp_path: Path) -> None:
    small = Settings(rows=RowsSettings(target_file_size=1_000_000))
    with Catalog(f"sqlite:///{tmp_path / 'lake.db'}", settings=small) as lake:
        lake.init()
        table = lake.create_table("t", location=tmp_path / "t", schema="id int")
        table.append(pa.table({"id": pa.array(range(1_000_000), pa.int32())}))
        *sizes, rest = [add.size for add in table.snapshot().adds()]
        assert all(1_000_000 <= size < 2_000_000 for size in sizes)
        assert len(sizes) > 1
        assert rest < 2_000_000
        assert table.to_arrow().num_rows == 1_000_000


def test_many_small_batches_are_looked_at_as_few_large_ones(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    see = FileStatistics.see

    def counted(statistics: FileStatistics, rows: pa.Table) -> None:
        seen.append(rows.num_rows)
        see(statistics, rows)

    monkeypatch.setattr(FileStatistics, "see", counted)
    batches = [orders(number, day=(DAY, NEXT)[number % 2]).to_batches()[0] for number in range(50)]
    table.append(pa.RecordBatchReader.from_batches(batches[0].schema, batches))
    assert seen == [25, 25]
    assert ids(table.to_arrow()) == list(range(50))


def test_missing_columns_are_null_and_narrow_ones_are_widened(table: Table) -> None:
    table.append(pa.table({"ID": pa.array([1], pa.uint8()), "amount": pa.array([1.5], pa.float32())}))
    assert table.to_arrow().to_pylist() == [{"id": 1, "day": None, "amount": 1.5, "note": None}]


def broken_reader() -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from orders(1).to_batches()
        raise OSError("the disk is gone")

    return pa.RecordBatchReader.from_batches(orders(1).schema, batches())


WRONG: dict[str, tuple[Callable[[], object], str, str]] = {
    "another type": (lambda: pa.table({"id": ["1"]}), r"column 'id' is long, the data has string", "cast id to long"),
    "unknown column": (lambda: pa.table({"id": [1], "x": [1]}), r"column 'x', which the table lacks", "leave it out"),
    "twice": (lambda: pa.table([[1], [2]], ["id", "ID"]), r"'ID' twice", "rename"),
    "missing": (lambda: pa.table({"note": ["a"]}), r"'id' is NOT NULL, and missing", "add it"),
    "null": (lambda: pa.table({"id": pa.array([1, None])}), r"'id' is NOT NULL, and 1 of", "fill or drop"),
    "lossy": (lambda: pa.table({"id": pa.array([1.0])}), r"'id' is long, the data has double", "lose nothing"),
    "unsigned": (lambda: pa.table({"id": pa.array([1], pa.uint64())}), r"the data has uint64", "cast id"),
    "broken reader": (broken_reader, r"cannot be read to its end", "nothing was committed"),
}


@pytest.mark.parametrize("case", WRONG)
def test_data_that_does_not_fit_is_refused_by_name_and_leaves_nothing(table: Table, tmp_path: Path, case: str) -> None:
    data, message, hint = WRONG[case]
    with pytest.raises(InvalidInput, match=message) as caught:
        table.append(data())
    assert hint in caught.value.hint
    assert table.info().head == 0
    assert on_disk(tmp_path / "orders") == set()


def test_rows_outside_of_what_is_replaced_are_refused(table: Table, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"rows with day = '2024-05-02', which are outside of day = '2024-05-01'"):
        table.overwrite(pa.concat_tables([orders(1), orders(2, day=NEXT)]), replace_where="day = '2024-05-01'")
    assert on_disk(tmp_path / "orders") == set()


@pytest.mark.parametrize(
    ("replaced", "message"),
    [
        ({"replace_where": "amount > 1"}, "only whole partitions can be replaced"),
        ({"replace_where": "day = 'x'"}, "'x' is no value of 'day', which is date"),
        ({"replace_where": "nix = 1"}, "there is no column 'nix'"),
        ({"replace_where": {"note": "x"}}, "is not partitioned by 'note'"),
        ({"replace_where": {}}, "names no partition column"),
        ({"replace_where": 3}, r"has to be a condition, not 3 \(int\)"),
        ({"replace_where": {"day": DAY}, "dynamic": True}, "exclude each other"),
    ],
)
def test_a_wrong_replacement_is_refused(table: Table, replaced: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        table.overwrite(orders(1), **replaced)


def test_a_constraint_is_refused_unless_the_caller_vouches_for_it(lake: Catalog, table: Table) -> None:
    table.alter(constraints={"big": "id > 10"})
    with pytest.raises(Refused, match=r"checkConstraints \(big: id > 10\)"):
        table.append(orders(1))
    with lake.transaction(rows_checked=True) as tx:
        tx.append("orders", orders(11))
    assert ids(table.to_arrow()) == [11]


GENERATED = """{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},
{"name":"x","type":"long","nullable":true,"metadata":{%s}}]}"""


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ('"delta.generationExpression":"id * 2"', r"generatedColumns \(x\)"),
        (
            '"delta.identity.start":1,"delta.identity.step":1,"delta.identity.allowExplicitInsert":false',
            r"identityColumns \(x\)",
        ),
        ('"delta.invariants":"{\\"expression\\":{\\"expression\\":\\"x > 1\\"}}"', r"invariants \(x\)"),
        ('"CURRENT_DEFAULT":"7"', r"'x' has a default, 7, and is missing"),
    ],
)
def test_rules_of_columns_are_refused_by_name(lake: Catalog, tmp_path: Path, metadata: str, message: str) -> None:
    table = lake.create_table("t", location=tmp_path / "t", schema=GENERATED % metadata)
    with pytest.raises((InvalidInput, Refused), match=message):
        table.append(pa.table({"id": [1]}))
    assert on_disk(tmp_path / "t") == set()


def test_a_variant_is_neither_written_nor_read(lake: Catalog, tmp_path: Path) -> None:
    table = lake.create_table("t", location=tmp_path / "t", schema="id long, v variant")
    with pytest.raises(Unsupported, match="'v' is of type variant"):
        table.append(pa.table({"id": [1]}))
    with pytest.raises(Unsupported, match="variant"):
        table.to_arrow()


def test_a_listing_of_files_is_not_taken_for_rows_nor_rows_for_a_listing(lake: Catalog, tmp_path: Path) -> None:
    table = lake.create_table("t", location=tmp_path / "t", schema="path string, size long, modification_time long")
    with pytest.raises(InvalidInput, match="may be a listing of files, or rows"):
        table.append(pa.table({"path": ["a"], "size": [1], "modification_time": [1]}))
    table.append(pa.table({"path": ["a"], "size": [1]}))
    assert table.to_arrow().to_pylist() == [{"path": "a", "size": 1, "modification_time": None}]


def test_new_columns_and_rows_for_them_are_one_transaction(lake: Catalog, table: Table) -> None:
    with lake.transaction() as tx:
        tx.set_metadata("orders", schema=f"{ORDERS}, extra string")
        tx.append("orders", pa.table({"id": [1], "extra": ["x"]}))
    assert table.to_arrow(["id", "extra"]).to_pylist() == [{"id": 1, "extra": "x"}]


def test_columns_are_mapped_to_their_names_and_ids_in_files(lake: Catalog, tmp_path: Path) -> None:
    schema = "id long, s struct<a: int, b: array<struct<c: string>>>, p string"
    mapped = {"delta.columnMapping.mode": "id"}
    table = lake.create_table("t", location=tmp_path / "t", schema=schema, partition_by=["p"], properties=mapped)
    rows: list[dict[str, Any]] = [
        {"id": 1, "s": {"a": 1, "b": [{"c": "q"}]}, "p": "x"},
        {"id": 2, "s": None, "p": None},
    ]
    table.append(pa.Table.from_pylist(rows, table.to_arrow().schema))
    assert table.to_arrow().sort_by("id").to_pylist() == rows
    assert table.to_arrow("s", filter="p = 'x' AND s.a = 1").to_pylist() == [{"s": rows[0]["s"]}]
    [add, _] = table.snapshot().adds()
    stored = pq.ParquetFile(tmp_path / "t" / add.path)
    fields = {each.name: each for each in table.snapshot().schema.fields}
    assert stored.schema_arrow.names == [fields["id"].physical_name, fields["s"].physical_name]
    assert stored.schema_arrow.field(0).metadata[b"PARQUET:field_id"] == b"1"
    assert len(add.path.split("/")[0]) == 2


def test_types_of_all_kinds_come_back_as_they_were(lake: Catalog, tmp_path: Path) -> None:
    schema = (
        "b byte, s short, i int, l long, f float, d double, c decimal(20,4), o boolean, t string, y binary, e date, "
        "z timestamp, n timestamp_ntz, a array<int>, m map<string, decimal(5,2)>, r struct<x: long, y: array<string>>"
    )
    table = lake.create_table("t", location=tmp_path / "t", schema=schema)
    row = {
        "b": 1, "s": 2, "i": 3, "l": 4, "f": 1.5, "d": 2.5, "c": Decimal("12.3400"), "o": True, "t": "x", "y": b"\x00",
        "e": DAY, "z": datetime(1969, 1, 1, 1, 2, 3, 456789, tzinfo=UTC), "n": NAIVE,
        "a": [1, None], "m": [("k", Decimal("1.25"))], "r": {"x": 1, "y": ["q", None]},
    }  # fmt: skip
    rows = [row, dict.fromkeys(row)]
    table.append(pa.Table.from_pylist(rows, table.to_arrow().schema))
    assert table.to_arrow().to_pylist() == rows
    assert table.to_arrow("l", filter="z < TIMESTAMP '1970-01-01T00:00:00Z' AND c = 12.34").to_pylist() == [{"l": 4}]


def test_pandas_times_of_nanoseconds_are_taken_where_nothing_is_lost(lake: Catalog, tmp_path: Path) -> None:
    table = lake.create_table("t", location=tmp_path / "t", schema="z timestamp")
    moment = pd.Timestamp("2024-05-01T12:00:00.123456Z")
    table.append(pd.DataFrame({"z": [moment]}))
    assert table.to_arrow().column("z").to_pylist() == [moment.to_pydatetime()]
    with pytest.raises(InvalidInput, match="'z' is timestamp, and a value of the data does not fit"):
        table.append(pd.DataFrame({"z": [pd.Timestamp("2024-05-01T12:00:00.123456789Z")]}))
    with pytest.raises(InvalidInput, match=r"'z' is timestamp, the data has timestamp\[ns\]") as caught:
        table.append(pd.DataFrame({"z": [pd.Timestamp("2024-05-01")]}))
    assert "tz_localize" in caught.value.hint


def test_files_that_are_there_are_appended_as_before(table: Table) -> None:
    add = Add(
        path="day=2024-05-01/a.parquet",
        partition_values={"day": "2024-05-01"},
        size=1,
        modification_time=1,
        data_change=True,
    )
    table.append([add, replace(add, path="b.parquet")])
    assert table.snapshot().count_files() == 2
