"""Values at the ends of their types, and questions about them: no row is lost, and every reader takes what is there."""

import math
import re
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from deltamirror import Add, Catalog, Insert, Table
from deltamirror.errors import DeltaMirrorError, InvalidInput, Refused, Unsupported
from tests.support.mirrors.local import mirror_of

pytestmark = pytest.mark.requirement("R89")

NAN = math.nan
DAYS = pa.array([-(2**31), -719_529, -719_163, -719_162, 0, 2_932_896, 2_932_897, 2**31 - 1], pa.int32())
TIMES = pa.array(
    [-(2**63), -62_135_596_800_000_001, -62_135_596_800_000_000, -1, 253_402_300_799_999_999, 2**63 - 1], pa.int64()
)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog(f"sqlite:///{tmp_path / 'lake.db'}") as catalog:
        catalog.init()
        yield catalog


@pytest.fixture
def make(catalog: Catalog, tmp_path: Path) -> Callable[..., Table]:
    def made(schema: str, **words: Any) -> Table:
        return catalog.create_table("t", location=tmp_path / "t", schema=schema, **words)

    return made


def read_by_delta_rs(catalog: Catalog, folder: Path) -> pa.Table:
    with mirror_of(catalog) as engine:
        engine.run(once=True)
    return pa.table(deltalake.DeltaTable(folder / "t").to_pyarrow_table())


def numbers(column: pa.ChunkedArray, kind: pa.DataType) -> list[int]:
    """Days or microseconds: Python has no dates outside of the years 1 to 9999."""
    return sorted(column.cast(kind).to_pylist())


def test_dates_and_times_of_any_year_are_found_by_filters_and_read_by_delta_rs(
    make: Callable[..., Table], catalog: Catalog, tmp_path: Path
) -> None:
    table = make("d date, z timestamp, n timestamp_ntz")
    for day in DAYS:
        table.append(pa.table({"d": pa.array([day]).cast(pa.date32())}))
    for time in TIMES:
        moment = pa.array([time])
        table.append(pa.table({"z": moment.cast(pa.timestamp("us", "UTC")), "n": moment.cast(pa.timestamp("us"))}))
    for found in (table.to_arrow(), read_by_delta_rs(catalog, tmp_path)):
        assert numbers(found.column("d").drop_null(), pa.int32()) == DAYS.to_pylist()
        assert numbers(found.column("z").drop_null(), pa.int64()) == TIMES.to_pylist()
        assert numbers(found.column("n").drop_null(), pa.int64()) == TIMES.to_pylist()
    for sign, below in (("<", True), (">=", False)):
        days = table.to_arrow("d", filter=f"d {sign} '2000-01-01'").column("d")
        assert numbers(days, pa.int32()) == [day for day in DAYS.to_pylist() if (day < 10_957) == below]
        for name in ("z", "n"):
            times = table.to_arrow(name, filter=f"{name} {sign} '2000-01-01'").column(name)
            assert numbers(times, pa.int64()) == [time for time in TIMES.to_pylist() if (time < 10**15) == below]


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("date", pa.array([2_932_897], pa.int32()).cast(pa.date32()), "2,932,897 days from 1970: .* years 1 to 9999"),
        ("date", pa.array([-719_163], pa.int32()).cast(pa.date32()), "-719,163 days from 1970"),
        ("timestamp", pa.array([2**63 - 1], pa.timestamp("us", "UTC")), "9,223,372,036,854,775,807 microseconds"),
        ("timestamp_ntz", pa.array([-(2**63)], pa.timestamp("us")), "-9,223,372,036,854,775,808 microseconds"),
        ("decimal(10,2)", pa.array([Decimal("-1.50")]), r"Decimal\('-1.50'\): delta-rs opens no table"),
        ("decimal(38,38)", pa.array([Decimal(f"-0.{'9' * 38}")]), "Decimal.*: delta-rs opens no table"),
    ],
)
def test_a_partition_value_that_not_every_reader_takes_is_refused_by_column_and_value(
    make: Callable[..., Table], tmp_path: Path, kind: str, value: pa.Array, shown: str
) -> None:
    table = make(f"p {kind}, v int", partition_by=["p"])
    with pytest.raises(InvalidInput, match=f"the partition column 'p' cannot be {shown}") as caught:
        table.append(pa.table({"p": value, "v": pa.array([1], pa.int32())}))
    assert caught.value.hint
    assert not list((tmp_path / "t").rglob("*.parquet"))


