"""Statements of stock Delta Lake as one transaction over several tables: all of them take effect, or none.

Inside they see their own changes; outside nothing is seen before the end, and then one version of each table.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from deltamirror import Catalog, Table
from deltamirror.config import Settings, StorageSettings
from deltamirror.delta.names import LOG_DIRECTORY
from deltamirror.ops.diff.comparing import compare
from deltamirror.ops.diff.sides import location_state, table_state
from deltamirror.storage.open import store_at
from deltamirror.txnlog.access.tokens import Right
from tests.support.faults.rules import Reset, Silence
from tests.support.faults.s3_proxy import S3Proxy
from tests.support.interfaces.status_pages import Served, served
from tests.support.mirrors.local import committed_files, mirror_of
from tests.support.mirrors.reconcilers import assert_clean
from tests.support.readers.reader import Reader
from tests.support.readers.s3_access import S3Access
from tests.support.spark.cluster import started_cluster
from tests.support.spark.programs import spark_environment
from tests.support.spark.stock_jobs import StockJob, job_settings
from tests.support.spark.transactions import TransactionJob, TransactionOutcome

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.requirement("R90")]

NAMES = ("a", "b", "c")
MERGE = (
    "MERGE INTO $a USING (SELECT id, 'm' AS name FROM range(3, 5)) s ON $a.id = s.id"
    " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)
UPDATE = "UPDATE $b SET name = (SELECT max(name) FROM $c) WHERE id = 1"
DELETE = "DELETE FROM $b WHERE id = 2"
ROWS = [(1, "x"), (2, "y"), (3, "z")]
MERGED, CHANGED = [(1, "x"), (2, "y"), (3, "m"), (4, "m")], [(1, "z"), (3, "z")]
FAILS = "INSERT INTO $b SELECT id, raise_error('stop') FROM range(1)"


@dataclass(frozen=True, slots=True)
class Lake:
    """Tables with three rows each, whose first versions are published, a server, and a session."""

    spark: Reader
    page: Served
    root: str
    """The folder of the tables, as Hadoop names it."""
    storage: StorageSettings
    hadoop: dict[str, str]

    def text(self, statement: str) -> str:
        for name in NAMES:
            statement = statement.replace(f"${name}", f"delta.`{self.root}/{name}`")
        return statement

    def run(
        self,
        *statements: str,
        outside: Sequence[str] = (),
        beside: Sequence[str] = (),
        refused: Sequence[str] = (),
        server: str | None = None,
        stage: str | None = None,
        cached: str | None = None,
    ) -> TransactionOutcome:
        token = self.page.token(f"job-{len(self.page.tokens)}", Right.WRITE)
        settings = {**self.hadoop, **job_settings(server or self.page.url, token, self.root)}
        job = TransactionJob(
            settings,
            [self.text(each) for each in statements],
            outside=[self.text(each) for each in outside],
            beside=[self.text(each) for each in beside],
            refused=[self.text(each) for each in refused],
            stage=stage,
            cached=None if cached is None else self.text(cached),
        )
        done: TransactionOutcome = self.spark.run(job)
        return done

    def table(self, name: str) -> Table:
        return self.page.catalog.table(name)

    def rows(self, name: str) -> list[tuple[object, ...]]:
        return sorted(tuple(row.values()) for row in self.table(name).to_arrow().to_pylist())

    def heads(self) -> dict[str, int]:
        return {table.name: table.head for table in self.page.catalog.tables()}

    def assert_in_step(self) -> None:
        """The log of each table is the one in SQL, and valid."""
        settings = Settings(storage=self.storage)
        with mirror_of(self.page.catalog, settings=settings) as engine:
            engine.run(once=True)
            for name in NAMES:
                assert_clean(engine, name)
        for name in NAMES:
            store = store_at(self.table(name).location, self.storage)
            compared = compare(table_state(self.page.catalog.database, name, None), location_state(store, None))
            assert compared.first is None, f"{compared}"
            for file, data in committed_files(self.table(name)).items():
                put = store.read(f"{LOG_DIRECTORY}/{file}")
                assert (put and put.data) == data, file
                assert b"tx:" not in data


def _filled(catalog: Catalog, root: str, settings: Settings, **more: object) -> None:
    for name in NAMES:
        table = catalog.create_table(name, location=f"{root}/{name}", schema="id long, name string", **more)  # type: ignore[arg-type]
        table.append(pa.table({"id": [row[0] for row in ROWS], "name": [row[1] for row in ROWS]}))
    with mirror_of(catalog, settings=settings) as engine:
        engine.run(once=True)


@pytest.fixture
def empty(sqlite_lake: str) -> Iterator[Catalog]:
    with Catalog(sqlite_lake) as catalog:
        yield catalog


@pytest.fixture
def lake(empty: Catalog, delta_spark: Reader, tmp_path: Path) -> Iterator[Lake]:
    _filled(empty, str(tmp_path), Settings())
    with served(empty) as page:
        yield Lake(delta_spark, page, f"file:{tmp_path}", StorageSettings(), {})


@pytest.fixture
def s3_lake(delta_spark: Reader, sqlite_lake: str, s3_bucket: str, s3_settings: StorageSettings) -> Iterator[Lake]:
    settings = Settings(storage=s3_settings)
    with Catalog(sqlite_lake, settings=settings) as catalog:
        _filled(catalog, f"s3://{s3_bucket}", settings)
        with served(catalog, settings=settings) as page:
            yield Lake(delta_spark, page, f"s3a://{s3_bucket}", s3_settings, S3Access.of(s3_settings).hadoop(s3_bucket))


def test_statements_on_several_tables_take_effect_together_as_one_version_of_each(
    lake: Lake, delta_rs: Reader, tmp_path: Path
) -> None:
    reads = ("SELECT * FROM $a", "SELECT * FROM $b")
    refused = (f"{tmp_path}/a", "CREATE OR REPLACE TABLE $c (id LONG) USING delta", "OPTIMIZE $a")
    # Rows of a table that the session has cached are read again at the end: nothing that fails then is a failure.
    done = lake.run(MERGE, UPDATE, DELETE, *reads, outside=reads, refused=refused, cached="SELECT * FROM $a")
    assert (done.error, done.versions) == ("", {"a": 2, "b": 2})
    assert done.inside[-2:] == [MERGED, CHANGED], "own changes are seen"
    assert done.outside == [ROWS, ROWS], "a plain reader beside it sees nothing of them"
    assert all("transaction of deltamirror" in refusal for refusal in done.refusals), done.refusals
    assert [lake.rows(name) for name in NAMES] == [MERGED, CHANGED, ROWS]
    assert lake.heads() == {"a": 2, "b": 2, "c": 1}
    infos = [msgspec.json.decode(lake.table(name).commit_file(2).splitlines()[0])["commitInfo"] for name in "ab"]
    assert [info["operation"] for info in infos] == ["MERGE", "TRANSACTION"]
    assert infos[1]["operationParameters"] == {"statements": '["UPDATE","DELETE"]'}
    lake.assert_in_step()
    for name, rows in (("a", 4), ("b", 2)):
        seen = delta_rs.snapshot(tmp_path / name, rows=True)
        assert (seen.version, seen.row_count) == (2, rows)


def test_a_statement_that_fails_or_a_commit_in_between_leaves_all_tables_as_they_were(lake: Lake) -> None:
    assert "stop" in lake.run("INSERT INTO $a VALUES (9, 'w')", FAILS).error
    assert lake.heads() == dict.fromkeys(NAMES, 1)
    # A table that is only read is changed.
    conflicting = lake.run("INSERT INTO $a SELECT * FROM $c", beside=["DELETE FROM $c WHERE id = 3"])
    assert conflicting.error.startswith("Conflict: "), conflicting
    assert lake.heads() == {"a": 1, "b": 1, "c": 2}


@pytest.mark.soak
def test_a_commit_in_between_is_a_conflict_and_a_lost_reply_is_none(lake: Lake) -> None:
    conflicting = lake.run(MERGE, UPDATE, beside=["INSERT INTO $b VALUES (9, 'w')"])
    assert conflicting.error.startswith("Conflict: "), conflicting
    assert lake.heads() == {"a": 1, "b": 2, "c": 1}
    with S3Proxy(("127.0.0.1", lake.page.port)).running() as proxy:
        proxy.fail(Reset.AFTER, lambda access: access.key == "api/v1/commits", times=2)
        done = lake.run(MERGE, UPDATE, server=proxy.endpoint)
    assert (done.error, done.versions) == ("", {"a": 2, "b": 3})
    lake.assert_in_step()


@pytest.mark.soak
def test_statements_on_tables_in_s3_take_effect_together(s3_lake: Lake) -> None:
    reads = ("SELECT * FROM $a", "SELECT * FROM $b")
    assert "stop" in s3_lake.run(MERGE, FAILS).error
    done = s3_lake.run(MERGE, UPDATE, DELETE, *reads, stage=f"{s3_lake.root}/stages")
    assert (done.error, done.versions, done.inside[-2:]) == ("", {"a": 2, "b": 2}, [MERGED, CHANGED])
    assert [s3_lake.rows(name) for name in NAMES] == [MERGED, CHANGED, ROWS]
    s3_lake.assert_in_step()
    left = store_at(f"{s3_lake.table('a').location.rpartition('/')[0]}/stages", s3_lake.storage)
    assert list(left.list()) == []


@pytest.mark.soak
def test_many_statements_on_a_table_leave_it_as_they_would_one_by_one(
    delta_spark: Reader, empty: Catalog, tmp_path: Path
) -> None:
    """Deletion vectors, mapped columns, partitions, columns that are added, and a version that is brought back."""
    properties = {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"}
    _filled(empty, str(tmp_path), Settings(), properties=properties, partition_by=["name"])
    statements = (
        "INSERT INTO $a SELECT id, 'x' FROM range(10, 20)",
        "UPDATE $a SET id = id + 100 WHERE id IN (1, 10)",
        "DELETE FROM $a WHERE id = 11",
        "DELETE FROM $a WHERE id = 12",
        "DELETE FROM $a WHERE name = 'y'",
        "ALTER TABLE $a ADD COLUMN more INT",
        "ALTER TABLE $a RENAME COLUMN id TO number",
        "UPDATE $a SET more = 7 WHERE number > 15",
        "DELETE FROM $b",
        "RESTORE $b TO VERSION AS OF 1",
        "SELECT * FROM $a",
    )
    with served(empty) as page:
        both = Lake(delta_spark, page, f"file:{tmp_path}", StorageSettings(), {})
        done = both.run(*statements, refused=("VACUUM $c RETAIN 0 HOURS", "OPTIMIZE $a"))
        assert (done.error, done.versions) == ("", {"a": 2, "b": 2})
        assert all(done.refusals)
        token = page.token("single", Right.WRITE)
        single = [both.text(each.replace("$a", "$c")) for each in statements if "$b" not in each]
        one_by_one = delta_spark.run(StockJob(job_settings(page.url, token, both.root), single))
        assert sorted(tuple(row.values()) for row in one_by_one) == done.inside[-1]
        both.assert_in_step()
        for name in "ab":
            seen = delta_spark.snapshot(tmp_path / name, rows=True)
            assert (seen.version, seen.row_count) == (2, both.table(name).to_arrow().num_rows)


@pytest.mark.soak
@pytest.mark.parametrize("property_", ["delta.enableChangeDataFeed", "delta.enableRowTracking"])
def test_a_table_whose_rows_are_followed_takes_one_change_of_its_rows(
    delta_spark: Reader, empty: Catalog, tmp_path: Path, property_: str
) -> None:
    _filled(empty, str(tmp_path), Settings(), properties={property_: "true"})
    with served(empty) as page:
        followed = Lake(delta_spark, page, f"file:{tmp_path}", StorageSettings(), {})
        assert "takes one change a version" in followed.run(UPDATE, DELETE).error
        assert followed.heads() == dict.fromkeys(NAMES, 1)
        off, on = (
            f"ALTER TABLE $b {change}"
            for change in (f"UNSET TBLPROPERTIES ({property_})", f"SET TBLPROPERTIES ({property_} = true)")
        )
        if property_ == "delta.enableChangeDataFeed":
            assert "off and on again" in followed.run(off, UPDATE, on).error
        done = followed.run(MERGE, UPDATE, "ALTER TABLE $b SET TBLPROPERTIES (a = 'b')")
        assert (done.error, done.versions) == ("", {"a": 2, "b": 2})
        followed.assert_in_step()


MOMENTS = (
    ("api/v1/commits", Silence.BEFORE, {"a": 1, "b": 1}),
    ("api/v1/commits", Silence.AFTER, {"a": 2, "b": 2}),
    ("api/v1/tables/b/publish", Silence.BEFORE, {"a": 2, "b": 2}),
)
"""The request at which a driver is killed, on the way or with its answer, and the heads that it leaves."""


@pytest.mark.soak
@pytest.mark.parametrize(("request_", "silence", "heads"), MOMENTS, ids=["before", "after", "between the puts"])
def test_a_driver_that_is_killed_leaves_both_tables_changed_or_neither(
    lake: Lake, tmp_path: Path, request_: str, silence: Silence, heads: dict[str, int]
) -> None:
    with (
        served(lake.page.catalog, publish=True) as page,
        S3Proxy(("127.0.0.1", page.port)).running() as proxy,
        _driver(replace(lake, page=page), proxy.endpoint, tmp_path) as driver,
    ):
        proxy.fail(silence, lambda access: access.key == request_, times=None)
        while not any(access.key == request_ for access in proxy.log):
            assert driver.poll() is None, (tmp_path / "driver.log").read_text()[-2_000:]
            time.sleep(0.1)
        driver.kill()
        driver.wait()
    assert {name: head for name, head in lake.heads().items() if name != "c"} == heads
    lake.assert_in_step()
    assert [lake.rows(name) for name in "ab"] == ([ROWS, ROWS] if heads["a"] == 1 else [MERGED, CHANGED])


@pytest.mark.soak
def test_executors_of_a_cluster_take_part_in_a_transaction(lake: Lake, tmp_path: Path) -> None:
    with (
        started_cluster(tmp_path, spark_environment()) as master,
        _driver(lake, lake.page.url, tmp_path, master=master, stage=f"file:{tmp_path}/stage") as driver,
    ):
        assert driver.wait() == 0, (tmp_path / "driver.log").read_text()[-2_000:]
    assert [lake.rows(name) for name in NAMES] == [MERGED, CHANGED, ROWS]
    assert list((tmp_path / "stage").iterdir()) == []
    lake.assert_in_step()


@contextmanager
def _driver(
    lake: Lake, server: str, folder: Path, *, master: str = "local[1]", stage: str | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that changes two tables in one transaction."""
    token = lake.page.token(f"driver-{len(lake.page.tokens)}", Right.WRITE)
    settings = {f"spark.hadoop.{name}": value for name, value in job_settings(server, token, lake.root).items()}
    statements = [lake.text(each) for each in (MERGE, UPDATE, DELETE)]
    job = json.dumps({"master": master, "settings": settings, "statements": statements, "stage": stage})
    command = [sys.executable, "-m", "tests.support.spark.transaction_driver", job]
    with (folder / "driver.log").open("wb") as log:
        environment = {**os.environ, **spark_environment()}
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
