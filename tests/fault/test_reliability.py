"""Where latency and correctness are at odds, lag grows and nothing else happens: afterwards the log is as ever."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import deltalake
import psycopg
import pytest
from msgspec.structs import replace
from sqlalchemy import text

from deltamirror import Catalog, Table
from deltamirror.config import StorageSettings
from deltamirror.delta.names import LOG_DIRECTORY
from deltamirror.errors import DeltaMirrorError, Unavailable
from deltamirror.storage.open import store_at
from tests.support.faults.rules import Delay
from tests.support.faults.s3_proxy import Access, S3Proxy, is_put
from tests.support.interfaces.commands import following, variables
from tests.support.lakes.lake import add, execute, info_of, opened, paths, settings_for
from tests.support.mirrors.local import append, committed_files, log_of, make_table, mirror_of, published_files
from tests.support.servers.postgres import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.requirement("R58"), pytest.mark.requirement("R92")]

HOUR = 3_600_000
CLOCK = """
CREATE SCHEMA watch;
CREATE TABLE watch.slow (milliseconds BIGINT NOT NULL);
INSERT INTO watch.slow VALUES (0);
CREATE FUNCTION watch.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
  $$ SELECT pg_catalog.clock_timestamp() - milliseconds * interval '1 millisecond' FROM watch.slow $$;