@pytest.mark.parametrize("value", ["0.01", "-2.00", f"{'9' * 36}.99", f"-{'9' * 36}.00"])
def test_a_decimal_partition_value_of_any_length_is_exact(
    make: Callable[..., Table], catalog: Catalog, tmp_path: Path, value: str
) -> None:
    table = make("p decimal(38,2), v int", partition_by=["p"])
    table.append(pa.table({"p": pa.array([Decimal(value)], pa.decimal128(38, 2)), "v": pa.array([1], pa.int32())}))
    assert [add.partition_values for add in table.snapshot().adds()] == [{"p": value}]
    for found in (table.to_arrow(), table.to_arrow(filter=f"p = {value}"), read_by_delta_rs(catalog, tmp_path)):
        assert found.column("p").to_pylist() == [Decimal(value)]


def parts(table: Table) -> dict[int, str | None]:
    return {row["v"]: row["p"] for row in table.to_arrow().to_pylist()}


def rows(*values: str | None, first: int = 1) -> pa.Table:
    return pa.table({"p": pa.array(values, pa.string()), "v": pa.array(range(first, first + len(values)), pa.int32())})


def test_no_partition_equals_the_empty_text(make: Callable[..., Table]) -> None:
    """As for Delta Spark: it is stored as null, and null equals nothing."""
    table = make("p string, v int", partition_by=["p"])
    table.append(rows("a", "", None))
    assert parts(table) == {1: "a", 2: None, 3: None}
    assert table.to_arrow(filter="p = ''").num_rows == 0
    with pytest.raises(InvalidInput, match="rows with p = None, which are outside of p = ''"):
        table.overwrite(rows(""), replace_where="p = ''")
    with pytest.raises(InvalidInput, match="writes nothing"):
        table.overwrite(rows(), replace_where="p = ''")
    table.overwrite(rows("a", first=4), replace_where="p IN ('', 'a')")
    assert parts(table) == {4: "a", 2: None, 3: None}
    table.overwrite(rows("", first=5), replace_where="p IS NULL")
    assert parts(table) == {4: "a", 5: None}
    table.overwrite(rows(None, first=6), replace_where={"p": ""})
    assert parts(table) == {4: "a", 6: None}


ALL = [1.0, NAN, math.inf, None]
ORDERED = {
    "x = 'NaN'": [NAN],
    "x <> 'NaN'": [1.0, math.inf],
    "x < 'NaN'": [1.0, math.inf],
    "x <= 'NaN'": [1.0, math.inf, NAN],
    "x > 'NaN'": [],
    "x >= 'NaN'": [NAN],
    "NOT x > 'NaN'": [1.0, math.inf, NAN],
    "x > 'Infinity'": [NAN],
    "x >= 'Infinity'": [math.inf, NAN],
    "x > 100": [math.inf, NAN],
    "x <> 1": [math.inf, NAN],
    "NOT (x <= 1)": [math.inf, NAN],
    "x NOT IN (1)": [math.inf, NAN],
    "x <= 1": [1.0],
    "x = 1": [1.0],
    "x BETWEEN 0 AND 'NaN'": [1.0, math.inf, NAN],
    "x IN ('NaN', 1)": [1.0, NAN],
}


@pytest.mark.parametrize(
    ("kind", "partitioned", "files"),
    [
        ("double", False, [ALL]),
        ("double", False, [[1.0, NAN], [math.inf, None]]),
        ("float", False, [[each] for each in ALL]),
        ("float", True, [ALL]),
    ],
)
def test_nan_equals_itself_and_is_above_all_numbers(
    make: Callable[..., Table], kind: str, files: list[list[float | None]], partitioned: bool
) -> None:
    """As Spark has it; whatever bounds files and row groups have."""
    table = make(f"x {kind}, v int", partition_by=["x"] if partitioned else [])
    for values in files:
        table.append(pa.table({"x": pa.array(values, pa.float32() if kind == "float" else pa.float64())}))
    for condition, wanted in ORDERED.items():
        found = table.to_arrow("x", filter=condition).column("x").to_pylist()
        assert sorted(map(repr, found)) == sorted(map(repr, wanted)), condition


