"""The data source ``deltamirror`` without Spark: what Spark calls, in the order in which it does, pickled in between.

``tests/interop/test_spark_rows.py`` has the same on Spark.
"""

import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import datasource as spark_api
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import IntegerType, StructType

import deltamirror
from deltamirror import Catalog, SqlTxnLogWriter, Table
from deltamirror.errors import CommitUnknown, Conflict, InvalidInput, MissingExtra, NotFound
from deltamirror.rows import scanning
from deltamirror.spark.reading import TableReader
from deltamirror.spark.source import DeltaMirrorSource
from deltamirror.spark.writing import TableWriter
from tests.support.rows.cases import CASES

pytestmark = pytest.mark.requirement("R89")

ORDERS = "id long not null, day date, amount double, note string"
DAY, NEXT = date(2024, 5, 1), date(2024, 5, 2)


def orders(*ids: int, day: date = DAY) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "day": pa.array([day] * len(ids), pa.date32()),
            "amount": [each / 2 for each in ids],
            "note": [f"n{each}" for each in ids],
        }
    )


@pytest.fixture
def url(sqlite_lake: str) -> str:
    return sqlite_lake


@pytest.fixture
def table(lake: Catalog, tmp_path: Path) -> Table:
    return lake.create_table("orders", location=tmp_path / "orders", schema=ORDERS, partition_by=["day"])


def options(url: str, **more: str) -> Any:
    return spark_api.CaseInsensitiveDict({"path": "orders", "catalog": url, **more})


