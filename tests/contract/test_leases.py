"""A table is mirrored by one service at a time, and no service that died keeps a table for long."""

import json
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from sqlalchemy import event

from deltamirror import Catalog
from deltamirror.config import Switch
from deltamirror.errors import LeaseLost, NotFound
from deltamirror.steps import Step
from deltamirror.txnlog.queue.backlog import request_checkpoint
from deltamirror.txnlog.queue.claims import Claim, claim, overdue
from deltamirror.txnlog.queue.expected_objects import comparisons
from deltamirror.txnlog.queue.leases import held_for, release, renew, take, under
from deltamirror.txnlog.queue.pause import is_paused, pause_all, resume_all
from deltamirror.work import Lane, Lease
from tests.support.databases.catalogs import ENGINES
from tests.support.databases.emptied import lake_url_of
from tests.support.lakes.lake import add, create, execute, opened
from tests.support.mirrors.claims import HOUR, claimed, failed, published, record, work_on, write_checkpoint

pytestmark = pytest.mark.default_on("sqlite", "postgresql")
"""Every statement of a claim, and every race, is on DuckDB as well: those tests say so."""

ROOT = Path(__file__).parents[2]

CLAIM = """
import json, sys
from deltamirror import Catalog
from deltamirror.txnlog.queue.claims import claim
from deltamirror.work import Lane
with Catalog(sys.argv[1]) as catalog:
    sys.stdin.readline()
    found = claim(catalog.database, lane=Lane.COMMITS, owner=sys.argv[2], seconds=3600, limit=int(sys.argv[3]))
    print(json.dumps([each.name for each in found]))
"""


def names(claims: Iterable[Claim]) -> list[str]:
    return sorted(each.name for each in claims)


def held(catalog: Catalog, lease: Lease) -> bool:
    return held_for(catalog.database, lease) > 0


def expire_all(catalog: Catalog) -> None:
    execute(catalog, "UPDATE dl_leases SET expires_at = 1")


def ask_for_checkpoint(catalog: Catalog, table_id: int, version: int) -> None:
    with catalog.database.write() as session:
        request_checkpoint(session, table_id, version, reason="a test")


@pytest.mark.default_on(*ENGINES)
def test_a_claim_tells_what_is_needed_to_plan(catalog: Catalog) -> None:
    table = create(catalog)
    table.append([add("a")])
    [found] = claim(catalog.database, lane=Lane.COMMITS, owner="me", seconds=60, limit=5, now=lambda: 1000.0)
    info = table.info()
    assert found == Claim(
        lease=Lease(table_id=info.id, lane=Lane.COMMITS, owner="me", epoch=1, held_until=1060.0),
        name="t",
        location=info.location,
        head=1,
        published=-1,
        log_start=0,
    )
    assert held(catalog, found.lease)


@pytest.mark.default_on(*ENGINES)
def test_a_table_is_claimed_by_one(catalog: Catalog) -> None:
    create(catalog)
    [mine] = claimed(catalog)
    assert claimed(catalog, owner="you") == []
    assert claimed(catalog, owner="you", table_ids=[mine.table_id]) == []


@pytest.mark.default_on(*ENGINES)
def test_a_lease_that_expired_is_anybodys_and_no_longer_its_owners(catalog: Catalog) -> None:
    create(catalog)
    [mine] = claimed(catalog, seconds=0)
    assert not held(catalog, mine.lease)
    assert renew(catalog.database, [mine.lease], seconds=HOUR) == []
    [yours] = claimed(catalog, owner="you")
    assert yours.lease.epoch == mine.lease.epoch + 1
    release(catalog.database, [mine.lease])
    assert held(catalog, yours.lease)


def test_every_claim_has_an_epoch_of_its_own_also_by_the_same_owner(catalog: Catalog) -> None:
    create(catalog)
    epochs = []
    for _ in range(3):
        [found] = claimed(catalog)
        epochs.append(found.lease.epoch)
        expire_all(catalog)
    assert epochs == [1, 2, 3]


def test_a_lease_that_is_given_back_is_free_at_once(catalog: Catalog) -> None:
    create(catalog)
    [mine] = claimed(catalog)
    release(catalog.database, [mine.lease])
    assert not held(catalog, mine.lease)
    assert names(claimed(catalog, owner="you")) == ["t"]


@pytest.mark.default_on(*ENGINES)
def test_renewing_holds_leases_for_longer_and_tells_which_are_lost(catalog: Catalog) -> None:
    for name in ("kept", "lost"):
        create(catalog, name)
    leases = {each.name: each.lease for each in claimed(catalog, seconds=60)}
    execute(catalog, "UPDATE dl_leases SET epoch = 9 WHERE table_id = :id", id=leases["lost"].table_id)
    [before] = execute(catalog, "SELECT expires_at FROM dl_leases WHERE epoch = 1")
    [kept] = renew(catalog.database, leases.values(), seconds=HOUR, now=lambda: 500.0)
    assert (kept.table_id, kept.epoch, kept.held_until) == (leases["kept"].table_id, 1, 500.0 + HOUR)
    [after] = execute(catalog, "SELECT expires_at FROM dl_leases WHERE epoch = 1")
    assert after[0] > before[0]
    assert held(catalog, kept)