@pytest.mark.parametrize("condition", [pc.field("x") != 1.0, ~(pc.field("x") <= 1.0), pc.is_nan(pc.field("x"))])
def test_an_expression_finds_nan_in_a_row_group_whose_bounds_leave_it_out(
    make: Callable[..., Table], condition: pc.Expression
) -> None:
    table = make("x double, v int")
    table.append(pa.table({"x": [1.0, NAN]}))
    assert table.to_arrow("v", filter=condition).num_rows == 1


@pytest.mark.parametrize("mapped", [{}, {"delta.columnMapping.mode": "name"}], ids=["plain", "mapped"])
def test_no_columns_are_as_many_rows(make: Callable[..., Table], mapped: dict[str, str]) -> None:
    table = make("p string, v int", partition_by=["p"], properties=mapped)
    table.append(rows("a", "a", "b", None))
    for condition, count in ((None, 4), ("p = 'a'", 2), ("v > 2", 2), ("v > 9", 0)):
        found = table.to_arrow([], filter=condition)
        assert (found.num_rows, found.num_columns) == (count, 0)
        assert sum(batch.num_rows for batch in table.scan([], filter=condition)) == count


BROKEN: dict[str, Callable[[], object]] = {
    "mixed column of pandas": lambda: pd.DataFrame({"p": [1, "x"]}),
    "dataset whose file is gone": lambda: ds.FileSystemDataset.from_paths(
        ["/nowhere/a.parquet"], pa.schema([("p", pa.string())]), ds.ParquetFileFormat(), pa.fs.LocalFileSystem()
    ),
    "text that is not UTF-8": lambda: pa.table(
        {"p": pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])}
    ),
}


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("data", BROKEN)
def test_data_that_arrow_cannot_take_is_refused_by_an_error_of_ours(
    make: Callable[..., Table], data: str, partitioned: bool
) -> None:
    table = make("p string, v int", partition_by=["p"] if partitioned else [])
    for write in (table.append, table.overwrite):
        with pytest.raises(InvalidInput) as caught:
            write(BROKEN[data]())
        assert caught.value.hint