def sent(value: Any) -> Any:
    """A value as it arrives in another process."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301  our own bytes


def loaded(given: Any, filters: Sequence[Any] = ()) -> tuple[list[dict[str, Any]], int]:
    """The rows that a read gives, and from how many files."""
    source = DeltaMirrorSource(given)
    schema = source.schema()
    reader: TableReader = sent(source).reader(schema)
    assert reader.pushFilters(list(filters)) == list(filters)
    tasks: TableReader = sent(reader)
    groups = [sent(each) for each in reader.partitions()]
    batches = [batch for group in groups for batch in tasks.read(group)]
    assert {batch.schema for batch in batches} <= {to_arrow_schema(schema, timezone="UTC")}
    files = sum(len(group.files) for group in groups)
    return [row for batch in batches for row in batch.to_pylist()], files


def saved(given: Any, tasks: Sequence[pa.Table], *, overwrite: bool = False) -> TableWriter:
    """A write by some tasks; it is to be committed."""
    writer: TableWriter = DeltaMirrorSource(given).writer(_schema(tasks[0]), overwrite)
    messages = [sent(sent(writer).write(iter(each.to_batches()))) for each in tasks]
    sent(writer).commit(messages)
    return writer


def _schema(rows: pa.Table) -> StructType:
    return from_arrow_schema(rows.schema)


def ids(table: Table) -> list[int]:
    return sorted(table.to_arrow("id").column(0).to_pylist())


def test_rows_are_read_as_of_the_version_of_the_schema(table: Table, url: str) -> None:
    table.append(pa.concat_tables([orders(1, 2), orders(3, day=NEXT)]))
    source = DeltaMirrorSource(options(url))
    schema = source.schema()
    table.append(orders(4))
    reader = sent(source).reader(schema)
    found = [row["id"] for group in reader.partitions() for batch in reader.read(group) for row in batch.to_pylist()]
    assert sorted(found) == [1, 2, 3]
    assert sorted(row["id"] for row in loaded(options(url))[0]) == [1, 2, 3, 4]


def test_old_versions_are_read_by_number_and_by_time(table: Table, url: str) -> None:
    table.append(orders(1))
    table.append(orders(2))
    moment = datetime.fromtimestamp(table.history()[1].timestamp / 1_000, UTC).isoformat()
    for given in ({"versionAsOf": "1"}, {"timestampAsOf": moment}):
        assert [row["id"] for row in loaded(options(url, **given))[0]] == [1]


@pytest.mark.parametrize(
    ("given", "files"),
    [
        ([spark_api.EqualTo(("day",), DAY)], 1),
        ([spark_api.Not(spark_api.EqualTo(("day",), DAY))], 1),
        ([spark_api.GreaterThan(("id",), 2), spark_api.IsNotNull(("id",))], 1),
        ([spark_api.In(("note",), ("n3", "it's"))], 1),
        ([spark_api.LessThanOrEqual(("amount",), 0.5)], 1),
        ([spark_api.IsNull(("day",))], 0),
        ([spark_api.EqualNullSafe(("day",), DAY)], 2),
        ([spark_api.StringStartsWith(("note",), "n3")], 2),
        ([spark_api.EqualTo(("id",), b"?"), spark_api.EqualTo(("nix",), 1), spark_api.In(("id",), (None,))], 2),
    ],
)
def test_files_that_a_filter_excludes_are_not_read(table: Table, url: str, given: list[Any], files: int) -> None:
    table.append(pa.concat_tables([orders(1, 2), orders(3, day=NEXT)]))
    assert loaded(options(url), given)[1] == files


@pytest.mark.parametrize("value", [True, Decimal("1.5"), datetime(2024, 5, 1, tzinfo=UTC), 1.5, "x", DAY])
def test_a_filter_with_a_value_of_any_type_finds_its_row(lake: Catalog, url: str, tmp_path: Path, value: Any) -> None:
    rows = pa.table({"v": [value]})
    rows = rows.cast(pa.schema([("v", pa.decimal128(10, 2))])) if isinstance(value, Decimal) else rows
    lake.create_table("orders", location=tmp_path / "t", schema=rows.schema).append(rows)
    found, files = loaded(options(url), [spark_api.EqualTo(("v",), value)])
    assert (len(found), files) == (1, 1)


@pytest.mark.parametrize("case", ["types", "partitions"])
def test_rows_of_all_types_have_the_schema_that_spark_wants(lake: Catalog, url: str, tmp_path: Path, case: str) -> None:
    schema, partitions, _, rows = CASES[case]
    table = lake.create_table("orders", location=tmp_path / "t", schema=schema, partition_by=partitions)
    table.append(pa.Table.from_pylist(rows, table.to_arrow().schema))
    assert len(loaded(options(url))[0]) == len(rows)


def test_large_tables_are_read_by_several_tasks(table: Table, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "_GROUP_BYTES", 2 * 1024 * 1024 + 10_000)
    for number in range(5):
        table.append(orders(number))
    groups: Any = DeltaMirrorSource(options(url)).reader(DeltaMirrorSource(options(url)).schema()).partitions()
    assert [len(each.files) for each in groups] == [2, 2, 1]
    assert not list(DeltaMirrorSource(options(url)).reader(StructType()).read(spark_api.InputPartition(None)))


def test_some_columns_are_read_where_the_caller_names_them(table: Table, url: str) -> None:
    table.append(orders(1))
    source = DeltaMirrorSource(options(url))
    wanted = StructType([field for field in source.schema() if field.name == "note"])
    reader = source.reader(wanted)
    assert [batch.to_pylist() for group in reader.partitions() for batch in reader.read(group)] == [[{"note": "n1"}]]
    with pytest.raises(InvalidInput, match="'id' as int, which the table 'orders' has as bigint"):
        source.reader(StructType().add("id", IntegerType()))
    with pytest.raises(InvalidInput, match="'x' as int, which the table 'orders' lacks"):
        source.reader(StructType().add("x", IntegerType()))


def test_rows_are_appended_and_replaced(table: Table, url: str) -> None:
    saved(options(url), [orders(1, 2), orders(3, day=NEXT)])
    assert ids(table) == [1, 2, 3]
    saved(options(url, replaceWhere="day = '2024-05-01'"), [orders(10)], overwrite=True)
    assert ids(table) == [3, 10]
    saved(options(url, partitionOverwriteMode="DYNAMIC"), [orders(30, day=NEXT)], overwrite=True)
    assert ids(table) == [10, 30]
    saved(options(url), [orders(5)], overwrite=True)
    assert ids(table) == [5]
    entries = table.history()
    assert [entry.operation for entry in entries] == ["WRITE"] * 4 + ["CREATE TABLE"]
    assert [entry.parameters["mode"] for entry in entries[:4]] == ["Overwrite"] * 3 + ["Append"]
    assert (entries[0].metrics["numFiles"], entries[0].metrics["numRemovedFiles"]) == ("1", "2")
    saved(options(url), [orders(5).slice(1)])
    assert table.info().head == 4  # nothing to commit


def test_an_application_version_is_written_once(table: Table, url: str, tmp_path: Path) -> None:
    for version in ("7", "7", "6", "8"):
        saved(options(url, txnAppId="job", txnVersion=version), [orders(int(version))])
    assert ids(table) == [7, 8]
    assert len(list(tmp_path.rglob("*.parquet"))) == 2


def files_of(folder: Path) -> list[Path]:
    return list(folder.rglob("*.parquet"))


def test_what_happened_since_the_write_was_planned_is_a_conflict(table: Table, url: str, tmp_path: Path) -> None:
    changes: list[tuple[bool, Callable[[], object]]] = [
        (True, lambda: table.append(orders(2))),
        (False, lambda: table.alter(columns="x int")),
    ]
    for overwrite, meanwhile in changes:
        writer = DeltaMirrorSource(options(url)).writer(_schema(orders(1)), overwrite)
        message = writer.write(iter(orders(1).to_batches()))
        meanwhile()
        with pytest.raises(Conflict):
            writer.commit([message])
    assert ids(table) == [2]
    assert len(files_of(tmp_path)) == 1


def test_a_bad_row_and_a_failed_job_leave_no_file(table: Table, url: str, tmp_path: Path) -> None:
    bad = orders(1).set_column(0, "id", pa.array([None], pa.int64()))
    with pytest.raises(InvalidInput, match=r"'id' is NOT NULL, and 1 of .* \(fill or drop these rows\)"):
        saved(options(url), [orders(2), bad])
    writer = DeltaMirrorSource(options(url)).writer(_schema(orders(1)), False)
    writer.abort([writer.write(iter(orders(1).to_batches())), None])
    assert files_of(tmp_path) == []
    assert table.info().head == 0


def test_files_stay_where_the_outcome_of_a_commit_is_unknown(
    table: Table, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = SqlTxnLogWriter.commit

    def lost(writer: SqlTxnLogWriter, request: Any) -> None:
        commit(writer, request)
        raise CommitUnknown("the reply was lost")

    monkeypatch.setattr(SqlTxnLogWriter, "commit", lost)
    writer = DeltaMirrorSource(options(url)).writer(_schema(orders(1)), False)
    messages = [writer.write(iter(orders(1).to_batches()))]
    with pytest.raises(CommitUnknown):
        sent(writer).commit(messages)
    sent(writer).abort(messages)  # as Spark does after any failure
    assert ids(table) == [1]


@pytest.mark.parametrize(
    ("given", "overwrite", "message"),
    [
        (
            {"overwriteSchema": "true"},
            False,
            "no option 'overwriteschema' to append .there are: path, catalog, mergeSchema",
        ),
        ({"replaceWhere": "day = '2024-05-01'"}, False, "no option 'replacewhere' to append"),
        ({"versionAsOf": "1"}, True, "no option 'versionasof' to overwrite"),
        ({"overwriteSchema": "true", "replaceWhere": "x = 1"}, True, "overwrite_schema excludes"),
        ({"partitionOverwriteMode": "some"}, True, "partitionOverwriteMode is 'some'"),
        ({"txnAppId": "a"}, False, "txnAppId and txnVersion belong together"),
        ({"txnAppId": "a", "txnVersion": "x"}, False, "txnVersion has to be a number, not 'x'"),
        ({"replaceWhere": "amount > 1"}, True, "only whole partitions"),
        ({"catalog": "postgresql://me:hunter2@db/lake"}, False, "a password in it .set DELTAMIRROR_CATALOG__URL"),
    ],
)
def test_wrong_options_of_a_write_are_refused(
    table: Table, url: str, given: Mapping[str, str], overwrite: bool, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        DeltaMirrorSource(options(url, **given)).writer(_schema(orders(1)), overwrite)
    assert "hunter2" not in str(caught.value)


def test_wrong_reads_and_sessions_are_refused(table: Table, url: str) -> None:
    with pytest.raises(InvalidInput, match="no option 'replacewhere' to read"):
        DeltaMirrorSource(options(url, replaceWhere="x")).schema()
    with pytest.raises(InvalidInput, match="versionAsOf and timestampAsOf exclude each other"):
        DeltaMirrorSource(options(url, versionAsOf="0", timestampAsOf="2024-05-01")).schema()
    with pytest.raises(InvalidInput, match=r"no table is named \(name it: "):
        DeltaMirrorSource(spark_api.CaseInsensitiveDict({"catalog": url})).schema()
    with pytest.raises(NotFound):
        DeltaMirrorSource(options(url, path="nix")).schema()
    with pytest.raises(InvalidInput, match="'id' is long, the data has string"):
        DeltaMirrorSource(options(url)).writer(_schema(pa.table({"id": ["1"]})), False)
    for junk in (None, 1, "spark", object):
        with pytest.raises(InvalidInput, match="spark has to be a session of Spark 4"):
            deltamirror.spark.register(junk)


def test_without_pyspark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("deltamirror.spark.source", "deltamirror.spark.writing", "deltamirror.rows.spark"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingExtra, match="needs Spark") as caught:
        deltamirror.spark.register(object())
    assert caught.value.extra == "spark"


def test_a_session_gets_the_format_and_pushes_filters_down() -> None:
    registered: list[Any] = []
    configured: dict[str, str] = {}
    session = SimpleNamespace(
        dataSource=SimpleNamespace(register=registered.append), conf=SimpleNamespace(set=configured.__setitem__)
    )
    deltamirror.spark.register(session)
    assert registered == [DeltaMirrorSource]
    assert DeltaMirrorSource.name() == "deltamirror"
    assert configured == {"spark.sql.python.filterPushdown.enabled": "true"}


def test_what_travels_holds_no_secret(table: Table, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table.append(orders(1))
    monkeypatch.setenv("DELTAMIRROR_STORAGE__ACCESS_KEY_ID", "hunter1")
    monkeypatch.setenv("DELTAMIRROR_STORAGE__SECRET_ACCESS_KEY", "hunter2")
    source = DeltaMirrorSource(options(url))
    reader = source.reader(source.schema())
    writer = source.writer(_schema(orders(1)), False)
    travels = pickle.dumps((source, reader, reader.partitions(), writer))
    assert b"hunter" not in travels
