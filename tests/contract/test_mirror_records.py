"""What the mirror writes down happened, once, to whoever had the lease; what it reads was committed."""

import hashlib
import time
from dataclasses import replace
from typing import Any

import pytest

from deltamirror import Catalog, Table
from deltamirror.delta.chunks import commit_digest
from deltamirror.errors import PermissionDenied, Transient, Unavailable
from deltamirror.txnlog.queue.backlog import (
    bytes_between,
    checkpoint_facts,
    checksum_seed,
    commit_work,
    count_files,
    fetch_chunks,
    make_due,
    request_checkpoint,
    with_chunks,
    with_counts,
)
from deltamirror.txnlog.queue.claims import Claim
from deltamirror.txnlog.queue.leases import release
from deltamirror.txnlog.queue.outcomes import CommitRecord, Recorded, record_commits
from deltamirror.txnlog.queue.status import attempts
from deltamirror.txnlog.queue.waiting import Waiting, waiting_commits
from deltamirror.work import CheckpointOutcome, Failure, Lane, Stage
from tests.support.databases.catalogs import ENGINES
from tests.support.lakes.lake import add, create, execute, opened
from tests.support.mirrors.claims import (
    HOUR,
    claimed,
    failed,
    published,
    record,
    status_of,
    work_on,
    write_checkpoint,
)

pytestmark = [
    pytest.mark.requirement("R25"),
    pytest.mark.requirement("R26"),
    pytest.mark.default_on("sqlite", "postgresql"),
]


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """Versions 0 to 4."""
    made = create(catalog)
    for number in range(4):
        made.append([add(f"file{number}")])
    return made


def rows(catalog: Catalog, columns: str, source: str = "dl_mirror_status") -> list[tuple[Any, ...]]:
    return [tuple(row) for row in execute(catalog, f"SELECT {columns} FROM {source} ORDER BY version")]


def states(catalog: Catalog) -> list[str]:
    return [state for (state,) in rows(catalog, "state")]


def claimed_before(catalog: Catalog, *, seconds: int) -> None:
    """Let the claims be this much older."""
    execute(catalog, "UPDATE dl_leases SET claimed_at = claimed_at - :back", back=seconds * 1_000)


def ask_for_checkpoint(catalog: Catalog, version: int, reason: str = "a test") -> None:
    with catalog.database.write() as session:
        request_checkpoint(session, status_of(catalog).table_id, version, reason=reason)


def test_published_versions_become_success_all_at_once(catalog: Catalog, table: Table) -> None:
    [found] = claimed(catalog)
    assert record(catalog, published(found.lease, 0, 1, 2)) == Recorded(held=True, versions=3, published=2)
    assert states(catalog) == ["SUCCESS"] * 3 + ["PENDING"] * 2
    assert rows(catalog, "attempts, milliseconds, next_attempt_at, error_code")[:4] == [
        (1, 0, None, None),
        (1, 1, None, None),
        (1, 2, None, None),
        (0, None, None, None),
    ]
    times = rows(catalog, "published_at, updated_at")
    assert len({published_at for published_at, _ in times[:3]}) == 1
    assert all(published_at and updated_at for published_at, updated_at in times[:3])
    assert times[3][0] is None
    assert table.info().published == 2


def test_recording_gives_the_lease_back(catalog: Catalog, table: Table) -> None:
    [mine] = claimed(catalog)
    record(catalog, published(mine.lease, 0))
    [yours] = claimed(catalog, owner="you")
    assert (yours.published, yours.lease.epoch) == (0, 2)


def test_an_outcome_without_a_lease_changes_nothing(catalog: Catalog, table: Table) -> None:
    [mine] = claimed(catalog, seconds=0)
    [yours] = claimed(catalog, owner="you")
    late = failed(mine.lease, 2, 0, 1)
    before = rows(catalog, "*")
    assert record(catalog, late) == Recorded(held=False)
    assert rows(catalog, "*") == before
    assert table.info().published is None
    assert record(catalog, published(yours.lease, 0)).held


