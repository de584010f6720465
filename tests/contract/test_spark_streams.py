"""Tables as streams without Spark: what Spark calls, in the order in which it does, as other processes get it.

``tests/interop/test_spark_rows.py`` has the same on Spark.
"""

import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import datasource as spark_api
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxFiles

from deltamirror import Catalog, Table
from deltamirror.errors import DeltaMirrorError, InvalidInput, NotFound
from deltamirror.rows import spark as spark_rows
from deltamirror.spark.source import DeltaMirrorSource
from deltamirror.spark.streaming import TableStreamReader
from deltamirror.spark.writing import TableStreamWriter

pytestmark = [pytest.mark.requirement("R89"), pytest.mark.requirement("R115")]


@pytest.fixture
def table(lake: Catalog, tmp_path: Path) -> Table:
    return lake.create_table("orders", location=tmp_path / "orders", schema="id long")


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def options(url: str, **more: str) -> Any:
    return spark_api.CaseInsensitiveDict({"path": "orders", "catalog": url, **more})


def sent(value: Any) -> Any:
    """A value as it arrives in another process."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301  our own bytes


def started(url: str, **more: str) -> TableStreamReader:
    source = DeltaMirrorSource(options(url, **more))
    reader: TableStreamReader = sent(source).streamReader(source.schema())
    return reader


class Query:
    """A query as Spark runs one: it keeps its offset as JSON, and may be started again."""

    def __init__(self, url: str, **more: str) -> None:
        self._url, self._more = url, more
        self.reader = started(url, **more)
        self.offset = json.dumps(self.reader.initialOffset())

    def restart(self) -> None:
        self.reader = started(self._url, **self._more)

    def batch(self, limit: ReadLimit | None = None) -> list[int]:
        """The ids of the next batch, which is the same if it is done again."""
        start = json.loads(self.offset)
        end = json.loads(json.dumps(self.reader.latestOffset(start, limit or self.reader.getDefaultReadLimit())))
        found = self.read(start, end)
        assert self.read(start, end) == found
        self.offset = json.dumps(end)
        return found

    def batches(self) -> list[list[int]]:
        """All batches until nothing is new."""
        found = list[list[int]]()
        while True:
            before = self.offset
            batch = self.batch()
            if self.offset == before:
                return found
            found.append(batch)

    def read(self, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
        tasks = sent(self.reader)
        groups = [sent(each) for each in self.reader.partitions(start, end)]
        batches = [batch for group in groups for batch in tasks.read(group)]
        return sorted(each for batch in batches for each in batch.column("id").to_pylist())


def test_a_stream_has_the_rows_of_the_table_and_then_those_that_are_added(table: Table, sqlite_lake: str) -> None:
    table.append(rows(1, 2))
    table.append(rows(3))
    query = Query(sqlite_lake)
    assert query.batch() == [1, 2, 3]
    assert query.batch() == []
    table.append(rows(4))
    query.restart()
    table.append(rows(5))
    assert query.batch() == [4, 5]
    assert query.batches() == []


@pytest.mark.parametrize(
    ("more", "expected"),
    [({"startingVersion": "2"}, [2, 3]), ({"startingVersion": "latest"}, []), ({"startingVersion": "4"}, [])],
    ids=str,
)
def test_a_stream_starts_where_it_is_told_to(
    table: Table, sqlite_lake: str, more: dict[str, str], expected: list[int]
) -> None:
    for number in (1, 2, 3):
        table.append(rows(number))
    query = Query(sqlite_lake, **more)
    assert query.batch() == expected
    table.append(rows(9))
    assert query.batch() == [9]


def test_a_stream_starts_at_a_time(table: Table, sqlite_lake: str) -> None:
    for number in (1, 2, 3):
        table.append(rows(number))
    times = {entry.version: entry.timestamp for entry in table.history()}
    for version, moment in times.items():
        at = f"{moment // 1000:d}"
        exact = pa.scalar(moment, pa.timestamp("ms", "UTC")).as_py().isoformat()
        first = min(each for each in times if times[each] >= moment)
        assert Query(sqlite_lake, startingTimestamp=exact).batch() == [n for n in (1, 2, 3) if n >= first], (
            version,
            at,
        )
    assert Query(sqlite_lake, startingTimestamp="1999-01-01").batch() == [1, 2, 3]


LIMITS: Sequence[ReadLimit] = (ReadMaxFiles(1), ReadMaxFiles(2), ReadMaxBytes(1_500), ReadAllAvailable())


@pytest.mark.parametrize("restarts", [False, True], ids=["running", "restarted"])
def test_whatever_the_limit_every_row_comes_once_and_in_order(
    lake: Catalog, sqlite_lake: str, tmp_path: Path, restarts: bool
) -> None:
    table = lake.create_table("orders", location=tmp_path / "t", schema="id long, p long", partition_by=["p"])
    queries: list[tuple[int, ReadLimit, Query]] = []
    number = 0
    for count in (2, 1, 3):
        queries += [(number, limit, Query(sqlite_lake)) for limit in LIMITS]
        ids = range(number, number := number + count)
        table.append(pa.table({"id": ids, "p": ids}))  # a file a row
    for known, limit, query in queries:
        seen: list[int] = []
        while len(seen) < number:
            batch = query.batch(limit)
            assert batch
            assert not isinstance(limit, ReadMaxFiles) or len(batch) <= limit.max_files
            seen += batch
            if restarts:
                query.restart()
        assert sorted(seen) == list(range(number))
        assert sorted(seen[:known]) == list(range(known))
        assert query.batch(limit) == []


def test_a_stream_ends_with_the_version_that_was_the_newest_when_it_was_told_to(table: Table, sqlite_lake: str) -> None:
    table.append(rows(1))
    query = Query(sqlite_lake, maxFilesPerTrigger="1")
    query.reader.prepareForTriggerAvailableNow()
    table.append(rows(2))
    assert query.batches() == [[1]]
    query.restart()
    query.reader.prepareForTriggerAvailableNow()
    assert query.batches() == [[2]]


def test_a_version_that_takes_rows_away_stops_the_stream_before_it(table: Table, sqlite_lake: str) -> None:
    query = Query(sqlite_lake)
    assert query.batch() == []
    table.append(rows(1))
    table.overwrite(rows(2))
    table.append(rows(3))
    assert query.batch() == [1]
    for _ in range(2):
        with pytest.raises(InvalidInput, match=r"version 2 .* deletes or rewrites rows.*skipChangeCommits"):
            query.batch()
    others = Query(sqlite_lake, startingVersion="1", skipChangeCommits="true")
    assert others.batches() == [[1, 3]]


def test_deletes_may_be_ignored_and_rearranged_files_are_no_news(
    table: Table, sqlite_lake: str, lake: Catalog, tmp_path: Path
) -> None:
    table.append(rows(1))
    [first] = table.snapshot().adds()
    with lake.transaction() as tx:
        tx.remove("orders", [first.path], data_change=False)
        tx.stage("orders", _same_rows(tmp_path / "orders", first), read_version=1)
    [second] = table.snapshot().adds()
    table.remove([second.path])
    table.append(rows(4))
    assert Query(sqlite_lake, startingVersion="0", ignoreDeletes="true").batches() == [[1, 4]]
    with pytest.raises(InvalidInput, match="version 3 "):
        Query(sqlite_lake, startingVersion="3").batch()


def _same_rows(folder: Path, add: Any) -> list[Any]:
    (folder / "again.parquet").write_bytes((folder / add.path).read_bytes())
    return [msgspec.structs.replace(add, path="again.parquet", data_change=False)]


def test_a_stream_stops_before_another_schema_and_goes_on_with_it(table: Table, sqlite_lake: str) -> None:
    query = Query(sqlite_lake)
    table.append(rows(1))
    table.alter(columns=["note string"])
    table.append(pa.table({"id": [2], "note": ["n"]}))
    assert query.batch() == [1]
    with pytest.raises(InvalidInput, match=r"version 2 .* changed its metadata.*start the query again"):
        query.batch()
    query.restart()
    assert query.batch() == [2]


def test_another_table_of_the_same_name_is_not_read_on(table: Table, sqlite_lake: str, lake: Catalog) -> None:
    query = Query(sqlite_lake)
    location = table.location
    lake.drop_table("orders", unpublished=True)
    with pytest.raises(NotFound, match="dropped"):
        query.batch()
    lake.create_table("orders", location=f"{location}2", schema="id long")
    query.restart()
    with pytest.raises(InvalidInput, match=r"another history of table 'orders'.*checkpointLocation"):
        query.batch()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"startingVersion": "first"}, "startingVersion has to be a number"),
        ({"startingVersion": "3"}, "has no version 3: it is at version 0"),
        ({"startingTimestamp": "2999-01-01"}, "startingTimestamp is 2999-01-01, which is in the future"),
        ({"startingVersion": "0", "startingTimestamp": "2024-01-01"}, "exclude each other"),
        ({"maxFilesPerTrigger": "0"}, "maxFilesPerTrigger is 0"),
        ({"maxFilesPerTrigger": "1", "maxBytesPerTrigger": "1"}, "exclude each other"),
        ({"skipChangeCommits": "yes"}, "skipChangeCommits has to be true or false, not 'yes'"),
        ({"readChangeFeed": "true"}, "no option"),
        ({"startingTimestamp": "soon"}, "not a time"),
    ],
    ids=str,
)
def test_options_that_cannot_be_are_refused(table: Table, sqlite_lake: str, more: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Query(sqlite_lake, **more)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, [1, 2, 3, 4, 5]),
        ({"maxFilesPerTrigger": "1"}, [1, 2, 3, 4, 5]),
        ({"startingVersion": "latest"}, [3, 4, 5]),
        ({"startingVersion": "2"}, [2, 3, 4, 5]),
    ],
    ids=str,
)
def test_a_query_that_is_killed_in_its_first_batch_loses_and_doubles_nothing(
    table: Table, sqlite_lake: str, more: dict[str, str], expected: list[int]
) -> None:
    """Spark does it again between the first place of the new process and the end that was written down."""
    table.append(rows(1))
    table.append(rows(2))
    query = Query(sqlite_lake, **more)
    table.append(rows(3))
    start = json.loads(query.offset)
    end = json.loads(json.dumps(query.reader.latestOffset(start, query.reader.getDefaultReadLimit())))
    first = query.read(start, end)
    table.append(rows(4))
    table.append(rows(5))
    query.restart()
    assert query.read(query.reader.initialOffset(), end) == first
    query.offset = json.dumps(end)
    assert sorted([*first, *(each for batch in query.batches() for each in batch)]) == expected


def test_the_next_version_is_waited_for(table: Table, sqlite_lake: str) -> None:
    query = Query(sqlite_lake, startingVersion="1")
    assert query.batch() == []
    table.append(rows(1))
    assert query.batch() == [1]


class Sink:
    """A query that writes, as Spark runs it: tasks elsewhere, commits beside the driver."""

    def __init__(self, url: str, *, overwrite: bool = False, **more: str) -> None:
        given = options(url, txnAppId="q", checkpointLocation="/c", **more)
        writer = DeltaMirrorSource(given).streamWriter(from_arrow_schema(rows().schema), overwrite)
        self.writer: TableStreamWriter = sent(writer)

    def write(self, number: int, *tasks: pa.Table) -> None:
        self.writer.commit([sent(sent(self.writer).write(iter(each.to_batches()))) for each in tasks], number)


@pytest.fixture(autouse=True)
def _task_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter(range(1_000))
    monkeypatch.setattr(spark_rows, "task_number", lambda: next(numbers))


def ids(table: Table) -> list[int]:
    return sorted(table.to_arrow().column("id").to_pylist())


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "orders").glob("*.parquet"))


def test_a_batch_is_written_once_however_often_it_is_done(table: Table, sqlite_lake: str, tmp_path: Path) -> None:
    sink = Sink(sqlite_lake)
    sink.write(0, rows(1), rows(2, 3))
    table.append(rows(9))
    Sink(sqlite_lake).write(0, rows(1), rows(2, 3))
    sink.write(1, rows(4))
    sink.write(1, rows(4))
    assert ids(table) == [1, 2, 3, 4, 9]
    assert table.info().head == 3
    assert files(tmp_path) == sorted(
        add.path for add in table.snapshot().adds()
    )  # nothing is left of the repeated ones


def test_the_mode_complete_replaces_all_rows_with_each_batch(table: Table, sqlite_lake: str) -> None:
    sink = Sink(sqlite_lake, overwrite=True)
    for number, batch in enumerate((rows(1), rows(1, 2))):
        sink.write(number, batch)
    assert ids(table) == [1, 2]


def test_a_stream_that_meets_another_schema_ends_and_leaves_no_file(
    table: Table, sqlite_lake: str, tmp_path: Path
) -> None:
    sink = Sink(sqlite_lake)
    sink.write(0, rows(1))
    table.alter(columns=["note string"])
    with pytest.raises(InvalidInput, match="start the query again"):
        sink.write(1, rows(2))
    assert len(files(tmp_path)) == 1
    Sink(sqlite_lake).write(1, rows(2))
    assert ids(table) == [1, 2]


def test_a_task_that_fails_takes_the_files_of_the_others_along(table: Table, sqlite_lake: str, tmp_path: Path) -> None:
    sink = Sink(sqlite_lake)
    done: Sequence[Any] = [sink.writer.write(iter(rows(1).to_batches())), None]
    assert len(files(tmp_path)) == 1
    sink.writer.abort(done, 0)
    assert files(tmp_path) == []
    assert table.info().head == 0


@pytest.mark.parametrize(
    ("more", "message"),
    [({}, "no txnAppId"), ({"txnAppId": " "}, "no txnAppId"), ({"txnAppId": "q", "mergeSchema": "true"}, "no option")],
    ids=str,
)
def test_a_sink_without_a_name_is_refused(table: Table, sqlite_lake: str, more: dict[str, str], message: str) -> None:
    with pytest.raises(DeltaMirrorError, match=message):
        DeltaMirrorSource(options(sqlite_lake, **more)).streamWriter(from_arrow_schema(rows().schema), False)
