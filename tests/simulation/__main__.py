"""``python -m tests.simulation --seed N [--count M]``: run schedules, and tell of those that break a guarantee."""

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Final

import msgspec

from tests.simulation.plans import Plan, drawn
from tests.simulation.report import told, told_of
from tests.simulation.runs import run
from tests.simulation.world import World

_AT_ONCE: Final = 50
"""So many schedules at most share one world."""

_BETWEEN_LINES: Final = 1_000
"""So many schedules pass between two lines of progress."""


def main(arguments: Sequence[str]) -> int:
    """The exit status: 1 if a guarantee was broken."""
    options = _options(arguments)
    if options.count > 1:
        return _many(range(options.seed, options.seed + options.count), jobs=options.jobs)
    plan = drawn(options.seed) if options.plan is None else msgspec.json.decode(options.plan, type=Plan)
    with World.open() as world:
        outcome = run(world, plan)
        if options.trace:
            _say("\n".join(outcome.trace))
        _say(
            told(world, outcome) if outcome.failure else f"seed {plan.seed}: {outcome.steps} steps, all guarantees hold"
        )
    return int(bool(outcome.failure))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first schedule (0)")
    parser.add_argument("--count", type=int, default=1, help="how many, one seed after the other (1)")
    parser.add_argument("--plan", help="a plan as JSON, in place of one that is drawn from a seed")
    parser.add_argument("--trace", action="store_true", help="show every step")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes that share them (one a core)")
    return parser.parse_args(arguments)


def _many(seeds: range, *, jobs: int) -> int:
    begun, done, failures = time.monotonic(), 0, 0
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        under_way = {pool.submit(told_of, part): part for part in parts_of(seeds, jobs=jobs)}
        for future in as_completed(under_way):
            before, done = done, done + len(under_way[future])
            for text in future.result():
                failures += 1
                _say(text)
            if before // _BETWEEN_LINES != done // _BETWEEN_LINES or done == len(seeds):
                _say(f"{done} of {len(seeds)} schedules, {failures} broken, {time.monotonic() - begun:.0f} s")
    return int(failures > 0)


def parts_of(seeds: range, *, jobs: int) -> list[range]:
    """What the processes take up, one part after the other: few schedules are shared among all of them, too."""
    size = min(_AT_ONCE, max(1, len(seeds) // jobs))
    return [seeds[start : start + size] for start in range(0, len(seeds), size)]


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