def test_a_lease_that_expired_but_is_nobody_elses_is_good_enough_to_record(catalog: Catalog, table: Table) -> None:
    [mine] = claimed(catalog, seconds=0)
    assert record(catalog, published(mine.lease, 0, 1)).published == 1


def test_an_outcome_that_is_recorded_twice_counts_once(catalog: Catalog, table: Table) -> None:
    [found] = claimed(catalog)
    outcome = failed(found.lease, 1, 0)
    assert record(catalog, outcome).held
    before = rows(catalog, "*"), rows(catalog, "*", "dl_mirror_attempts")
    assert record(catalog, outcome) == Recorded(held=False)
    assert (rows(catalog, "*"), rows(catalog, "*", "dl_mirror_attempts")) == before


def test_a_failure_says_why_and_when_it_is_tried_again(catalog: Catalog, table: Table) -> None:
    [found] = claimed(catalog)
    told = record(catalog, failed(found.lease, 2, 0, 1), wait=60)
    assert (told.held, told.versions, told.published, told.attempt) == (True, 2, 1, 1)
    assert states(catalog) == ["SUCCESS", "SUCCESS", "FAILED", "PENDING", "PENDING"]
    [failure] = execute(
        catalog,
        "SELECT attempts, error_code, error_message, error_stage, error_key, next_attempt_at - updated_at,"
        " published_at, next_attempt_at FROM dl_mirror_status WHERE version = 2",
    )
    assert tuple(failure) == (1, "unavailable", "the store is away", "put", "2", 60_000, None, told.retry_at)


def test_a_version_that_failed_becomes_success_and_its_attempts_are_kept(catalog: Catalog, table: Table) -> None:
    for _ in range(2):
        [found] = claimed(catalog)
        record(catalog, failed(found.lease, 0), wait=0)
    work_on(catalog)
    assert states(catalog) == ["SUCCESS"] * 5
    assert rows(catalog, "attempts, error_code, error_message, error_stage, error_key, next_attempt_at")[0] == (
        3, None, None, None, None, None,
    )  # fmt: skip
    with catalog.database.read() as connection:
        history = attempts(connection, found.table_id)
        assert attempts(connection, found.table_id, 0) == history
        assert attempts(connection, found.table_id, 1) == []
    assert [(each.version, each.attempt, each.epoch, each.outcome, each.error_code) for each in history] == [
        (0, 1, 1, "FAILED", "unavailable"),
        (0, 2, 2, "FAILED", "unavailable"),
        (0, 3, 3, "SUCCESS", None),
    ]
    assert all(0 < each.started_at <= each.ended_at for each in history)
    assert {(each.owner, each.lane) for each in history} == {("me", "commits")}


def test_success_is_final(catalog: Catalog, table: Table) -> None:
    work_on(catalog, upto=2)
    before = rows(catalog, "*")[:3]
    [found] = claimed(catalog)
    assert record(catalog, published(found.lease, 1, 2)) == Recorded(held=True, versions=0, published=2)
    [found] = claimed(catalog)
    record(catalog, failed(found.lease, 1))
    assert rows(catalog, "*")[:3] == before
    assert rows(catalog, "*", "dl_mirror_attempts") == []


def test_published_never_passes_a_gap_and_never_goes_back(catalog: Catalog, table: Table) -> None:
    [found] = claimed(catalog)
    assert record(catalog, published(found.lease, 1, 3)).published == -1
    assert states(catalog) == ["PENDING", "SUCCESS", "PENDING", "SUCCESS", "PENDING"]
    [found] = claimed(catalog)
    assert record(catalog, published(found.lease, 0)).published == 1
    [found] = claimed(catalog)
    assert record(catalog, published(found.lease)).published == 1
    [found] = claimed(catalog)
    assert record(catalog, published(found.lease, 2)).published == 3


