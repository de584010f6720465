"""Commits that executors cannot fetch: jobs carry them, each a bounded part, in order and without a gap.

The executors' side of each job runs in this process.
"""

import pickle
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deltamirror import Catalog, Table
from deltamirror.config import Settings
from deltamirror.errors import Diverged, Unavailable
from deltamirror.pipeline.run.spark import executor
from deltamirror.pipeline.run.spark.carrying import publish_in_a_row
from deltamirror.pipeline.run.spark.jobs import Task
from deltamirror.pipeline.run.spark.runner import SparkRunner
from deltamirror.pipeline.run.spark.sharing import unit_bytes
from deltamirror.work import CheckpointUnit, CommitOutcome, CommitUnit, Failure, Outcome, Published, Stage, Unit
from tests.support.lakes.lake import add
from tests.support.logs.commit_units import commit_key, unit_of, work_of
from tests.support.mirrors.local import append, committed_files, log_of, make_table, mirror_of, published_files

pytestmark = pytest.mark.requirement("R24")


class Jobs(SparkRunner):
    """Jobs whose executors are this process; ``before`` is told of each, and may raise."""

    def __init__(
        self, catalog: Catalog, *, largest: int, before: Callable[[list[Unit]], None] = lambda _: None
    ) -> None:
        super().__init__(Settings(), catalog.database, largest=largest)
        self.made: list[list[Unit]] = []
        self.at_the_driver: list[Unit] = []
        self._before = before
        run = self._here.run

        def run_here(units: Sequence[Unit]) -> Generator[list[Outcome]]:
            self.at_the_driver.extend(units)
            return run(units)

        self._here.run = run_here  # type: ignore[method-assign]  # of this one object

    def job(self, items: Sequence[bytes], task: Task) -> Iterator[list[bytes]]:
        """What the executors hand back."""
        job = [pickle.loads(item) for item in items]  # noqa: S301  we wrote it
        self._before(job)
        self.made.append(job)
        for answer in task(iter(items)):
            yield [answer]

    @property
    def versions(self) -> list[list[int]]:
        """The versions that each job has put."""
        units = [unit for job in self.made for unit in job if isinstance(unit, CommitUnit)]
        return [[work.version for work in unit.commits] for unit in units]

    def sizes(self) -> list[int]:
        """How many bytes each job carried."""
        return [sum(map(unit_bytes, job)) for job in self.made]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    executor._resources.cache_clear()
    executor._settings.cache_clear()
    with Catalog(f"sqlite:///{tmp_path / 'lake.db'}") as catalog:
        catalog.init()
        yield catalog
    executor._resources.cache_clear()
    executor._settings.cache_clear()


@pytest.fixture
def table(catalog: Catalog, tmp_path: Path) -> Table:
    """Seven versions, from 0 to 6."""
    table = make_table(catalog, tmp_path)
    append(table, 6)
    return table


def two_of(table: Table) -> int:
    """So many bytes that a job carries the first version, or two others."""
    sizes = [len(data) for data in committed_files(table).values()]
    return max(sizes[0], 2 * max(sizes[1:]))


def checksums(table: Table) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in log_of(table).glob("*.crc")}


@contextmanager
def no_checkpoints(catalog: Catalog, runner: SparkRunner) -> Iterator[Any]:
    with mirror_of(catalog, runner=runner, checkpoint_enabled=False) as engine:
        yield engine


def test_a_unit_that_no_job_carries_is_published_by_executors_load_by_load(catalog: Catalog, table: Table) -> None:
    runner = Jobs(catalog, largest=two_of(table))
    with no_checkpoints(catalog, runner) as engine:
        engine.run(once=True)
    assert published_files(table) == committed_files(table)
    assert [version for some in runner.versions for version in some] == list(range(7))
    assert len(runner.made) > 3
    assert max(runner.sizes()) <= two_of(table)
    assert runner.at_the_driver == []


def test_checksums_go_on_from_load_to_load(catalog: Catalog, table: Table, tmp_path: Path) -> None:
    with no_checkpoints(catalog, Jobs(catalog, largest=two_of(table))) as engine:
        engine.run(once=True)
    in_loads = checksums(table)
    assert len(in_loads) == 7
    twin = make_table(catalog, tmp_path, "twin")
    append(twin, 6)
    with mirror_of(catalog, checkpoint_enabled=False) as engine:
        engine.run(once=True)
    assert in_loads.keys() == checksums(twin).keys()


def test_nothing_is_put_behind_a_version_that_fails_in_the_middle(catalog: Catalog, table: Table) -> None:
    log_of(table).mkdir(parents=True)
    (log_of(table).parent / commit_key(4)).write_bytes(b"somebody else's\n")
    runner = Jobs(catalog, largest=two_of(table))
    with no_checkpoints(catalog, runner) as engine, pytest.raises(Diverged):
        engine.mirror("t")
    assert sorted(published_files(table)) == [f"{version:020d}.json" for version in range(5)]
    assert table.info().published == 3
    assert max(map(max, runner.versions)) == max(next(some for some in runner.versions if 4 in some))