"""
SERVICE = {
    "DELTAMIRROR_MIRROR__RUNNER": "local",
    "DELTAMIRROR_MIRROR__POLL": "0.05",
    "DELTAMIRROR_MIRROR__RETRY_BASE": "0.1",
    "DELTAMIRROR_MIRROR__RETRY_MAX": "0.5",
    # What was under way when the database was gone is anybody's again after this.
    "DELTAMIRROR_MIRROR__LEASE": "1",
}


def states(catalog: Catalog) -> set[str]:
    return {state for (state,) in execute(catalog, "SELECT DISTINCT state FROM dl_mirror_status")}


class Watch:
    """The clock of one database, which can be set."""

    def __init__(self, url: str) -> None:
        self._url = url
        with psycopg.connect(url) as connection:
            connection.execute(CLOCK)
        self.url = f"{url}?options=-csearch_path%3Dwatch,pg_catalog,public"

    def set_back(self, milliseconds: int) -> None:
        with psycopg.connect(self._url) as connection:
            connection.execute("UPDATE watch.slow SET milliseconds = milliseconds + %s", [milliseconds])


@pytest.fixture
def watch(postgres_url: str) -> Watch:
    return Watch(postgres_url)


def test_a_clock_that_is_set_back_an_hour_delays_at_most(watch: Watch, tmp_path: Path) -> None:
    with Catalog(watch.url) as catalog:
        catalog.init()
        table = make_table(catalog, tmp_path, properties={"delta.checkpointInterval": "4"})
        append(table, 5)
        with mirror_of(catalog) as engine:
            engine.mirror("t", 3)
            [(before,)] = execute(catalog, "SELECT max(committed_at) FROM dl_table_versions")
            watch.set_back(HOUR)
            append(table, 5)
            assert engine.run(once=True).failures == []
        [(after,)] = execute(catalog, "SELECT max(committed_at) FROM dl_table_versions")
        # Time goes on from the last commit, a millisecond each, until the clock has caught up.
        assert before < after < before + HOUR
        times = [info_of(table, version)["inCommitTimestamp"] for version in range(11)]
        assert times == sorted(set(times))
        assert states(catalog) == {"SUCCESS"}
        assert published_files(table) == committed_files(table)
        read = deltalake.DeltaTable(log_of(table).parent)
        assert (read.version(), len(read.file_uris())) == (10, 10)
        assert (log_of(table) / "_last_checkpoint").exists()


def test_what_failed_before_the_clock_was_set_back_need_not_wait_for_its_time(watch: Watch, tmp_path: Path) -> None:
    with Catalog(watch.url) as catalog:
        catalog.init()
        table = make_table(catalog, tmp_path)
        log_of(table).parent.mkdir(parents=True)
        log_of(table).write_text("in the way")
        with mirror_of(catalog) as engine:
            assert engine.run(once=True).failures
        watch.set_back(HOUR)
        log_of(table).unlink()
        with mirror_of(catalog) as engine:
            assert engine.run(once=True).failures == []
        assert published_files(table) == committed_files(table)
        assert states(catalog) == {"SUCCESS"}


def objects(table: Table, storage: StorageSettings) -> dict[str, bytes]:
    store = store_at(table.location, storage)
    found = {meta.key: store.read(meta.key) for meta in store.list(LOG_DIRECTORY)}
    return {key.rpartition("/")[2]: each.data for key, each in found.items() if each and key.endswith(".json")}


@pytest.mark.elsewhere  # test_mirror_kill stops a mirror at any put; in the simulation puts arrive late, too
def test_a_service_that_sleeps_longer_than_its_lease_harms_nothing_when_it_wakes(
    postgres_url: str, tmp_path: Path, s3_proxy: S3Proxy, s3_bucket: str, s3_settings: StorageSettings
) -> None:
    storage = replace(s3_proxy.settings(s3_settings), retries=0)
    common = {
        **SERVICE,
        **variables(storage),
        "DELTAMIRROR_CATALOG__URL": postgres_url,
    }
    under_way = threading.Event()

    def first_put(access: Access) -> bool:
        meant = is_put(access) and access.key.endswith(f"{1:020}.json")
        if meant:
            under_way.set()
        return meant

    with Catalog(settings=replace(settings_for(postgres_url), storage=s3_settings)) as catalog:
        catalog.init()
        table = catalog.create_table("t", location=f"s3://{s3_bucket}/t", schema="id long")
        append(table, 4)
        # The put of version 1 is on its way for as long as its owner sleeps, and arrives after all.
        s3_proxy.fail(Delay(6.0), first_put, times=1)
        with following(folder=tmp_path, settings=common) as sleeper:
            assert under_way.wait(60)
            sleeper.process.send_signal(signal.SIGSTOP)
            with following(folder=tmp_path, settings=common) as other:
                catalog.wait_until_published({"t": 4}, seconds=60)
                [(owner,)] = execute(catalog, "SELECT owner FROM dl_leases WHERE lane = 'commits'")
                assert f":{other.process.pid}:" in owner
                sleeper.process.send_signal(signal.SIGCONT)
                append(table, 2)
                catalog.wait_until_published({"t": 6}, seconds=60)
                assert other.stop()[0] == 0
            # It goes on with what is left.
            append(table, 2)
            catalog.wait_until_published({"t": 8}, seconds=60)
            assert sleeper.stop()[0] == 0
        assert objects(table, s3_settings) == committed_files(table)
        assert states(catalog) == {"SUCCESS"}
    created = [access.key for access in s3_proxy.log if is_put(access) and access.status == 200]
    commits = [key for key in created if key.endswith(".json")]
    assert len(commits) == len(set(commits)), "a commit was put twice"


class Writers:
    """Threads that commit, each transaction under a token until it is committed, whatever the database does."""

    def __init__(self, url: str, tables: list[str], count: int) -> None:
        self.committed: set[str] = set()
        self.failures = 0
        self._url, self._tables = url, tables
        self._threads = [threading.Thread(target=self._write, args=[number], daemon=True) for number in range(count)]
        self._stop = threading.Event()

    def __enter__(self) -> "Writers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def wait_for(self, more: int) -> None:
        """Until so many more are committed."""
        goal = len(self.committed) + more
        self._wait(lambda: len(self.committed) >= goal, "nothing is committed any more")

    def wait_for_failure(self) -> None:
        """Until somebody notices that the database is away."""
        before = self.failures
        self._wait(lambda: self.failures > before, "the crash is not noticed")

    def _wait(self, is_so: Callable[[], bool], else_say: str) -> None:
        deadline = time.monotonic() + 60
        while not is_so():
            assert time.monotonic() < deadline, else_say
            self._stop.wait(0.01)

    def _write(self, number: int) -> None:
        with opened(self._url) as catalog:
            for turn in self._turns():
                name = f"w{number}-{turn}"
                self._commit(catalog, name)
                self.committed.add(name)

    def _turns(self) -> Iterator[int]:
        turn = 0
        while not self._stop.wait(0.02):
            yield turn
            turn += 1

    def _commit(self, catalog: Catalog, name: str) -> None:
        while True:
            try:
                with catalog.transaction(token=name) as transaction:
                    for table in self._tables:
                        transaction.append(table, [add(f"{name}.parquet")])
            except DeltaMirrorError:
                self.failures += 1
                time.sleep(0.05)
            else:
                return


def test_a_database_that_crashes_under_load_loses_nothing_and_nothing_is_published_twice(
    postgres_server: PostgresServer, postgres_url: str, tmp_path: Path
) -> None:
    names = ["t", "u"]
    with opened(postgres_url) as catalog:
        catalog.init()
        tables = [make_table(catalog, tmp_path, name) for name in names]
        settings = {**SERVICE, "DELTAMIRROR_CATALOG__URL": postgres_url}
        with following(folder=tmp_path, settings=settings) as service:
            with Writers(postgres_url, names, 3) as writers:
                writers.wait_for(10)
                postgres_server.crash()
                writers.wait_for_failure()
                postgres_server.start()
                writers.wait_for(10)
            heads = {table.name: table.info().head for table in tables}
            catalog.wait_until_published(heads, seconds=60)
            assert service.process.poll() is None
            assert service.stop()[0] == 0
        for table in tables:
            assert table.info().head == len(writers.committed)
            assert paths(table) == sorted(f"{name}.parquet" for name in writers.committed)
            assert published_files(table) == committed_files(table)
        assert states(catalog) == {"SUCCESS"}


def test_whoever_stands_still_with_a_table_locked_loses_it_to_those_who_wait(postgres_url: str, tmp_path: Path) -> None:
    settings = settings_for(postgres_url)
    hasty = replace(settings, catalog=replace(settings.catalog, busy_timeout=0.2))
    with opened(postgres_url) as waiting, Catalog(settings=hasty) as suspended:
        waiting.init()
        table = make_table(waiting, tmp_path)
        with suppress(Unavailable), suspended.database.write() as session:
            suspended.database.lock_head(session, table.info().id)
            table.append([add("after.parquet")])  # waits until the server has thrown the other one out
            with pytest.raises(Unavailable, match="idle"):
                session.execute(text("SELECT 1"))
        assert paths(table) == ["after.parquet"]