def test_only_the_three_states_and_two_outcomes_exist(catalog: Catalog, table: Table) -> None:
    [found] = claimed(catalog)
    record(catalog, failed(found.lease, 0))
    ask_for_checkpoint(catalog, 0)
    for source, column in (
        ("dl_mirror_status", "state"),
        ("dl_checkpoints", "state"),
        ("dl_mirror_attempts", "outcome"),
    ):
        with pytest.raises(Transient):
            execute(catalog, f"UPDATE {source} SET {column} = 'DONE'")


@pytest.mark.parametrize("message", ["x" * 5000, "nul \x00 and half a character \ud800"])
def test_any_message_of_a_store_can_be_recorded(catalog: Catalog, table: Table, message: str) -> None:
    [found] = claimed(catalog)
    assert record(catalog, failed(found.lease, 0, error=Unavailable(message))).held
    [(stored,)] = execute(catalog, "SELECT error_message FROM dl_mirror_status WHERE version = 0")
    assert stored[:4] == message[:4]
    assert len(stored) == min(len(message), 2000)


def test_a_policy_may_say_never(catalog: Catalog, table: Table) -> None:
    [found] = claimed(catalog)
    outcome = failed(found.lease, 0, error=PermissionDenied("no"))
    record_commits(catalog.database, [CommitRecord(outcome)], retry=lambda _error, _attempts: float("inf"))
    assert claimed(catalog) == []
    make_due(catalog.database)
    assert claimed(catalog)
    assert states(catalog)[0] == "FAILED"


def test_the_newest_checksum_is_kept_for_the_next(catalog: Catalog, table: Table) -> None:
    def seeds() -> list[bytes | None]:
        with catalog.database.read() as connection:
            return [checksum_seed(connection, found.table_id, version) for version in range(4)]

    [found] = claimed(catalog)
    record(catalog, published(found.lease, 0, 1, checksum=b"first"))
    assert seeds() == [None, b"first", None, None]
    [found] = claimed(catalog)
    record(catalog, published(found.lease, 2))
    assert seeds() == [None, b"first", None, None]
    [found] = claimed(catalog)
    record(catalog, published(found.lease, 3, checksum=b"second"))
    assert seeds() == [None, None, None, b"second"]


def test_a_checkpoint_is_asked_for_with_the_version_that_makes_it_due(catalog: Catalog, table: Table) -> None:
    class Due:
        version, reason = 1, "interval of 1 versions"

    [found] = claimed(catalog)
    record_commits(catalog.database, [CommitRecord(published(found.lease, 0), Due())], retry=lambda *_: 0.0)
    assert rows(catalog, "version", "dl_checkpoints") == []
    [found] = claimed(catalog)
    record_commits(catalog.database, [CommitRecord(published(found.lease, 1), Due())], retry=lambda *_: 0.0)
    assert rows(catalog, "version, state, attempts, reason", "dl_checkpoints") == [
        (1, "PENDING", 0, "interval of 1 versions")
    ]


def test_a_checkpoint_that_is_written_is_recorded(catalog: Catalog, table: Table) -> None:
    work_on(catalog)
    ask_for_checkpoint(catalog, 4)
    assert write_checkpoint(catalog, 4) == Recorded(held=True, versions=1, published=4)
    assert rows(catalog, "state, attempts, name, num_rows, num_files, num_bytes, milliseconds", "dl_checkpoints") == [
        ("SUCCESS", 1, "00000000000000000004.checkpoint.parquet", 7, 5, 1234, 17)
    ]
    before = rows(catalog, "*", "dl_checkpoints")
    ask_for_checkpoint(catalog, 4, "another test")
    assert rows(catalog, "*", "dl_checkpoints") == before


