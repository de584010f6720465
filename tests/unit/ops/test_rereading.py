"""Every version has its turn once in a period, whenever the looks come, and few have it together."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.ops.reconcile.rereading import Rereading

PERIOD = 30 * 24 * 60 * 60 * 1000
NOW = 1_790_000_000_000


def due(after: int, upto: int, *, table: int = 1, versions: int = 1_000) -> set[int]:
    rereading = Rereading(table_id=table, after=after, upto=upto, period=PERIOD)
    return {version for version in range(versions) if rereading.is_due(version)}


@given(
    looks=st.lists(st.integers(NOW, NOW + PERIOD), max_size=20),
    table=st.integers(1, 2**63 - 1),
    version=st.integers(0, 2**40),
)
def test_each_version_has_one_turn_in_a_period_however_the_looks_fall_four_times_in_it_or_more(
    looks: list[int], table: int, version: int
) -> None:
    times = sorted([*looks, *range(NOW, NOW + PERIOD + 1, PERIOD // 4)])
    turns = [
        Rereading(table_id=table, after=after, upto=upto, period=PERIOD).is_due(version)
        for after, upto in pairwise(times)
    ]
    assert turns.count(True) == 1


@pytest.mark.parametrize("pause", [PERIOD // 3, PERIOD, 100 * PERIOD])
def test_after_a_long_pause_one_look_reads_about_a_quarter_and_the_rest_follows(pause: int) -> None:
    at_once = due(NOW - pause, NOW, versions=20_000)
    assert 0.2 < len(at_once) / 20_000 < 0.3
    later = [due(NOW + at, NOW + at + PERIOD // 4, versions=20_000) for at in range(0, 3 * PERIOD // 4, PERIOD // 4)]
    assert at_once.union(*later) == set(range(20_000))


@pytest.mark.parametrize("back", [0, 1_000])
def test_none_is_due_where_no_time_has_passed(back: int) -> None:
    assert due(NOW, NOW - back) == set()


def test_the_turns_of_a_log_are_spread_over_the_period() -> None:
    day = PERIOD // 30
    counts = [len(due(NOW + at, NOW + at + day, versions=20_000)) for at in range(0, PERIOD, day)]
    assert sum(counts) == 20_000
    assert max(counts) < 2 * 20_000 / 30


def test_the_turns_of_small_logs_are_spread_over_the_period() -> None:
    day = PERIOD // 30
    counts = [
        sum(bool(due(NOW + at, NOW + at + day, table=table, versions=1)) for table in range(1_000))
        for at in range(0, PERIOD, day)
    ]
    assert sum(counts) == 1_000
    assert max(counts) < 2 * 1_000 / 30
