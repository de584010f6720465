"""Jobs share Spark: none takes the last slot of another, and none carries more than the JVM has room for."""

from contextlib import ExitStack
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.pipeline.spark.sharing import Shares, carried_bytes, packed
from deltamirror.work import CommitUnit
from tests.support.commit_units import unit_of, work_of


def unit(size: int) -> CommitUnit:
    return unit_of([work_of(0, b"x" * size)])


@given(jobs=st.integers(1, 8), spare=st.integers(0, 40), wanted=st.lists(st.integers(1, 64), min_size=1, max_size=8))
def test_every_job_that_may_run_has_a_slot_whatever_the_others_took(jobs: int, spare: int, wanted: list[int]) -> None:
    shares, slots = Shares(jobs), jobs + spare
    with ExitStack() as running:
        taken = [running.enter_context(shares.taken(slots, wanted=each)) for each in wanted[:jobs]]
    assert all(1 <= share <= each for share, each in zip(taken, wanted, strict=False))
    assert sum(taken) <= slots


def test_a_job_that_runs_alone_takes_all_but_one_slot_for_each_of_the_others() -> None:
    with Shares(5).taken(16, wanted=64) as share:
        assert share == 12


def test_slots_come_back_when_a_job_ends() -> None:
    shares = Shares(2)
    for _ in range(3):
        with shares.taken(8, wanted=64) as share:
            assert share == 7


def test_a_cluster_with_fewer_slots_than_jobs_still_works() -> None:
    shares = Shares(5)
    with shares.taken(2, wanted=8) as first, shares.taken(2, wanted=8) as second, shares.taken(2, wanted=8) as third:
        assert (first, second, third) == (1, 1, 1)


@given(st.lists(st.integers(1, 150), max_size=30))
def test_jobs_carry_what_they_can_and_every_unit_is_in_one_place(sizes: list[int]) -> None:
    units = [unit(size) for size in sizes]
    jobs, large = packed(units, largest=100)
    assert all(job and sum(map(carried_bytes, job)) <= 100 for job in jobs)
    assert [each for job in jobs for each in job] == [each for each in units if carried_bytes(each) <= 100]
    assert large == [each for each in units if carried_bytes(each) > 100]


@pytest.mark.parametrize("number", [1, 500])
def test_units_that_carry_nothing_are_one_job(number: int) -> None:
    bare = replace(unit(1), commits=tuple(replace(work, chunks=None) for work in unit(1).commits))
    jobs, large = packed([bare] * number)
    assert ([len(job) for job in jobs], large) == ([number], [])


def test_no_units_are_no_job() -> None:
    assert packed([]) == ([], [])