def test_a_checkpoint_that_failed_waits_unless_somebody_asks_and_keeps_its_attempts(
    catalog: Catalog, table: Table
) -> None:
    work_on(catalog)
    ask_for_checkpoint(catalog, 4)
    [found] = claimed(catalog, lane=Lane.CHECKPOINTS)
    failure = Failure(error=Unavailable("away"), stage=Stage.BUILD, version=4, key="k")
    outcome = CheckpointOutcome(table_id=found.table_id, lease=found.lease, version=4, failure=failure)
    told = record(catalog, outcome, wait=60)
    assert (told.held, told.versions, told.published, told.attempt) == (True, 0, 4, 1)
    assert not record(catalog, outcome).held
    assert rows(catalog, "state, attempts, error_code, next_attempt_at - updated_at", "dl_checkpoints") == [
        ("FAILED", 1, "unavailable", 60_000)
    ]
    assert claimed(catalog, lane=Lane.CHECKPOINTS) == []
    ask_for_checkpoint(catalog, 4)
    write_checkpoint(catalog, 4)
    with catalog.database.read() as connection:
        history = attempts(connection, found.table_id)
    assert [(each.lane, each.attempt, each.outcome, each.error_stage) for each in history] == [
        ("checkpoints", 1, "FAILED", "build"),
        ("checkpoints", 2, "SUCCESS", None),
    ]


def test_an_unusable_base_is_never_built_on_again_and_the_checkpoint_is_due_at_once(
    catalog: Catalog, table: Table
) -> None:
    work_on(catalog)
    for version in (1, 3):
        ask_for_checkpoint(catalog, version)
        write_checkpoint(catalog, version, digest=b"digest of %d" % version)
    ask_for_checkpoint(catalog, 4)
    for unusable, left in ((3, 1), (1, None)):
        [found] = claimed(catalog, lane=Lane.CHECKPOINTS)
        with catalog.database.read() as connection:
            base = checkpoint_facts(connection, found.table_id, 4).base
        assert base is not None
        assert (base.version, base.digest) == (unusable, b"digest of %d" % unusable)
        outcome = CheckpointOutcome(
            table_id=found.table_id, lease=found.lease, version=4, base=unusable, base_unusable=True
        )
        assert record(catalog, outcome).versions == 0
        with catalog.database.read() as connection:
            base = checkpoint_facts(connection, found.table_id, 4).base
        assert (base and base.version) == left
    assert rows(catalog, "version, state", "dl_checkpoints") == [(1, "SUCCESS"), (3, "SUCCESS"), (4, "PENDING")]
    write_checkpoint(catalog, 4)


def test_the_facts_of_a_checkpoint_are_those_of_its_version(catalog: Catalog) -> None:
    table = create(catalog, properties={"delta.logRetentionDuration": "interval 1 days"})
    table.append([add("a"), add("b")])
    work_on(catalog)
    ask_for_checkpoint(catalog, 1)
    write_checkpoint(catalog, 1)
    table.alter(properties={"delta.logRetentionDuration": "interval 2 days"})
    table.remove(["a"])
    with catalog.database.read() as connection:
        facts = checkpoint_facts(connection, table.info().id, 3)
        first = checkpoint_facts(connection, table.info().id, 1)
    snapshots = {version: table.snapshot(version) for version in (1, 3)}
    assert (facts.protocol, facts.metadata) == (snapshots[3].protocol, snapshots[3].metadata)
    assert (facts.committed_at, facts.num_files) == (snapshots[3].timestamp, 1)
    assert facts.base is not None
    assert (facts.base.version, facts.base.committed_at) == (1, snapshots[1].timestamp)
    assert facts.base.metadata == snapshots[1].metadata != facts.metadata
    assert first.base is None