def test_what_is_published_is_not_claimed(catalog: Catalog) -> None:
    table = create(catalog)
    work_on(catalog)
    assert claimed(catalog) == []
    table.append([add("a")])
    [found] = claimed(catalog)
    assert (found.published, found.head) == (0, 1)


def test_the_tables_that_wait_longest_come_first(catalog: Catalog) -> None:
    for name in ("c", "a", "b"):
        create(catalog, name)
    work_on(catalog, "c")
    catalog.table("c").append([add("file")])
    assert names(claimed(catalog, limit=2)) == ["a", "b"]
    assert names(claimed(catalog, limit=2)) == ["c"]


@pytest.mark.requirement("R21")
def test_a_checkpoint_that_was_tried_goes_behind_the_others_though_nobody_knows_what_came_of_it(
    catalog: Catalog,
) -> None:
    for name in ("a", "b"):
        create(catalog, name)
        work_on(catalog, name)
        ask_for_checkpoint(catalog, catalog.table(name).info().id, 0)
    seen = []
    for moment in range(4_000_000_000_000, 4_000_000_000_004):
        [found] = claimed(catalog, lane=Lane.CHECKPOINTS, limit=1)
        seen.append(found.name)
        release(catalog.database, [found.lease])
        execute(catalog, f"UPDATE dl_leases SET claimed_at = {moment} WHERE table_id = {found.table_id}")
    assert seen == ["a", "b", "a", "b"]


@pytest.mark.default_on(*ENGINES)
def test_a_store_can_be_left_out(catalog: Catalog) -> None:
    for name, location in {"a": "/nowhere/one/a", "b": "/nowhere/one-more/b", "c": "/nowhere/other/c"}.items():
        catalog.create_table(name, location=location, schema="id long")
    found = claim(
        catalog.database,
        lane=Lane.COMMITS,
        owner="me",
        seconds=60,
        limit=9,
        except_stores=["file:///nowhere/one/", "file:///nowhere/other/"],
    )
    assert names(found) == ["b"]


def test_a_service_that_polls_builds_its_query_once(lake: Catalog) -> None:
    """To build it takes ten times as long as to run it, and an idle service does little else."""
    create(lake)
    claimed(lake, owner="other")
    queries: list[object] = []
    event.listen(lake.database.engine, "before_execute", lambda *args: queries.append(args[1]))
    for stores in ([], [], ["file:///nowhere/"], ["file:///nowhere/"]):
        found = claim(lake.database, lane=Lane.COMMITS, owner="me", seconds=60, limit=9, open_circuits=stores)
        assert found == []
    behind, first, same_behind, again, _, but_one, _, but_one_again = queries
    assert behind is same_behind
    assert first is again
    assert but_one is but_one_again is not first


def test_a_dropped_table_is_not_claimed(catalog: Catalog) -> None:
    create(catalog)
    catalog.drop_table("t", unpublished=True)
    assert claimed(catalog) == []


def test_work_on_a_dropped_table_ends_and_its_place_is_free_once_it_has(catalog: Catalog) -> None:
    """Whoever put one more object there would put it into the log of the next table."""
    location = create(catalog).info().location
    for lane in (Lane.COMMITS, Lane.CHECKPOINTS, Lane.RECONCILIATION, Lane.MAINTENANCE):
        table_id = catalog.table("t").info().id
        lease = take(catalog.database, table_id, lane=lane, owner="me", seconds=HOUR)
        assert lease is not None
        assert held(catalog, lease)
        catalog.drop_table("t", unpublished=True)
        assert not held(catalog, lease)
        assert renew(catalog.database, [lease], seconds=HOUR) == []
        with pytest.raises(NotFound, match="the table 't' was dropped"):
            take(catalog.database, table_id, lane=Lane.RECONCILIATION, owner="another", seconds=HOUR)
        with (
            pytest.raises(NotFound, match="the table 't' was dropped"),
            under(catalog.database, Step.RECORD_CLEANING, lease, seconds=HOUR),
        ):
            pytest.fail("it works on a table that is gone")
        with pytest.raises(LeaseLost, match="a process is still at work") as refused:
            catalog.create_table("t", location=location, schema="id long")
        assert refused.value.hint.startswith("try again")
        create(catalog, "elsewhere" + lane.value)
        release(catalog.database, [lease])
        catalog.create_table("t", location=location, schema="id long")


