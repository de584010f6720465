"""What is due follows from what was measured and what settings ask for."""

from typing import Any

import pytest
from msgspec.structs import replace

from deltamirror.config import MaintenanceSettings
from deltamirror.ops.maintenance.dues import TableFacts, due, pause_after
from deltamirror.pipeline.service.pace import rest_of_share
from deltamirror.work import Chore

pytestmark = pytest.mark.requirement("R89")

DAY, WEEK = 86_400_000, 7 * 86_400_000
NOW = 1_800_000_000_000
ALL = MaintenanceSettings(optimize=True, vacuum=True, compact=True)
OPTIMIZE, VACUUM, COMPACT = Chore.OPTIMIZE, Chore.VACUUM, Chore.COMPACT


def facts(**more: Any) -> TableFacts:
    return TableFacts(**{"at": NOW, "small_files": 0, "vacuumed_at": NOW, "head_at": NOW, "retention": WEEK, **more})


@pytest.mark.parametrize(
    ("measured", "chores"),
    [
        (facts(), ()),
        (facts(small_files=99), ()),
        (facts(small_files=100), (OPTIMIZE,)),
        (facts(small_files=100, vacuumed_at=None, compactions=1), (OPTIMIZE, VACUUM, COMPACT)),
        (facts(small_files=100, resting=frozenset({OPTIMIZE})), ()),
        (facts(small_files=100, vacuumed_at=None, resting=frozenset({OPTIMIZE})), (VACUUM,)),
        (facts(vacuumed_at=None), (VACUUM,)),
        (facts(vacuumed_at=None, resting=frozenset({VACUUM})), ()),
        (facts(vacuumed_at=NOW - DAY + 1), ()),
        (facts(vacuumed_at=NOW - DAY), (VACUUM,)),
        (facts(vacuumed_at=NOW - DAY, head_at=NOW - DAY - WEEK), (VACUUM,)),
        (facts(vacuumed_at=NOW - DAY, head_at=NOW - DAY - WEEK - 1), ()),
        (facts(compactions=1), (COMPACT,)),
        (facts(compactions=1, resting=frozenset({COMPACT})), ()),
    ],
)
def test_chores_are_due_by_what_was_measured(measured: TableFacts, chores: tuple[Chore, ...]) -> None:
    assert due(measured, ALL) == chores


def test_nothing_is_due_that_settings_do_not_ask_for() -> None:
    pressing = facts(small_files=1_000_000, vacuumed_at=None, compactions=9)
    assert due(pressing, MaintenanceSettings()) == ()
    assert due(pressing, replace(ALL, optimize=False)) == (VACUUM, COMPACT)
    assert due(pressing, replace(ALL, vacuum=False)) == (OPTIMIZE, COMPACT)
    assert due(pressing, replace(ALL, compact=False)) == (OPTIMIZE, VACUUM)
    assert due(facts(small_files=9), replace(ALL, small_files=9)) == (OPTIMIZE,)


def test_pauses_after_failures_grow_to_an_hour() -> None:
    assert [pause_after(attempts) for attempts in (1, 2, 3, 7, 1_000)] == [60, 120, 240, 3_600, 3_600]


@pytest.mark.parametrize(("percent", "rest"), [(100, 0), (50, 7), (10, 63), (1, 693)])
def test_work_has_its_share_of_the_time(percent: float, rest: float) -> None:
    assert rest_of_share(7, percent) == pytest.approx(rest)