def test_the_files_of_every_version_are_counted_exactly(catalog: Catalog) -> None:
    table = create(catalog)
    files = [add(f"{number}") for number in range(6)]
    table.append(files)
    table.append([add("more")])
    table.remove(["0", "1"])
    table.append([files[0], files[2]])
    with catalog.transaction() as transaction:
        transaction.append("t", [add("3", size=7)])
        transaction.remove("t", ["4"])
    table.alter(properties={"a": "b"})
    wanted = [table.snapshot(version).count_files() for version in range(7)]
    assert wanted == [0, 6, 7, 5, 6, 5, 5]
    with catalog.database.read() as connection:
        table_id = table.info().id
        assert [count_files(connection, table_id, version) for version in range(7)] == wanted
        work = commit_work(connection, table_id, first=0, last=6)
        assert [each.num_files for each in with_counts(connection, work, before=0)] == wanted
        assert [each.num_files for each in with_counts(connection, work[3:], before=7)] == wanted[3:]


def test_a_commit_that_was_staged_is_counted_exactly(lake_url: str) -> None:
    with opened(lake_url, stage_above=5) as catalog:
        table = create(catalog)
        files = [add(f"{number}") for number in range(20)]
        table.append(files)
        table.append(files[:12])
        with catalog.transaction() as transaction:
            transaction.remove("t", [file.path for file in files[:10]])
        wanted = [0, 20, 20, 10]
        with catalog.database.read() as connection:
            work = commit_work(connection, table.info().id, first=0, last=3)
            assert [count_files(connection, table.info().id, version) for version in range(4)] == wanted
            assert [each.num_files for each in with_counts(connection, work, before=0)] == wanted


def test_work_carries_the_bytes_that_were_committed(lake_url: str) -> None:
    with opened(lake_url, stage_above=5) as catalog:
        table = create(catalog)
        table.append([add("a")])
        table.append(add(f"{number}") for number in range(50))
        history = {entry.version: entry for entry in catalog.table("t").history()}
        with catalog.database.read() as connection:
            work = commit_work(connection, table.info().id, first=1, last=9)
            carried = with_chunks(connection, work)
            fetched = [tuple(fetch_chunks(connection, each)) for each in work]
    assert [each.version for each in carried] == [1, 2]
    assert [each.chunks for each in work] == [None, None]
    assert [each.chunks for each in carried] == fetched
    assert len(fetched[1]) > 1
    for each in carried:
        assert each.chunks is not None
        data = b"".join(chunk.decoded() for chunk in each.chunks)
        assert (each.num_bytes, each.num_chunks) == (len(data), len(each.chunks))
        assert each.digest.hex() == history[each.version].digest
        assert each.committed_at == history[each.version].timestamp
        assert each.digest == commit_digest(chunk.digest for chunk in each.chunks)
    assert carried[0].digest == hashlib.sha256(fetched[0][0].data).digest()


def waiting(catalog: Catalog, *claims: Claim, most: int = 100) -> list[Waiting | None]:
    with catalog.database.read() as connection:
        found = waiting_commits(connection, claims, most=most)
    return [found.get(each.table_id) for each in claims]


def test_what_waits_is_known_with_the_bytes_since_the_last_checkpoint(catalog: Catalog, table: Table) -> None:
    sizes = [len(table.commit_file(version)) for version in range(5)]
    [found] = claimed(catalog)
    [first] = waiting(catalog, found, most=3)
    assert first is not None
    assert [each.version for each in first.commits] == [0, 1, 2]
    assert (first.follows, first.last_checkpoint, first.checksum) == (False, None, None)
    assert first.bytes_before == 0
    record(catalog, published(found.lease, 0, 1, 2, checksum=b"sum"))
    ask_for_checkpoint(catalog, 1)
    [found] = claimed(catalog)
    [then] = waiting(catalog, found)
    assert then is not None
    assert [each.version for each in then.commits] == [3, 4]
    assert (then.follows, then.last_checkpoint, then.checksum) == (True, 1, b"sum")
    assert then.began_at == table.history()[-2].timestamp
    assert then.bytes_before == sizes[2]
    with catalog.database.read() as connection:
        spans = [bytes_between(connection, table.info().id, *span) for span in ((-1, 4), (1, 2), (2, 2))]
    assert spans == [sum(sizes), sizes[2], 0]