@pytest.mark.requirement("R33")
def test_a_paused_table_is_left_alone_until_it_is_resumed(catalog: Catalog) -> None:
    ids = {name: create(catalog, name).info().id for name in ("paused", "other")}
    work_on(catalog, "paused")
    ask_for_checkpoint(catalog, ids["paused"], 0)
    catalog.table("paused").append([add("a")])
    catalog.pause("paused", unpublished=True)
    assert names(claimed(catalog)) == ["other"]
    assert claimed(catalog, table_ids=[ids["paused"]]) == []
    assert claimed(catalog, lane=Lane.CHECKPOINTS) == []
    catalog.resume("paused")
    [found] = claimed(catalog)
    assert (found.name, found.published) == ("paused", 0)
    assert names(claimed(catalog, lane=Lane.CHECKPOINTS)) == ["paused"]


@pytest.mark.requirement("R33")
def test_all_tables_can_be_paused_and_resumed_at_once(catalog: Catalog) -> None:
    ids = [create(catalog, name).info().id for name in ("a", "b", "c")]
    catalog.pause("c", unpublished=True)
    for _ in range(2):
        pause_all(catalog.database)
    with catalog.database.read() as connection:
        assert is_paused(connection)
    catalog.table("a").append([add("file")])
    assert claimed(catalog) == []
    assert claimed(catalog, table_ids=ids) == []
    catalog.init()
    assert claimed(catalog) == []
    resume_all(catalog.database)
    with catalog.database.read() as connection:
        assert not is_paused(connection)
    assert names(claimed(catalog)) == ["a", "b"]


def test_a_version_that_failed_waits_for_its_time_unless_somebody_asks(catalog: Catalog) -> None:
    table = create(catalog)
    [found] = claimed(catalog)
    record(catalog, failed(found.lease, 0), wait=HOUR)
    table.append([add("a")])
    assert claimed(catalog) == []
    [asked] = claimed(catalog, table_ids=[found.table_id])
    record(catalog, failed(asked.lease, 0), wait=0)
    assert names(claimed(catalog)) == ["t"]


def test_commits_and_checkpoints_of_a_table_are_claimed_independently(catalog: Catalog) -> None:
    table = create(catalog)
    work_on(catalog)
    ask_for_checkpoint(catalog, table.info().id, 0)
    table.append([add("a")])
    [commits] = claimed(catalog, owner="me")
    [checkpoints] = claimed(catalog, lane=Lane.CHECKPOINTS, owner="you")
    assert (commits.checkpoint, checkpoints.checkpoint) == (-1, 0)
    assert held(catalog, commits.lease)
    assert held(catalog, checkpoints.lease)
    release(catalog.database, [commits.lease])
    assert held(catalog, checkpoints.lease)


@pytest.mark.default_on(*ENGINES)
def test_only_the_newest_checkpoint_is_written_and_never_ahead_of_its_commit(catalog: Catalog) -> None:
    table = create(catalog)
    for number in range(5):
        table.append([add(f"{number}")])
    work_on(catalog, upto=4)
    for version in (1, 3, 5):
        ask_for_checkpoint(catalog, table.info().id, version)
    assert claimed(catalog, lane=Lane.CHECKPOINTS)[0].checkpoint == 3
    expire_all(catalog)
    write_checkpoint(catalog, 3)
    rows = execute(catalog, "SELECT version, state FROM dl_checkpoints ORDER BY version")
    assert [tuple(row) for row in rows] == [(3, "SUCCESS"), (5, "PENDING")]
    assert claimed(catalog, lane=Lane.CHECKPOINTS) == []
    work_on(catalog)
    write_checkpoint(catalog, 5)


@pytest.mark.requirement("R16")
def test_a_checkpoint_that_is_superseded_while_it_waits_keeps_its_place_in_the_queue(catalog: Catalog) -> None:
    """Otherwise a table whose writer is ahead asks for a newer one before each turn, and never has a checkpoint."""
    for name in ("other", "busy"):
        table = create(catalog, name)
        table.append([add("a")])
        work_on(catalog, name)
    for moment, (name, version) in enumerate([("busy", 0), ("other", 1), ("busy", 1)], 4_000_000_000_000):
        own = catalog.table(name).info().id
        ask_for_checkpoint(catalog, own, version)
        when = f"UPDATE dl_checkpoints SET created_at = {moment} WHERE table_id = {own} AND version = {version}"
        execute(catalog, when)
    [first] = claimed(catalog, lane=Lane.CHECKPOINTS, limit=1)
    assert (first.name, first.checkpoint) == ("busy", 1)


