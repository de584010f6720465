"""Random schedules of writers, services, faults, crashes, foreign objects and time keep every guarantee.

``python -m tests.simulation --seed N`` runs one of them again; ``make soak`` runs ten thousand.
"""

from collections.abc import Iterator

import pytest

from tests.simulation.__main__ import parts_of
from tests.simulation.plans import drawn
from tests.simulation.report import told
from tests.simulation.runs import Outcome, run
from tests.simulation.shrinking import shrunk
from tests.simulation.world import World

SCHEDULES = (*range(10), 15, 19)
"""As many as the default suite affords; the last two have an object that arrives late, and mounts that die amid a unit
of one of many tables."""


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World.open() as opened:
        yield opened


@pytest.fixture(scope="module")
def outcomes(world: World) -> list[Outcome]:
    return [run(world, drawn(seed)) for seed in SCHEDULES]


@pytest.mark.requirement("R29")
@pytest.mark.requirement("R92")
@pytest.mark.requirement("R93")
def test_every_guarantee_holds_after_every_step(world: World, outcomes: list[Outcome]) -> None:
    failed = next((outcome for outcome in outcomes if outcome.failure), None)
    assert failed is None, told(world, failed)


@pytest.mark.parametrize("seed", [1, 9])
def test_a_schedule_is_the_same_each_time(world: World, outcomes: list[Outcome], seed: int) -> None:
    assert run(world, drawn(seed)).trace == outcomes[SCHEDULES.index(seed)].trace


def test_schedules_reach_what_goes_wrong(outcomes: list[Outcome]) -> None:
    """A simulation in which nothing goes wrong shows nothing."""
    traces = "\n".join(line for outcome in outcomes for line in outcome.trace)
    for sight in ("late create", "crash_after_write", "foreign_commit", "came first and conflicts", "does not know"):
        assert sight in traces


def test_a_plan_shrinks_to_what_breaks_it() -> None:
    plan = next(found for found in map(drawn, range(100)) if _crashes(found) > 1 and len(found.writers) > 1)
    least = shrunk(plan, lambda smaller: _crashes(smaller) > 0 and len(smaller.writers) > 0)
    assert _crashes(least) == len(least.events) == 1
    assert least.writers == ((),)
    assert (least.services, least.tables) == (1, 1)


@pytest.mark.parametrize(("count", "jobs"), [(1, 4), (20, 2), (21, 2), (1_000, 2)])
def test_every_process_gets_schedules_and_every_schedule_is_run_once(count: int, jobs: int) -> None:
    parts = parts_of(range(1_000, 1_000 + count), jobs=jobs)
    assert [seed for part in parts for seed in part] == list(range(1_000, 1_000 + count))
    assert len(parts) >= min(count, jobs)


def _crashes(plan: object) -> int:
    return sum(event.kind == "crash" for event in plan.events)  # type: ignore[attr-defined]
