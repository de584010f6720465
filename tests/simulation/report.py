"""Schedules by their seeds, and what is told of one that breaks a guarantee."""

from collections.abc import Iterable, Iterator

import msgspec

from tests.simulation.plans import Plan, drawn
from tests.simulation.runs import Outcome, run
from tests.simulation.shrinking import shrunk
from tests.simulation.world import World

_LAST_STEPS = 60


def broken(world: World, seeds: Iterable[int]) -> Iterator[Outcome]:
    """The schedules of these seeds that break a guarantee."""
    for seed in seeds:
        outcome = run(world, drawn(seed))
        if outcome.failure:
            yield outcome


def told(world: World, outcome: Outcome) -> str:
    """How a schedule breaks a guarantee, how to run it again, and the least that breaks it."""
    least = run(world, shrunk(outcome.plan, lambda plan: _kind(run(world, plan)) == _kind(outcome)))
    return "\n".join(
        [
            f"seed {outcome.plan.seed}: {outcome.failure}",
            f"again: python -m tests.simulation --seed {outcome.plan.seed}",
            f"the least: {least.failure}",
            f"again: python -m tests.simulation --plan '{_text(least.plan)}'",
            *least.trace[-_LAST_STEPS:],
        ]
    )


def told_of(seeds: Iterable[int]) -> list[str]:
    """The same of all of these schedules, in a world of their own."""
    with World.open() as world:
        return [told(world, outcome) for outcome in broken(world, seeds)]


def _kind(outcome: Outcome) -> str:
    """Which guarantee is broken."""
    return " ".join(outcome.failure.split()[:2])


def _text(plan: Plan) -> str:
    return msgspec.json.encode(plan).decode()
