"""What every runner does, with real stores and real servers: in-process, and on each kind of Spark."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deltamirror import Catalog, Table
from deltamirror.config import StorageSettings
from deltamirror.errors import DeltaMirrorError, Diverged, Internal, InvalidLocation, Unavailable
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.open import store_at
from deltamirror.txnlog.queue.backlog import commit_work, with_chunks
from deltamirror.txnlog.queue.claims import Claim, claim
from deltamirror.txnlog.queue.leases import release
from deltamirror.work import CheckpointOutcome, CommitOutcome, CommitUnit, Lane, Lease, Outcome, Stage
from tests.support.databases.emptied import lake_url_of
from tests.support.lakes.lake import add
from tests.support.logs.checkpoints import STORY, commit, file, first_commit
from tests.support.logs.checkpoints import unit_of as checkpoint_of
from tests.support.logs.commit_units import commit_key, log_of, work_of
from tests.support.spark.runners import Rig

HISTORY = [first_commit(), *STORY]
NO_SETTINGS = StorageSettings()
NEAR = pytest.mark.default_on("process", "local")
"""What does not depend on how executors are reached."""
REMOTE = pytest.mark.default_on("process", "connect")
"""What depends on a driver that has neither keys nor Java; a cluster shows what depends on executors of their own."""


def unit_at(location: object, commits: Sequence[bytes] = HISTORY, *, number: int = 1, **fields: Any) -> CommitUnit:
    """A unit that carries the first commits of a table."""
    lease = Lease(table_id=number, lane=Lane.COMMITS, owner="test", epoch=1, held_until=time.time() + 600)
    return CommitUnit(
        table_id=number,
        table=f"t{number}",
        address=StoreAddress.of(str(location), fields.pop("settings", NO_SETTINGS)),
        lease=fields.pop("lease", lease),
        commits=tuple(work_of(version, data) for version, data in enumerate(commits)),
        **fields,
    )


def published(location: object, settings: StorageSettings = NO_SETTINGS) -> list[bytes]:
    """The commits that a log holds, in order."""
    log = log_of(store_at(str(location), settings))
    return [data for key, data in sorted(log.items()) if key.endswith(".json")]


def by_table(outcomes: Sequence[Outcome]) -> dict[int, CommitOutcome]:
    found = {outcome.table_id: outcome for outcome in outcomes if isinstance(outcome, CommitOutcome)}
    assert len(found) == len(outcomes)
    return found


def versions(outcome: Outcome) -> list[int]:
    assert isinstance(outcome, CommitOutcome)
    return [each.version for each in outcome.published]


def stage_and_error(outcome: Outcome) -> tuple[Stage, DeltaMirrorError]:
    assert outcome.failure is not None
    return outcome.failure.stage, outcome.failure.error


@pytest.mark.default_on("process", "local", "connect")
@pytest.mark.requirement("R2")
def test_every_unit_is_published_and_has_its_outcome(any_rig: Rig, tmp_path: Path) -> None:
    outcomes = by_table(any_rig.run([unit_at(tmp_path / str(number), number=number) for number in range(12)]))
    assert sorted(outcomes) == list(range(12))
    for number, outcome in outcomes.items():
        assert outcome.failure is None
        assert versions(outcome) == [0, 1, 2, 3]
        assert outcome.checksum is not None
        assert published(tmp_path / str(number)) == HISTORY
        assert outcome.stages is not None
        assert outcome.stages.upload > 0


@NEAR
def test_what_is_published_already_is_found_again(any_rig: Rig, tmp_path: Path) -> None:
    """The second job meets workers that the first one used."""
    unit = unit_at(tmp_path / "t")
    for already in (False, True):
        (outcome,) = any_rig.run([unit])
        assert isinstance(outcome, CommitOutcome)
        assert [each.already for each in outcome.published] == [already] * 4


@REMOTE
def test_units_are_published_to_s3_with_the_executors_own_keys(
    any_rig: Rig, s3_bucket: str, s3_settings: StorageSettings
) -> None:
    places = [f"s3://{s3_bucket}/lake/{number}" for number in range(3)]
    units = [unit_at(place, number=number, settings=s3_settings) for number, place in enumerate(places)]
    assert [outcome.failure for outcome in any_rig.run(units)] == [None] * 3
    # Clients of stores do not survive a fork: workers that used them are used again, and others are forked beside them.
    for outcomes in any_rig.run_at_once([[unit] for unit in units]):
        assert [outcome.failure for outcome in outcomes] == [None]
    assert [published(place, s3_settings) for place in places] == [HISTORY] * 3


@NEAR
def test_a_poisoned_unit_harms_no_other(any_rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "a-file").write_text("in the place of a folder")
    store_at(str(tmp_path / "diverged"), NO_SETTINGS).create(commit_key(1), b"somebody else's\n")
    down = StorageSettings(
        endpoint="http://127.0.0.1:1", allow_http=True, region="nowhere", connect_timeout=1, timeout=2, retries=0
    )
    damaged = unit_at(tmp_path / "damaged", number=4)
    [chunk, *_] = damaged.commits[2].chunks or ()
    broken = replace(damaged.commits[2], chunks=(replace(chunk, data=b"{}\n"),))
    units = [
        unit_at(tmp_path / "good", number=0),
        unit_at(tmp_path / "a-file", number=1),
        unit_at("s3://bucket/down", number=2, settings=down),
        unit_at(tmp_path / "diverged", number=3),
        replace(damaged, commits=(*damaged.commits[:2], broken, *damaged.commits[3:])),
        unit_at(tmp_path / "good-too", number=5),
    ]
    outcomes = by_table(any_rig.run(units))

    assert {number for number, outcome in outcomes.items() if outcome.failure is None} == {0, 5}
    assert published(tmp_path / "good") == published(tmp_path / "good-too") == HISTORY
    assert [(stage, type(error)) for stage, error in map(stage_and_error, (outcomes[n] for n in (1, 2, 3, 4)))] == [
        (Stage.OPEN, InvalidLocation),
        (Stage.OPEN, Unavailable),
        (Stage.PUT, Diverged),
        (Stage.CHECK, Internal),
    ]
    assert (versions(outcomes[3]), versions(outcomes[4])) == ([0], [0, 1])
    _, diverged = stage_and_error(outcomes[3])
    assert isinstance(diverged, Diverged)
    assert (diverged.table, diverged.version, diverged.key) == ("t3", 1, commit_key(1))
    assert diverged.hint


@pytest.mark.default_on("process", "local", "connect")  # whose messages have a largest size
@pytest.mark.requirement("R31")
@pytest.mark.parametrize("megabytes", [20, 26], ids=["by-the-job", "more-than-a-job-carries"])
def test_a_large_commit_arrives_whole(any_rig: Rig, tmp_path: Path, megabytes: int) -> None:
    # Random: what compresses would be no load.
    large = commit(*(file(os.urandom(250_000).hex(), stats=None) for _ in range(megabytes * 2)))
    history = [first_commit(), large]
    (outcome,) = any_rig.run([unit_at(tmp_path / "t", history, checksums=False)])
    assert outcome.failure is None
    assert published(tmp_path / "t") == history


@NEAR
def test_jobs_run_at_once_and_leave_each_other_alone(any_rig: Rig, tmp_path: Path) -> None:
    jobs = [[unit_at(tmp_path / f"{job}-{unit}", number=unit) for unit in range(3)] for job in range(4)]
    for outcomes in any_rig.run_at_once(jobs):
        assert sorted(by_table(outcomes)) == [0, 1, 2]
    assert all(published(folder) == HISTORY for folder in tmp_path.iterdir())


@NEAR
@pytest.mark.requirement("R24")
def test_nothing_is_put_when_the_time_of_the_lease_is_over(any_rig: Rig, tmp_path: Path) -> None:
    over = Lease(table_id=1, lane=Lane.COMMITS, owner="test", epoch=1, held_until=time.time() - 1)
    (outcome,) = any_rig.run([unit_at(tmp_path / "t", lease=over)])
    assert (outcome.failure, versions(outcome)) == (None, [])
    assert published(tmp_path / "t") == []


@NEAR
@pytest.mark.requirement("R9")
def test_checkpoints_are_units_too(any_rig: Rig, tmp_path: Path) -> None:
    address = StoreAddress.of(str(tmp_path / "t"), NO_SETTINGS)
    wanted = replace(checkpoint_of(HISTORY), address=address)
    (without_json,) = any_rig.run([wanted])
    assert without_json.failure is not None

    any_rig.run([unit_at(tmp_path / "t")])
    (outcome,) = any_rig.run([wanted])
    assert isinstance(outcome, CheckpointOutcome)
    assert outcome.failure is None
    written = log_of(store_at(str(tmp_path / "t"), NO_SETTINGS))
    assert f"_delta_log/{outcome.name}" in written
    assert "_delta_log/_last_checkpoint" in written


@NEAR
def test_an_executor_that_cannot_ask_the_database_says_what_to_set(any_rig: Rig, tmp_path: Path) -> None:
    unit = unit_at(tmp_path / "t")
    bare = replace(unit, commits=tuple(replace(work, chunks=None) for work in unit.commits))
    (outcome,) = any_rig.run([bare])
    stage, error = stage_and_error(outcome)
    assert stage is Stage.FETCH
    assert "DELTAMIRROR_CATALOG__URL" in error.hint


class Lake:
    """Tables in PostgreSQL, and the units of what they committed."""

    def __init__(self, catalog: Catalog, folder: Path) -> None:
        self.catalog = catalog
        self.tables = [self._table(folder, number) for number in range(3)]

    def _table(self, folder: Path, number: int) -> Table:
        table = self.catalog.create_table(f"t{number}", location=str(folder / f"t{number}"), schema="id long")
        for version in range(1, 4):
            with self.catalog.transaction() as tx:
                tx.append(table.name, [add(f"f{version}.parquet")])
        return table

    def claimed(self) -> list[Claim]:
        return claim(self.catalog.database, lane=Lane.COMMITS, owner="test", seconds=600, limit=10)

    def units(self, claims: Sequence[Claim], *, carried: bool) -> list[CommitUnit]:
        with self.catalog.database.read() as connection:
            units = []
            for each in claims:
                work = commit_work(connection, each.table_id, first=0, last=each.head)
                work = with_chunks(connection, work) if carried else work
                unit = unit_at(each.location, (), number=each.table_id, lease=each.lease, checksums=False)
                units.append(replace(unit, commits=tuple(work)))
            return units

    def committed(self) -> list[list[bytes]]:
        return [[table.commit_file(version) for version in range(4)] for table in self.tables]


@pytest.fixture
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    with Catalog(lake_url_of("postgresql", request, tmp_path)) as catalog:
        yield Lake(catalog, tmp_path / "lake")


@pytest.mark.default_on("process", "standalone")  # executors that share nothing with the driver
@pytest.mark.postgres
@pytest.mark.parametrize("carried", [False, True], ids=["fetched", "carried"])
def test_commits_are_fetched_from_postgresql_where_they_are_needed(any_rig: Rig, lake: Lake, *, carried: bool) -> None:
    outcomes = any_rig.run(lake.units(lake.claimed(), carried=carried), fetches=not carried)
    assert [outcome.failure for outcome in outcomes] == [None] * 3
    assert [published(table.location) for table in lake.tables] == lake.committed()


@pytest.mark.default_on("process", "standalone")
@pytest.mark.postgres
@pytest.mark.requirement("R24")
def test_the_database_is_asked_before_each_put_whose_the_table_is(any_rig: Rig, lake: Lake) -> None:
    first, lost, _ = claims = lake.claimed()
    release(lake.catalog.database, [lost.lease])
    outcomes = by_table(any_rig.run(lake.units(claims, carried=False), fetches=True))
    assert (outcomes[lost.table_id].failure, versions(outcomes[lost.table_id])) == (None, [])
    assert published(lost.location) == []
    assert versions(outcomes[first.table_id]) == [0, 1, 2, 3]