def test_the_bytes_of_very_many_versions_are_not_summed_for_all_tables_at_once(catalog: Catalog, table: Table) -> None:
    [claim] = claimed(catalog)
    ask_for_checkpoint(catalog, 1)
    found = []
    for last in (1001, 1002):
        execute(catalog, f"UPDATE dl_tables SET published_version = {last}")
        found += waiting(catalog, claim)
    assert [each and each.bytes_before for each in found] == [sum(len(table.commit_file(n)) for n in (2, 3, 4)), None]


@pytest.mark.default_on(*ENGINES)
def test_tables_that_are_done_at_once_are_recorded_each_by_its_own_lease(catalog: Catalog) -> None:
    for name, count in (("a", 1), ("b", 3), ("c", 0), ("d", 1)):
        made = create(catalog, name)
        for number in range(count):
            made.append([add(f"file{number}")])
    claims = sorted(claimed(catalog, limit=10), key=lambda each: each.name)
    found = waiting(catalog, *claims)
    assert [None if each is None else [work.version for work in each.commits] for each in found] == [
        [0, 1],
        [0, 1, 2, 3],
        [0],
        [0, 1],
    ]
    release(catalog.database, [claims[3].lease])
    records = [
        CommitRecord(published(claim.lease, *range(claim.head + 1), checksum=claim.name.encode())) for claim in claims
    ]
    recorded = record_commits(catalog.database, records, retry=lambda *_: 0.0)
    assert [(each.held, each.versions, each.published) for each in recorded] == [
        (True, 2, 1),
        (True, 4, 3),
        (True, 1, 0),
        (False, 0, -1),
    ]
    assert [catalog.table(name).info().published for name in "abcd"] == [1, 3, 0, None]
    assert [each.name for each in claimed(catalog, limit=10)] == ["d"]


def test_a_version_is_published_when_it_was_put_and_not_when_its_unit_ended(catalog: Catalog, table: Table) -> None:
    [one] = claimed(catalog)
    claimed_before(catalog, seconds=120)
    outcome = published(one.lease, 0, 1, 2)
    ages = (90_000.0, 30_019.0, 19.9)  # what is called early looks as if it was touched since: cut, never raised
    aged = tuple(replace(each, age=age) for each, age in zip(outcome.published, ages, strict=True))
    record_commits(catalog.database, [CommitRecord(replace(outcome, published=aged))], retry=lambda *_: 0.0)
    times = [at for (at,) in rows(catalog, "published_at")[:3]]
    assert [times[2] - at for at in times] == [89_981, 30_000, 0]


@pytest.mark.requirement("R59")
def test_the_time_that_an_outcome_waits_to_be_recorded_does_not_make_its_versions_late(
    catalog: Catalog, table: Table
) -> None:
    [one] = claimed(catalog)
    claimed_before(catalog, seconds=120)
    waiting = replace(published(one.lease, 0), ended_at=time.time() - 60)
    recorded = record(catalog, waiting)
    [(published_at, updated_at)] = rows(catalog, "published_at, updated_at")[:1]
    assert updated_at - published_at >= 60_000
    assert recorded.visible_at == {0: published_at}


@pytest.mark.parametrize("ahead", [-HOUR, HOUR])
def test_no_clock_of_an_executor_puts_a_version_before_its_claim_or_after_its_record(
    catalog: Catalog, table: Table, ahead: float
) -> None:
    [one] = claimed(catalog)
    record(catalog, replace(published(one.lease, 0), ended_at=time.time() + ahead))
    [(published_at, updated_at)] = rows(catalog, "published_at, updated_at")[:1]
    [(claimed_at,)] = execute(catalog, "SELECT claimed_at FROM dl_leases")
    assert claimed_at <= published_at <= updated_at
