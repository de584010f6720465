"""Jobs share Spark: none takes the last slot of another, and none carries more than the JVM has room for."""

import math
import pickle
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.batches import packed
from deltamirror.config import Settings
from deltamirror.errors import Unavailable
from deltamirror.pipeline.run.execution import failed
from deltamirror.pipeline.run.spark.executor import in_time
from deltamirror.pipeline.run.spark.runner import SparkRunner
from deltamirror.pipeline.run.spark.sharing import LARGEST, Shares, unit_bytes
from deltamirror.work import CommitUnit, Stage
from tests.support.logs.commit_units import unit_of, work_of


def unit(size: int) -> CommitUnit:
    return unit_of([work_of(0, b"x" * size)])


@given(jobs=st.integers(1, 8), spare=st.integers(0, 40), wanted=st.lists(st.integers(1, 64), min_size=1, max_size=8))
def test_every_job_that_may_run_has_a_slot_whatever_the_others_took(jobs: int, spare: int, wanted: list[int]) -> None:
    shares, slots = Shares(lambda: jobs), jobs + spare
    with ExitStack() as running:
        taken = [running.enter_context(shares.taken(slots, wanted=each)) for each in wanted[:jobs]]
    assert all(1 <= share <= each for share, each in zip(taken, wanted, strict=False))
    assert sum(taken) <= slots


def test_a_job_that_runs_alone_takes_all_but_one_slot_for_each_of_the_others() -> None:
    with Shares(lambda: 5).taken(16, wanted=64) as share:
        assert share == 12


def test_slots_come_back_when_a_job_ends() -> None:
    shares = Shares(lambda: 2)
    for _ in range(3):
        with shares.taken(8, wanted=64) as share:
            assert share == 7


def test_a_cluster_with_fewer_slots_than_jobs_still_works() -> None:
    shares = Shares(lambda: 5)
    with shares.taken(2, wanted=8) as first, shares.taken(2, wanted=8) as second, shares.taken(2, wanted=8) as third:
        assert (first, second, third) == (1, 1, 1)


@given(st.lists(st.integers(1, 100), max_size=30))
def test_jobs_carry_what_they_can_and_every_unit_is_in_one_of_them_in_order(sizes: list[int]) -> None:
    units = [unit(size) for size in sizes]
    jobs = list(packed(units, unit_bytes, 100))
    carried = [sum(map(unit_bytes, job)) for job in jobs]
    assert all(0 < size <= 100 for size in carried)
    assert [each for job in jobs for each in job] == units


@pytest.mark.parametrize("number", [1, 500])
def test_units_that_carry_nothing_are_one_job(number: int) -> None:
    bare = replace(unit(1), commits=tuple(replace(work, chunks=None) for work in unit(1).commits))
    assert [len(job) for job in packed([bare] * number, unit_bytes, LARGEST)] == [number]


def test_no_units_are_no_job() -> None:
    assert list(packed([], unit_bytes, LARGEST)) == []


def test_units_of_a_job_have_what_is_left_of_its_time_when_they_begin() -> None:
    times = iter([10.0, 10.0, 10.75, 15.0, 16.0])
    units = in_time(iter([unit_of([], budget=20.0)] * 4), 1.0, clock=lambda: next(times))
    assert [each.budget for each in units if isinstance(each, CommitUnit)] == [1.0, 0.25, 0.0, 0.0]


def test_only_units_that_share_a_job_are_cut() -> None:
    seconds: list[float] = []

    class Recorded(SparkRunner):
        def job(self, items: Sequence[bytes], task: Any) -> Iterator[list[bytes]]:
            seconds.append(task.keywords["seconds"])
            for item in items:
                sent = pickle.loads(item)  # noqa: S301  we wrote it
                yield [pickle.dumps(failed(sent, Unavailable("x"), Stage.PUT))]

    runner = Recorded(Settings())
    assert len(list(runner.run([unit(10), unit(10), unit(10)]))) == 3
    assert len(list(runner.run([unit(10)]))) == 1
    assert seconds == [1.0, math.inf]
