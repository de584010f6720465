"""Stock Delta Lake jobs on Spark commit through SQL by the LogStore, and every reader goes on as before.

Whatever is lost on the way, a reply, a driver between SQL and object, a race, a mirror that is quicker: a version is
one commit, with one set of bytes.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from deltamirror import Catalog, Table
from deltamirror.config import MirrorSettings, Settings, StorageSettings
from deltamirror.delta.names import LOG_DIRECTORY, commit_name
from deltamirror.ops.diff.comparing import compare
from deltamirror.ops.diff.sides import location_state, table_state
from deltamirror.storage.open import store_at
from deltamirror.txnlog.access.tokens import Right
from tests.support.faults.rules import Answer, Fault, Reset, Truncate
from tests.support.faults.s3_proxy import Access, S3Proxy
from tests.support.interfaces.commit_clients import UNTIMED, commit_lines, writer_of
from tests.support.interfaces.status_pages import Served, served
from tests.support.lakes.lake import paths
from tests.support.mirrors.local import append, committed_files, log_of, make_table, mirror_of, published_files
from tests.support.mirrors.reconcilers import assert_clean
from tests.support.readers.reader import Reader
from tests.support.readers.s3_access import S3Access
from tests.support.spark.stock_jobs import (
    LogStoreListing,
    LogStoreRace,
    LogStoreWrite,
    StockJob,
    StreamedTable,
    job_settings,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.requirement("R90")]

ALREADY = "java.nio.file.FileAlreadyExistsException"
REFUSED = ("java.io.IOException: ", "io.deltamirror.spark.CommitServer$Refused: ")
"""How an ``IOException`` begins, and one of a server that refused."""
STATEMENTS = (
    "INSERT INTO $t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    "INSERT INTO $t VALUES (9, 'z')",  # in a file that all versions keep
    "DELETE FROM $t WHERE id = 2",
    "MERGE INTO $t USING (SELECT id, 'm' AS name FROM range(3, 5)) s ON $t.id = s.id"
    " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "ALTER TABLE $t ADD COLUMN more INT",
    "RESTORE $t TO VERSION AS OF 3",
    "OPTIMIZE $t",
)


@dataclass(frozen=True, slots=True)
class Lake:
    """A table on disk whose first version is published, and a server."""

    page: Served
    table: Table
    folder: Path

    @property
    def log(self) -> Path:
        return log_of(self.table)

    def settings(self, server: str | None = None, *, tables: str = "*", retry_seconds: int = 60) -> dict[str, str]:
        token = self.page.token(f"job-{len(self.page.tokens)}", Right.WRITE, tables)
        return job_settings(server or self.page.url, token, f"file:{self.folder}", retry_seconds)

    def write(self, version: int, path: str, settings: dict[str, str] | None = None) -> LogStoreWrite:
        lines = commit_lines(path).decode().splitlines()
        return LogStoreWrite(settings or self.settings(), f"file:{self.log / commit_name(version)}", lines)


@pytest.fixture
def lake(lake: Catalog, tmp_path: Path) -> Iterator[Lake]:
    table = make_table(lake, tmp_path, properties=UNTIMED)
    with mirror_of(lake) as engine:
        engine.mirror("t")
    with served(lake) as page:
        yield Lake(page, table, tmp_path)


def assert_in_step(catalog: Catalog, table: Table) -> None:
    """The service finds the versions of jobs published, and nothing differs from SQL."""
    with mirror_of(catalog) as engine:
        engine.run(once=True)
        [status] = engine.status(table.name)
        assert (status.state, status.lag_versions, status.failed) == ("active", 0, 0)
        assert_clean(engine, table.name)
    assert published_files(table) == committed_files(table)


def assert_the_same_everywhere(catalog: Catalog, table: Table, reader: Reader) -> None:
    """The log has the state that SQL has, and another reader sees the newest version with its rows."""
    assert_in_step(catalog, table)
    with_log = location_state(store_at(table.location, StorageSettings()), None)
    assert compare(table_state(catalog.database, table.name, None), with_log).first is None
    seen = reader.snapshot(log_of(table).parent, rows=True)
    assert (seen.version, seen.row_count) == (table.info().head, table.to_arrow().num_rows)


def test_statements_of_a_stock_job_are_commits_in_sql_with_the_bytes_that_delta_spark_wrote(
    delta_spark: Reader, delta_rs: Reader, lake: Lake
) -> None:
    catalog, folder = lake.page.catalog, lake.folder
    vectors = {"delta.enableDeletionVectors": "true"}
    orders = catalog.create_table("orders", location=folder / "a b", schema="id long, name string", properties=vectors)
    with mirror_of(catalog) as engine:
        engine.run(once=True)
    name = f"delta.`{folder}/a b`"
    delta_spark.run(StockJob(lake.settings(), [each.replace("$t", name) for each in STATEMENTS]))
    orders.append(pa.table({"id": [100], "name": ["python"]}))  # which is not published when the job goes on
    [counted] = delta_spark.run(
        StockJob(lake.settings(), [f"INSERT INTO {name} VALUES (5, 'e')", f"SELECT count(*) AS n FROM {name}"])
    )
    assert [entry.operation for entry in reversed(orders.history())] == [
        *("CREATE TABLE", "WRITE", "WRITE", "DELETE", "MERGE", "ADD COLUMNS", "RESTORE", "OPTIMIZE"),
        *("WRITE", "WRITE"),
    ]
    assert_the_same_everywhere(catalog, orders, delta_rs)
    assert orders.to_arrow().num_rows == counted["n"] == 5


def test_a_stream_that_dies_after_its_commit_loses_nothing_and_doubles_nothing_when_it_starts_again(
    delta_spark: Reader, delta_rs: Reader, lake: Lake
) -> None:
    catalog, checkpoint = lake.page.catalog, lake.folder / "checkpoint"
    events, copy = (
        catalog.create_table(name, location=lake.folder / name, schema="id long") for name in ("events", "copy")
    )
    with mirror_of(catalog) as engine:
        engine.run(once=True)
    stream = StreamedTable(lake.settings(), f"{lake.folder}/events", f"{lake.folder}/copy", str(checkpoint))
    events.append(pa.table({"id": [0]}))
    assert (told := delta_spark.run(stream)) is None, told
    for name in ("0", ".0.crc"):
        (checkpoint / "commits" / name).unlink()  # killed before it knew that the batch was committed
    (log_of(copy) / commit_name(copy.info().head)).unlink()  # and before its object was put
    events.append(pa.table({"id": [1]}))
    assert (told := delta_spark.run(stream)) is None, told
    assert sorted(copy.to_arrow().column("id").to_pylist()) == [0, 1]
    assert_the_same_everywhere(catalog, copy, delta_rs)


def test_a_location_that_is_not_ours_is_written_as_without_us(delta_spark: Reader, lake: Lake) -> None:
    log = lake.folder / "other" / "_delta_log"
    log.mkdir(parents=True)
    path, lines = f"file:{log / commit_name(0)}", commit_lines("a").decode().splitlines()
    assert delta_spark.run(LogStoreWrite(lake.settings(), path, lines)) == ""
    assert (log / commit_name(0)).read_bytes() == commit_lines("a")
    assert delta_spark.run(LogStoreWrite(lake.settings(), path, lines)).startswith(ALREADY)
    assert commit_name(0) in delta_spark.run(LogStoreListing(lake.settings(), path))


def test_a_conflict_is_raised_when_the_winner_can_be_read(delta_spark: Reader, lake: Lake) -> None:
    append(lake.table, 2)
    assert list(published_files(lake.table)) == [commit_name(0)]
    assert delta_spark.run(lake.write(1, "late")).startswith(ALREADY)
    assert published_files(lake.table) == committed_files(lake.table)
    assert delta_spark.run(lake.write(3, "late")) == ""
    assert_in_step(lake.page.catalog, lake.table)


def test_a_commit_of_a_driver_that_was_killed_before_its_put_is_published_by_the_next_listing(
    delta_spark: Reader, lake: Lake
) -> None:
    assert writer_of(lake.page).commit("t", 1, commit_lines("a")).status == 201
    names = delta_spark.run(LogStoreListing(lake.settings(), f"file:{lake.log / commit_name(0)}"))
    assert [name for name in names if name.endswith(".json")] == [commit_name(0), commit_name(1)]
    assert_in_step(lake.page.catalog, lake.table)


FAULTS = (Reset.BEFORE, Reset.WITHIN, Reset.AFTER, Truncate(5), Answer(502, "of a proxy"))


@pytest.mark.parametrize("fault", FAULTS, ids=range(len(FAULTS)))
def test_a_lost_request_or_reply_is_one_commit(delta_spark: Reader, lake: Lake, fault: Fault) -> None:
    with S3Proxy(("127.0.0.1", lake.page.port)).running() as proxy:
        proxy.fail(fault, lambda access: access.method == "POST", times=3)
        assert delta_spark.run(lake.write(1, "a", lake.settings(proxy.endpoint))) == ""
        assert len([access for access in proxy.log if access.method == "POST"]) == 4
    assert (paths(lake.table), lake.table.info().head) == (["a"], 1)
    assert published_files(lake.table) == committed_files(lake.table)


@pytest.mark.parametrize("fault", [Reset.AFTER, Truncate(300), Truncate(700)], ids=str)
def test_winners_are_read_to_the_end_however_often_an_answer_breaks(
    delta_spark: Reader, lake: Lake, fault: Fault
) -> None:
    append(lake.table, 4)
    with S3Proxy(("127.0.0.1", lake.page.port)).running() as proxy:
        proxy.fail(fault, lambda access: access.key.endswith("/commits"), times=3)
        assert delta_spark.run(lake.write(1, "late", lake.settings(proxy.endpoint))).startswith(ALREADY)
    assert published_files(lake.table) == committed_files(lake.table)


def test_a_mirror_that_publishes_the_version_first_is_no_conflict(
    delta_spark: Reader, lake: Lake, sqlite_lake: str
) -> None:
    inline = Settings(mirror=MirrorSettings(inline=True, inline_timeout=60.0))
    with Catalog(sqlite_lake, settings=inline) as quick, served(quick) as page:  # it publishes before it answers
        assert delta_spark.run(lake.write(1, "a", lake.settings(page.url))) == ""
    assert lake.table.info().published == 1
    assert_in_step(lake.page.catalog, lake.table)


def test_drivers_that_race_lose_no_commit_and_double_none(delta_spark: Reader, lake: Lake) -> None:
    info, *_ = commit_lines().decode().splitlines()
    commits = [[info.replace("WRITE", f"WRITE {driver}.{n}") for n in range(3)] for driver in range(3)]
    own = threading.Thread(target=append, args=(lake.table, 3))
    own.start()
    won = delta_spark.run(LogStoreRace(lake.settings(), f"file:{lake.log}", commits))
    own.join()
    operations = {entry.version: entry.operation for entry in lake.table.history()}
    sent = {msgspec.json.decode(line)["commitInfo"]["operation"] for lines in commits for line in lines}
    assert sorted(operations[version] or "" for versions in won for version in versions) == sorted(sent)
    assert lake.table.info().head == 12
    assert_in_step(lake.page.catalog, lake.table)


def test_a_server_that_is_away_or_refuses_leaves_nothing_behind(delta_spark: Reader, lake: Lake) -> None:
    away = lake.settings("http://127.0.0.1:9/", retry_seconds=0)
    told = {
        "gave no answer for 0 s: it cannot be reached. Nothing was written": away,
        "refused (403): the token job-": lake.settings(tables="other.*"),
        "refused (401): a token is needed": {**lake.settings(), "deltamirror.token": "dm_0"},
        "The setting spark.hadoop.deltamirror.server is missing": {**lake.settings(), "deltamirror.server": ""},
        "is not an address such as https://": {**lake.settings(), "deltamirror.server": "mirror:1"},
        "There is no token for deltamirror": {**lake.settings(), "deltamirror.token": ""},
    }
    for message, settings in told.items():
        answer = delta_spark.run(lake.write(1, "a", settings))
        assert answer.startswith(REFUSED), answer
        assert message in answer
    assert "version 9 was asked for, but the next version is 1" in delta_spark.run(lake.write(9, "a"))
    lake.page.catalog.pause("t")
    assert "Table t of deltamirror is paused" in delta_spark.run(lake.write(1, "a"))
    assert lake.table.info().head == 0
    assert list(published_files(lake.table)) == [commit_name(0)]


def test_a_commit_of_another_writer_in_the_way_is_not_overwritten(delta_spark: Reader, lake: Lake) -> None:
    writer, foreign = writer_of(lake.page), lake.log / commit_name(2)
    assert delta_spark.run(lake.write(1, "a")) == ""
    foreign.write_bytes(commit_lines("foreign"))
    assert writer.commit("t", 2, commit_lines("ours")).status == 201  # the server looked past the head before
    answer = delta_spark.run(lake.write(2, "late"))
    assert "holds another commit than version 2 of table t in SQL" in answer
    assert foreign.read_bytes() == commit_lines("foreign")


@pytest.mark.elsewhere  # test_log_store has the LogStore on S3, and the job below commits there
def test_a_stock_job_on_s3_commits_beside_our_own_writers(
    delta_spark: Reader, sqlite_lake: str, s3_bucket: str, s3_settings: StorageSettings
) -> None:
    location = f"s3://{s3_bucket}/orders"
    with Catalog(sqlite_lake, settings=Settings(storage=s3_settings)) as catalog:
        orders = catalog.create_table("orders", location=location, schema="id long, name string")
        with mirror_of(catalog, settings=Settings(storage=s3_settings)) as engine:
            engine.run(once=True)
            assert delta_spark.snapshot(location, store=s3_settings).version == 0
            name = f"delta.`s3a://{s3_bucket}/orders`"
            with served(catalog) as page:
                token = page.token("job", Right.WRITE)
                job = job_settings(page.url, token, f"s3a://{s3_bucket}/")
                orders.append(pa.table({"id": [1], "name": ["python"]}))
                delta_spark.run(StockJob(job, [f"INSERT INTO {name} VALUES (2, 'b')"]))
                delta_spark.run(StockJob(job, [f"DELETE FROM {name} WHERE id = 1"]))
            engine.run(once=True)
            [status] = engine.status("orders")
        assert (status.state, status.published, status.failed) == ("active", 3, 0)
        assert orders.to_arrow().to_pylist() == [{"id": 2, "name": "b"}]


def test_a_job_that_may_not_write_to_the_log_commits_by_a_server_that_puts_the_objects(
    delta_spark: Reader, sqlite_lake: str, s3_bucket: str, s3_settings: StorageSettings, s3_proxy: S3Proxy
) -> None:
    s3_proxy.fail(Answer(403, "AccessDenied"), _writes_to_a_log, times=None)
    hadoop = S3Access.of(s3_proxy.settings(s3_settings)).hadoop(s3_bucket)
    with Catalog(sqlite_lake, settings=Settings(storage=s3_settings)) as catalog:
        orders = catalog.create_table("orders", location=f"s3://{s3_bucket}/orders", schema="id long")
        with served(catalog, settings=Settings(storage=s3_settings), publish=True) as page:
            job = job_settings(page.url, page.token("job", Right.WRITE), f"s3a://{s3_bucket}/")
            name = f"delta.`s3a://{s3_bucket}/orders`"
            statements = [f"INSERT INTO {name} VALUES (1), (2)", f"UPDATE {name} SET id = 3 WHERE id = 1"]
            assert not isinstance(delta_spark.run(StockJob({**hadoop, **job}, statements)), str)
            orders.append(pa.table({"id": [4]}))  # in SQL alone, when the job goes on
            counted = delta_spark.run(
                StockJob({**hadoop, **job}, [f"DELETE FROM {name} WHERE id = 2", f"SELECT * FROM {name}"])
            )
        assert sorted(row["id"] for row in counted) == [3, 4]
        assert orders.info().published == orders.info().head == 4
        assert not any(access.status == 200 for access in s3_proxy.log if _writes_to_a_log(access))
        store = store_at(orders.location, s3_settings)
        for name, data in committed_files(orders).items():
            put = store.read(f"{LOG_DIRECTORY}/{name}")
            assert (put and put.data) == data, name


def _writes_to_a_log(access: Access) -> bool:
    return access.method in ("PUT", "POST", "DELETE") and f"/{LOG_DIRECTORY}/" in access.key
