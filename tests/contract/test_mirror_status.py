"""How far the mirror is can be seen at any time, and whoever waits for commits is told of them."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltamirror import Catalog
from deltamirror.errors import NotFound
from deltamirror.txnlog.queue.backlog import request_checkpoint
from deltamirror.txnlog.queue.pause import pause_all, resume_all
from deltamirror.txnlog.queue.status import all_status, published_version
from deltamirror.work import CheckpointOutcome, Failure, Lane, Stage
from tests.support.databases.emptied import lake_url_of
from tests.support.lakes.lake import add, create, execute, opened
from tests.support.mirrors.claims import claimed, failed, published, record, status_of, work_on, write_checkpoint

pytestmark = [pytest.mark.requirement("R27"), pytest.mark.default_on("sqlite", "postgresql")]

COMMIT = """
import sys
from deltamirror import Add, Catalog
with Catalog(sys.argv[1]) as catalog:
    file = Add(path="theirs", partition_values={}, size=1, modification_time=1, data_change=True)
    print(catalog.table("t").append([file]).versions["t"])
"""


def counted(catalog: Catalog, state: str) -> dict[str, int]:
    """What direct SQL counts."""
    rows = execute(
        catalog,
        "SELECT t.name, count(*) FROM dl_mirror_status s JOIN dl_tables t ON t.table_id = s.table_id"
        " WHERE s.state = :state AND t.name IS NOT NULL GROUP BY t.name",
        state=state,
    )
    return {row[0]: row[1] for row in rows}


def statuses(catalog: Catalog) -> dict[str, object]:
    with catalog.database.read() as connection:
        return {each.name: each for each in all_status(connection)}


def test_a_table_that_is_published_has_no_lag(catalog: Catalog) -> None:
    table = create(catalog)
    table.append([add("a")])
    work_on(catalog)
    found, info = status_of(catalog), table.info()
    assert (found.table_id, found.name, found.location, found.state) == (info.id, "t", info.location, "active")
    assert (found.head, found.head_timestamp, found.published) == (1, info.head_timestamp, 1)
    assert (found.lag_versions, found.lag_ms, found.pending, found.failed) == (0, 0, 0, 0)
    assert (found.error, found.checkpoint, found.checkpoint_error) == (None, None, None)


def test_who_is_at_work_is_shown_until_the_lease_ends(catalog: Catalog) -> None:
    table = create(catalog)
    [found] = claimed(catalog, owner="host:7:abc")
    [lease] = status_of(catalog).leases
    assert (lease.lane, lease.owner) == ("commits", "host:7:abc")
    assert 0 < lease.since < lease.until
    assert record(catalog, published(found.lease, 0)).held
    assert status_of(catalog).leases == ()
    table.append([add("a")])
    assert claimed(catalog, owner="host:8:def", seconds=0)
    assert status_of(catalog).leases == ()


def test_the_lag_is_the_age_of_the_oldest_version_that_is_not_published(catalog: Catalog) -> None:
    table = create(catalog)
    table.append([add("a")])
    table.append([add("b")])
    found = status_of(catalog)
    assert (found.published, found.lag_versions) == (None, 3)
    work_on(catalog, upto=0)
    hour = 3_600_000
    execute(catalog, "UPDATE dl_table_versions SET committed_at = committed_at - :hour WHERE version = 1", hour=hour)
    found = status_of(catalog)
    assert (found.published, found.lag_versions) == (0, 2)
    assert hour <= found.lag_ms < 2 * hour


@pytest.mark.default_on("sqlite")
def test_a_clock_that_ran_ahead_shows_no_lag_of_zero_while_versions_wait(catalog: Catalog) -> None:
    create(catalog).append([add("a")])
    work_on(catalog, upto=0)
    ahead, back = "committed_at = committed_at + 3600000", "published_at = published_at - 60000"
    execute(catalog, f"UPDATE dl_table_versions SET {ahead} WHERE version = 1")
    assert status_of(catalog).lag_ms > 0
    execute(catalog, f"UPDATE dl_mirror_status SET {back} WHERE version = 0")
    assert status_of(catalog).lag_ms >= 60_000


@pytest.mark.default_on("sqlite", "postgresql")
def test_during_an_outage_the_numbers_equal_a_direct_count(catalog: Catalog) -> None:
    for number, name in enumerate(("a", "b", "c", "dropped")):
        table = create(catalog, name)
        for turn in range(number + 2):
            table.append([add(f"{turn}")])
    work_on(catalog, "a")
    work_on(catalog, "b", upto=1)
    for found in claimed(catalog):
        first = found.published + 1
        record(catalog, failed(found.lease, first) if found.name != "c" else failed(found.lease, first + 1, first))
    catalog.drop_table("dropped", unpublished=True)
    with catalog.database.read() as connection:
        found_all = all_status(connection)
    assert [each.name for each in found_all] == ["a", "b", "c"]
    assert {each.name: each.pending for each in found_all if each.pending} == counted(catalog, "PENDING")
    assert {each.name: each.failed for each in found_all if each.failed} == counted(catalog, "FAILED")
    assert {each.name: each.failed for each in found_all} == {"a": 0, "b": 1, "c": 1}
    assert all(each.pending + each.failed == each.lag_versions for each in found_all)
    assert [each.error and each.error.version for each in found_all] == [None, 2, 1]
    assert all(status_of(catalog, each.name).failed == each.failed for each in found_all)


def test_the_last_error_says_what_where_and_what_happens_next(catalog: Catalog) -> None:
    create(catalog)
    for _ in range(2):
        [found] = claimed(catalog)
        record(catalog, failed(found.lease, 0), wait=0)
    error = status_of(catalog).error
    assert error is not None
    assert (error.version, error.code, error.message) == (0, "unavailable", "the store is away")
    assert (error.stage, error.key, error.attempts) == ("put", "0", 2)
    assert error.at == error.next_attempt_at
    work_on(catalog)
    assert status_of(catalog).error is None


def test_the_newest_checkpoint_is_shown_and_why_the_next_is_not_there(catalog: Catalog) -> None:
    table = create(catalog)
    for number in range(3):
        table.append([add(f"{number}")])
    work_on(catalog)
    for version in (1, 2):
        with catalog.database.write() as session:
            request_checkpoint(session, table.info().id, version, reason="a test")
        if version == 1:
            write_checkpoint(catalog, version)
    [found] = claimed(catalog, lane=Lane.CHECKPOINTS)
    failure = Failure(error=NotFound("no bucket"), stage=Stage.POINTER, version=2, key="_last_checkpoint")
    record(catalog, CheckpointOutcome(table_id=found.table_id, lease=found.lease, version=2, failure=failure))
    shown = status_of(catalog)
    assert shown.checkpoint is not None
    assert (shown.checkpoint.version, shown.checkpoint.num_bytes) == (1, 1234)
    assert shown.checkpoint_error is not None
    assert (shown.checkpoint_error.version, shown.checkpoint_error.code) == (2, "not-found")
    assert (shown.checkpoint_error.stage, shown.checkpoint_error.attempts) == ("pointer", 1)
    with catalog.database.write() as session:
        request_checkpoint(session, table.info().id, 2, reason="a test")
    write_checkpoint(catalog, 2)
    shown = status_of(catalog)
    assert (shown.checkpoint and shown.checkpoint.version, shown.checkpoint_error) == (2, None)


@pytest.mark.requirement("R33")
@pytest.mark.default_on("sqlite")
def test_a_pause_is_shown_be_it_of_one_table_or_of_all(catalog: Catalog) -> None:
    for name in ("a", "b"):
        create(catalog, name)
    catalog.pause("a", unpublished=True)
    assert [status_of(catalog, name).state for name in ("a", "b")] == ["paused", "active"]
    pause_all(catalog.database)
    assert [status_of(catalog, name).state for name in ("a", "b")] == ["paused", "paused"]
    resume_all(catalog.database)
    assert [status_of(catalog, name).state for name in ("a", "b")] == ["paused", "active"]


@pytest.mark.default_on("sqlite")
def test_a_table_that_is_not_there_has_no_status(catalog: Catalog) -> None:
    assert statuses(catalog) == {}
    with pytest.raises(NotFound, match="no table 'ghost'"):
        status_of(catalog, "ghost")


@pytest.mark.default_on("sqlite", "postgresql")
def test_how_far_a_table_is_published_is_cheap_to_ask(catalog: Catalog) -> None:
    table_id = create(catalog).info().id
    seen = []
    for _ in range(2):
        with catalog.database.read() as connection:
            seen.append(published_version(connection, table_id))
        if len(seen) == 1:
            work_on(catalog)
    assert seen == [-1, 0]


def test_waiting_for_commits_ends_when_it_is_stopped(catalog: Catalog) -> None:
    create(catalog)
    stop = threading.Event()
    catalog.database.wait_for_commits(0, stop)  # where there is something to connect to, it is connected
    waiting = threading.Thread(target=catalog.database.wait_for_commits, args=(3600, stop))
    waiting.start()
    stop.set()
    waiting.join(60)
    assert not waiting.is_alive()


@pytest.fixture
def postgres_lake_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return lake_url_of("postgresql", request, tmp_path)


@pytest.fixture
def postgres_lake(postgres_lake_url: str) -> Iterator[Catalog]:
    with opened(postgres_lake_url) as catalog:
        yield catalog


def wait_in_thread(catalog: Catalog) -> threading.Thread:
    """A thread that waits for commits, for an hour if need be."""
    waiting = threading.Thread(target=catalog.database.wait_for_commits, args=(3600, threading.Event()), daemon=True)
    waiting.start()
    return waiting


def listen(catalog: Catalog) -> None:
    """Hear what was said before, and what is kept back."""
    for _ in range(3):
        catalog.database.wait_for_commits(0.3, threading.Event())


@pytest.mark.postgres
@pytest.mark.parametrize("how", ["append", "transaction", "create", "resume", "resume all"])
def test_whoever_listens_is_told_of_commits(postgres_lake: Catalog, postgres_lake_url: str, how: str) -> None:
    create(postgres_lake)
    listen(postgres_lake)
    waiting = wait_in_thread(postgres_lake)
    with opened(postgres_lake_url) as writer:
        match how:
            case "append":
                writer.table("t").append([add("a")])
            case "transaction":
                writer.table("t").append([add("a")], token="through the general path")
            case "create":
                create(writer, "other")
            case "resume":
                writer.resume("t")
            case _:
                resume_all(writer.database)
    waiting.join(60)
    assert not waiting.is_alive()


@pytest.mark.postgres
def test_a_listener_that_lost_its_connection_hears_again(postgres_lake: Catalog) -> None:
    table = create(postgres_lake)
    listen(postgres_lake)
    waiting = wait_in_thread(postgres_lake)
    execute(
        postgres_lake,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'LISTEN deltamirror'"
        " AND datname = current_database()",
    )
    waiting.join(60)
    assert not waiting.is_alive()
    listen(postgres_lake)
    waiting = wait_in_thread(postgres_lake)
    table.append([add("a")])
    waiting.join(60)
    assert not waiting.is_alive()


@pytest.mark.postgres
def test_a_commit_does_not_fail_because_nobody_can_be_told(
    postgres_lake: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(postgres_lake)
    monkeypatch.setattr("deltamirror.txnlog.database.engines.postgresql.NOTIFY", "SELECT no_such_function()")
    monkeypatch.setattr("deltamirror.txnlog.database.engines.notices._SILENCE", -1.0)
    assert [table.append([add(f"{n}")]).versions["t"] for n in range(3)] == [1, 2, 3]
    assert not postgres_lake.database.announce()


def test_a_duckdb_file_that_is_let_go_is_free_for_others_and_opens_again(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = lake_url_of("duckdb", request, tmp_path)
    with opened(url) as catalog:
        table = create(catalog)
        work_on(catalog)
        assert status_of(catalog).lag_versions == 0
        assert table.append([add("ours")]).versions == {"t": 1}
        assert catalog.database.let_go()
        command = [sys.executable, "-c", COMMIT, url]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert (done.stdout, done.stderr) == ("2\n", "")
        assert table.append([add("ours-again")]).versions == {"t": 3}
        assert status_of(catalog).lag_versions == 3


def test_a_duckdb_file_is_not_let_go_by_one_thread_while_another_writes(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with opened(lake_url_of("duckdb", request, tmp_path)) as catalog:
        with catalog.database.write():
            assert not catalog.database.let_go()
        assert catalog.database.let_go()


def test_a_database_in_memory_is_never_let_go() -> None:
    with opened("duckdb:///:memory:") as catalog:
        catalog.init()
        assert not catalog.database.let_go()
        assert catalog.tables() == []
