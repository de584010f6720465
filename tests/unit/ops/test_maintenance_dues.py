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
BOTH = MaintenanceSettings(optimize=True, vacuum=True)


def facts(**more: Any) -> TableFacts:
    return TableFacts(**{"at": NOW, "small_files": 0, "vacuumed_at": NOW, "head_at": NOW, "retention": WEEK, **more})


@pytest.mark.parametrize(
    ("measured", "chore"),
    [
        (facts(), None),
        (facts(small_files=99), None),
        (facts(small_files=100), Chore.OPTIMIZE),
        (facts(small_files=100, vacuumed_at=None), Chore.OPTIMIZE),
        (facts(small_files=100, resting=frozenset({Chore.OPTIMIZE})), None),
        (facts(small_files=100, vacuumed_at=None, resting=frozenset({Chore.OPTIMIZE})), Chore.VACUUM),
        (facts(vacuumed_at=None), Chore.VACUUM),
        (facts(vacuumed_at=None, resting=frozenset({Chore.VACUUM})), None),
        (facts(vacuumed_at=NOW - DAY + 1), None),
        (facts(vacuumed_at=NOW - DAY), Chore.VACUUM),
        (facts(vacuumed_at=NOW - DAY, head_at=NOW - DAY - WEEK), Chore.VACUUM),
        (facts(vacuumed_at=NOW - DAY, head_at=NOW - DAY - WEEK - 1), None),
    ],
)
def test_a_chore_is_due_by_what_was_measured(measured: TableFacts, chore: Chore | None) -> None:
    assert due(measured, BOTH) == chore


def test_nothing_is_due_that_settings_do_not_ask_for() -> None:
    pressing = facts(small_files=1_000_000, vacuumed_at=None)
    assert due(pressing, MaintenanceSettings()) is None
    assert due(pressing, replace(BOTH, optimize=False)) is Chore.VACUUM
    assert due(pressing, replace(BOTH, vacuum=False)) is Chore.OPTIMIZE
    assert due(facts(small_files=9), replace(BOTH, small_files=9)) is Chore.OPTIMIZE


def test_pauses_after_failures_grow_to_an_hour() -> None:
    assert [pause_after(attempts) for attempts in (1, 2, 3, 7, 1_000)] == [60, 120, 240, 3_600, 3_600]


@pytest.mark.parametrize(("percent", "rest"), [(100, 0), (50, 7), (10, 63), (1, 693)])
def test_work_has_its_share_of_the_time(percent: float, rest: float) -> None:
    assert rest_of_share(7, percent) == pytest.approx(rest)