def test_a_checkpoint_older_than_a_written_one_is_not_due(catalog: Catalog) -> None:
    table = create(catalog)
    table.append([add("a")])
    work_on(catalog)
    ask_for_checkpoint(catalog, table.info().id, 1)
    write_checkpoint(catalog, 1)
    ask_for_checkpoint(catalog, table.info().id, 0)
    assert claimed(catalog, lane=Lane.CHECKPOINTS) == []


@pytest.mark.default_on(*ENGINES)
def test_services_that_claim_at_once_get_tables_of_their_own(catalog: Catalog) -> None:
    for number in range(6):
        create(catalog, f"t{number}")
    barrier = Barrier(4)

    def claim_some(number: int) -> list[str]:
        barrier.wait()
        return names(claimed(catalog, owner=f"service {number}", limit=2))

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(claim_some, range(4)))
    taken = [name for some in found for name in some]
    assert sorted(len(some) for some in found) == [0, 2, 2, 2]
    assert len(set(taken)) == 6


@pytest.mark.default_on("sqlite")  # PostgreSQL has every session in a process of its own: threads show it
@pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def test_processes_that_claim_at_once_get_tables_of_their_own(engine: str, request: pytest.FixtureRequest) -> None:
    """DuckDB lets one process in at a time."""
    url = request.getfixturevalue("sqlite_lake" if engine == "sqlite" else "empty_postgres")
    with opened(url) as catalog:
        for number in range(12):
            create(catalog, f"t{number}")
    pipe = subprocess.PIPE
    running = [
        subprocess.Popen([sys.executable, "-c", CLAIM, url, f"service {n}", "5"], stdin=pipe, stdout=pipe, text=True)
        for n in range(3)
    ]
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    found = [json.loads(process.communicate(timeout=300)[0]) for process in running]
    taken = [name for some in found for name in some]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert sorted(map(len, found)) == [2, 5, 5]
    assert len(set(taken)) == 12


@pytest.fixture
def empty_postgres(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return lake_url_of("postgresql", request, tmp_path)


@pytest.mark.postgres
def test_mirroring_does_not_wait_for_writers_and_writers_do_not_wait_for_it(empty_postgres: str) -> None:
    with opened(empty_postgres) as catalog:
        info = create(catalog).info()
        with catalog.database.write() as writing:
            catalog.database.lock_head(writing, info.id)
            [found] = claimed(catalog)
            assert renew(catalog.database, [found.lease], seconds=HOUR)
            assert record(catalog, published(found.lease, 0)).published == 0
        with catalog.database.write() as claiming:
            claiming.lock_claims()
            assert catalog.table("t").append([add("a")]).versions == {"t": 1}


ALL_ON = Switch()


def age(catalog: Catalog) -> None:
    """Let an hour pass for everything that is recorded of commits and leases."""
    execute(catalog, "UPDATE dl_table_versions SET committed_at = committed_at - 3600000")
    execute(catalog, "UPDATE dl_mirror_status SET updated_at = updated_at - 3600000")
    execute(catalog, "UPDATE dl_mirror_status SET published_at = published_at - 3600000")
    execute(catalog, "UPDATE dl_leases SET claimed_at = claimed_at - 3600000")


def late(catalog: Catalog, switch: Switch = ALL_ON) -> list[tuple[str, int, str | None]]:
    with catalog.database.read() as connection:
        return [(each.name, each.version, each.owner) for each in overdue(connection, switch, seconds=60, limit=5)]


@pytest.mark.requirement("R64")
@pytest.mark.default_on(*ENGINES)
def test_commits_that_are_due_for_long_are_known_with_whoever_holds_their_table(catalog: Catalog) -> None:
    create(catalog)
    assert late(catalog) == []
    age(catalog)
    assert late(catalog) == [("t", 0, None)]
    [mine] = claimed(catalog)
    assert late(catalog) == []  # it has just been taken
    age(catalog)
    assert late(catalog) == [("t", 0, "me")]
    release(catalog.database, [mine.lease])
    assert late(catalog, Switch(default=False)) == []
    pause_all(catalog.database)
    assert late(catalog) == []


@pytest.mark.requirement("R64")
@pytest.mark.default_on(*ENGINES)
def test_how_long_ago_logs_were_compared_is_known(catalog: Catalog) -> None:
    with catalog.database.read() as connection:
        assert comparisons(connection, Switch()) is None
    table = create(catalog)
    execute(catalog, "UPDATE dl_tables SET created_at = created_at - 3600000")
    with catalog.database.read() as connection:
        assert min(comparisons(connection, Switch()) or ()) >= 3_600_000
        assert comparisons(connection, Switch(default=False)) is None  # there is no log to compare
    execute(catalog, f"INSERT INTO dl_reconciliations VALUES ({table.info().id}, 0, {10**15}, NULL)")
    with catalog.database.read() as connection:
        assert max(comparisons(connection, Switch()) or ()) < 0