def test_what_arrow_cannot_write_is_refused_by_an_error_of_ours(
    make: Callable[..., Table], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as lists with more than 2^31 values in one batch, which no test has the memory for."""
    table = make("p string, v int")
    monkeypatch.setattr("deltamirror.rows.writing._ROW_GROUP_ROWS", 1)

    def too_much(*_: object, **__: object) -> None:
        raise pa.ArrowCapacityError("array cannot contain more than 2147483646 bytes")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", too_much)
    with pytest.raises(InvalidInput, match="table 't': the rows cannot be written: array cannot contain") as caught:
        table.append(rows("a"))
    assert "smaller batches" in caught.value.hint
    assert not list((tmp_path / "t").rglob("*.parquet"))


DEEP = {
    "NOT": "NOT " * 3_000 + "v = 1",
    "brackets": "(" * 3_000 + "v = 1" + ")" * 3_000,
    "both": "NOT (" * 60 + "v = 1" + ")" * 60,
}


@pytest.mark.parametrize("condition", DEEP)
def test_a_condition_is_nested_up_to_a_bound(make: Callable[..., Table], condition: str) -> None:
    table = make("p string, v int", partition_by=["p"])
    with pytest.raises(InvalidInput, match="more than 100 levels of brackets and NOT") as caught:
        table.to_arrow(filter=DEEP[condition])
    assert len(caught.value.message) < 500
    with pytest.raises(InvalidInput, match="more than 100 levels"):
        table.overwrite(rows("a"), replace_where=DEEP[condition])


def test_a_condition_of_many_parts_is_answered(make: Callable[..., Table]) -> None:
    table = make("p string, v int", partition_by=["p"])
    table.append(rows("a", "b", "c"))
    assert table.to_arrow("v", filter=" OR ".join(f"v = {number}" for number in range(2, 2_000))).num_rows == 2
    assert table.to_arrow("v", filter="NOT NOT " * 50 + "v = 1").num_rows == 1


def test_a_column_of_a_filter_is_named(make: Callable[..., Table]) -> None:
    """A number would be that of another column, where not all columns are read."""
    table = make("p string, v int")
    table.append(rows("a", "FieldPath(0)"))
    assert table.to_arrow("v", filter=pc.field("p") == "FieldPath(0)").num_rows == 1
    with pytest.raises(InvalidInput, match="names a column by its number") as caught:
        table.to_arrow("v", filter=pc.field(0) == "a")
    assert "pc.field('p')" in caught.value.hint


def test_a_partition_value_of_another_writer_that_cannot_be_read_is_an_error_of_ours(
    make: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta Spark writes dates beyond the year 9999, and imports bring them in."""
    table = make("d date, v int", partition_by=["d"])
    table.append(pa.table({"d": [date(2024, 1, 1)], "v": pa.array([1], pa.int32())}))
    monkeypatch.setattr("deltamirror.rows.scanning.msgspec.json.decode", lambda _: {"d": "+10000-01-01"})
    for condition in (None, "d = '2024-01-01'"):
        with pytest.raises(Unsupported, match=r"'\+10000-01-01' as its value of the partition column 'd'"):
            table.to_arrow(filter=condition)


def texts(values: list[str | None], column: str = "v") -> pa.Table:
    return pa.table({column: pa.array(values, pa.string())})


def test_texts_have_the_lengths_that_columns_were_declared_with(make: Callable[..., Table]) -> None:
    table = make("v varchar(3), c char(3), p varchar(2)", partition_by=["p"])
    table.append(texts(["abc", "äöü", "ab    ", "", None]))
    table.append(texts(["a", "abc  ", None], "c"))
    assert sorted(filter(None, table.to_arrow(["v"]).column("v").to_pylist())) == ["ab ", "abc", "äöü"]
    assert sorted(filter(None, table.to_arrow(["c"]).column("c").to_pylist())) == ["a  ", "abc"]
    for column, declared in (("v", "varchar(3)"), ("c", "char(3)"), ("p", "varchar(2)")):
        with pytest.raises(InvalidInput, match=f"'{column}' is {re.escape(declared)}, and .*'long' is longer"):
            table.append(texts(["a", "long"], column))
    with pytest.raises(InvalidInput, match="'abcabc' is longer"):
        table.update({"v": "v || v"}, "v = 'abc'")
    with pytest.raises(InvalidInput, match="'long' is longer"):
        table.merge(texts(["long"]), ["v"], not_matched=Insert({"v": "source.v"}))
    table.update({"c": "'x'"}, "v = 'abc'")
    assert table.to_arrow(filter="v = 'abc'").column("c").to_pylist() == ["x  "]


def test_texts_that_are_too_long_already_are_copied(make: Callable[..., Table], catalog: Catalog) -> None:
    table = make("v string")
    table.append(texts(["long", "a", "b"]))
    table.append(texts(["c"]))
    with catalog.transaction(rows_checked=True) as tx:
        tx.set_metadata("t", schema="v varchar(3)")
    table.delete("v = 'a'")
    assert table.optimize() is not None
    assert sorted(table.to_arrow().column("v").to_pylist()) == ["b", "c", "long"]


def test_lengths_of_texts_inside_of_others_are_refused_unless_they_were_checked(
    make: Callable[..., Table], catalog: Catalog
) -> None:
    table = make("v array<varchar(3)>")
    rows = pa.table({"v": [["abc"]]})
    with pytest.raises(Refused, match=r"'v' is array<varchar\(3\)>, and lengths .* are not checked here"):
        table.append(rows)
    with catalog.transaction(rows_checked=True) as tx:
        tx.append("t", rows)
    with pytest.raises(Refused, match="are not checked here"):
        table.update({"v": None})
    table.delete("v IS NULL")
    assert table.to_arrow().num_rows == 1


def test_file_adds_meet_the_same_rules(make: Callable[..., Table]) -> None:
    table = make("p decimal(5,2), d date, v int", partition_by=["p"])
    add = Add(path="a.parquet", partition_values={"p": "-1.5"}, size=1, modification_time=1, data_change=True)
    dated = Add(
        path="b.parquet",
        partition_values={"p": None},
        size=1,
        modification_time=1,
        data_change=True,
        stats='{"numRecords":1,"minValues":{"d":"-0001-12-31"}}',
    )
    for each, rule in ((add, "add.partition.negative-fraction"), (dated, "add.stats.date")):
        with pytest.raises(DeltaMirrorError) as caught:
            table.append([each])
        assert getattr(caught.value, "rule", "") == rule
