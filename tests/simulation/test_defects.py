"""The simulation is able to fail: with each mitigation switched off, it shows the failure that it prevents."""

from collections.abc import Iterator
from itertools import chain, count, islice

import pytest

from tests.simulation.defects import DEFECTS, Defect
from tests.simulation.plans import Plan, drawn
from tests.simulation.runs import run
from tests.simulation.world import World

AT_THE_END = (
    "an object that is there is a failure",
    "logs are not compared",
    "what misleads readers stays in the log",
)
"""Defects that show only at the end of a long schedule; ``make soak`` has them. Others show the same guarantees."""


@pytest.mark.requirement("R106")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.elsewhere] * (name in AT_THE_END)) for name in DEFECTS]
)
def test_a_defect_is_found(name: str) -> None:
    defect = DEFECTS[name]
    with World.open() as world, pytest.MonkeyPatch.context() as patch:
        defect.put_in(patch)
        failures = (run(world, plan).failure for plan in _concerned(defect))
        found = next(filter(None, failures), "")
    assert found.removeprefix("AssertionError: ").startswith(defect.shows), found


def _concerned(defect: Defect) -> Iterator[Plan]:
    return islice(filter(defect.concerns, map(drawn, chain([defect.seed], count()))), defect.within)