def test_a_spark_that_goes_away_between_two_loads_leaves_no_gap_and_the_next_pass_goes_on(
    catalog: Catalog, table: Table
) -> None:
    def gone(job: list[Unit]) -> None:
        if any(work.version == 5 for unit in job for work in unit.commits):
            raise Unavailable("Spark has ended")

    runner = Jobs(catalog, largest=two_of(table), before=gone)
    with no_checkpoints(catalog, runner) as engine, pytest.raises(Unavailable):
        engine.run(once=True)
    left = sorted(published_files(table))
    assert 0 < len(left) < 6
    assert left == [f"{version:020d}.json" for version in range(len(left))]
    with no_checkpoints(catalog, Jobs(catalog, largest=two_of(table))) as engine:
        engine.run(once=True)
    assert published_files(table) == committed_files(table)


def test_one_commit_that_no_job_carries_is_put_by_the_driver_in_its_turn(catalog: Catalog, table: Table) -> None:
    table.append([add(f"large-{number}.parquet") for number in range(40)])
    append(table, 2, prefix="after")
    runner = Jobs(catalog, largest=max(len(data) for data in list(committed_files(table).values())[:7]))
    with no_checkpoints(catalog, runner) as engine:
        engine.run(once=True)
    assert published_files(table) == committed_files(table)
    [large] = runner.at_the_driver
    assert [work.version for work in large.commits] == [7]
    assert [work.chunks for work in large.commits] == [None]
    assert [version for some in runner.versions for version in some] == [0, 1, 2, 3, 4, 5, 6, 8, 9]


@pytest.mark.parametrize("fits", [True, False])
def test_a_checkpoint_is_built_by_an_executor_if_a_job_carries_its_commits(
    catalog: Catalog, table: Table, *, fits: bool
) -> None:
    everything = sum(len(data) for data in committed_files(table).values())
    runner = Jobs(catalog, largest=everything if fits else everything - 1)
    with mirror_of(catalog, runner=runner, checkpoint_interval=6) as engine:
        engine.run(once=True)
    assert (log_of(table) / "_last_checkpoint").exists()
    by_executors = [unit for job in runner.made for unit in job if isinstance(unit, CheckpointUnit)]
    assert (len(by_executors), len(runner.at_the_driver)) == ((1, 0) if fits else (0, 1))


def commits(*versions: int) -> Sequence[Any]:
    return [work_of(version, b'{"commitInfo":{}}\n') for version in versions]


def outcome_of(unit: CommitUnit, *, most: int = 9, **fields: Any) -> CommitOutcome:
    done = (Published(version=work.version, already=False, num_bytes=1, milliseconds=1.0) for work in unit.commits)
    return CommitOutcome(table_id=unit.table_id, lease=unit.lease, published=tuple(done)[:most], **fields)


def test_every_load_follows_on_the_one_before_it() -> None:
    seen: list[CommitUnit] = []

    def run(unit: CommitUnit) -> CommitOutcome:
        seen.append(unit)
        return outcome_of(unit, checksum=b"%d" % unit.commits[-1].version if unit.commits[-1].version < 5 else None)

    whole = unit_of(commits(3, 4, 5, 6), follows=commit_key(2), checksum=b"2", checksums=True)
    outcome = publish_in_a_row(whole, [commits(3, 4), commits(5), commits(6)], run)
    assert [each.version for each in outcome.published] == [3, 4, 5, 6]
    assert [unit.follows for unit in seen] == [commit_key(2), commit_key(4), commit_key(5)]
    assert [(unit.checksum, unit.checksums) for unit in seen] == [(b"2", True), (b"4", True), (None, False)]
    assert outcome.checksum is None


def test_a_row_ends_with_the_budget_and_tells_when_each_version_was_put() -> None:
    now, budgets = 100.0, list[float]()

    def run(unit: CommitUnit) -> CommitOutcome:
        nonlocal now
        budgets.append(unit.budget)
        now += 4.0
        return outcome_of(unit)

    whole = unit_of(commits(0, 1, 2, 3), budget=8.0)
    outcome = publish_in_a_row(whole, [commits(0), commits(1), commits(2), commits(3)], run, clock=lambda: now)
    assert budgets == [8.0, 4.0]
    assert [(each.version, each.age) for each in outcome.published] == [(0, 4_000.0), (1, 0.0)]


@pytest.mark.parametrize("failure", [None, Failure(error=Unavailable("x"), stage=Stage.PUT, version=1)])
def test_a_load_of_which_not_all_is_published_is_the_last(failure: Failure | None) -> None:
    ran: list[CommitUnit] = []

    def run(unit: CommitUnit) -> CommitOutcome:
        ran.append(unit)
        short = len(ran) == 2
        return outcome_of(unit, most=0 if short else 9, failure=failure if short else None, checksum=b"crc")

    outcome = publish_in_a_row(unit_of(commits(0, 1, 2)), [commits(0), commits(1), commits(2)], run)
    assert len(ran) == 2
    assert [each.version for each in outcome.published] == [0]
    assert (outcome.failure, outcome.checksum) == (failure, b"crc")
