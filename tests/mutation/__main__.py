"""``python -m tests.mutation [--module PART] [--most N | --record | --survivors]``: break modules, let tests notice.

The exit status is 1 if a mutant survives that ``targets.py`` does not explain, or explains and does not survive.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.mutation.operators import Mutant, code_lines, mutants_of
from tests.mutation.running import SOURCES, Suite, Verdict, prepare
from tests.mutation.scores import Score, record, recorded
from tests.mutation.targets import TARGETS, Target

_LEAST_PATIENCE = 60
"""Seconds that a mutant has at least, on a machine that others use, too."""


def main(arguments: Sequence[str]) -> int:
    """Try all targets, one after the other."""
    options = _options(arguments)
    chosen = {name: target for name, target in TARGETS.items() if options.module in name}
    if not chosen:
        sys.exit(f"no module with {options.module!r} in its name: choose from {', '.join(TARGETS)}")
    prepare()
    wrong = [_is_wrong(name, target, options) for name, target in chosen.items()]
    return int(any(wrong))


def _is_wrong(name: str, target: Target, options: argparse.Namespace) -> bool:
    """Whether a mutant survives that should not, or the other way round. All of it is told."""
    module = Path(name)
    begun, source = time.monotonic(), (SOURCES / module).read_text()
    every = mutants_of(source)
    mutants = _recorded_survivors(name, every) if options.survivors else _some(every, options.most)
    survivors: Sequence[Mutant] = mutants
    for suite in target.suites(module):
        survivors = list(_survivors(suite, source, survivors))
    unbroken = code_lines(source) - {each.line for each in every}
    lines = f"lines without a mutant: {sorted(unbroken)}" if unbroken else "every line of code has a mutant"
    killed = len(mutants) - len(survivors)
    _say(f"{module}: {killed} of {len(mutants)} mutants killed, {time.monotonic() - begun:.0f} s; {lines}")
    if options.record or options.survivors:
        record(name, Score(mutants=len(every), survivors=tuple(each.name for each in survivors)))
    wrong = list(_surprises(mutants, survivors, target))
    for each in wrong:
        _say(f"  {each}")
    return bool(wrong)


def _survivors(suite: Suite, source: str, mutants: Sequence[Mutant]) -> Iterator[Mutant]:
    """The mutants that tests do not notice, which they can only be blamed for if they pass without one."""
    begun = time.monotonic()
    if suite.verdict(source) is not Verdict.SURVIVED:
        sys.exit(f"{suite.module}: {suite.tests} fails without a mutant")
    patience = _LEAST_PATIENCE + round(10 * (time.monotonic() - begun))
    for each in mutants:
        if suite.verdict(each.code, patience=patience) is Verdict.SURVIVED:
            yield each


def _surprises(mutants: Sequence[Mutant], survivors: Sequence[Mutant], target: Target) -> Iterator[str]:
    for each in survivors:
        if each.name not in target.harmless:
            yield f"{each.line}: survived: {each.name}"
    explained = {each.name for each in mutants if each not in survivors} & target.harmless.keys()
    yield from (f"killed, and called harmless: {name}" for name in sorted(explained))


def _some(mutants: Sequence[Mutant], most: int | None) -> list[Mutant]:
    """At most so many of them, spread over all."""
    step = 1 if most is None else max(1, -(-len(mutants) // most))
    return list(mutants[::step])


def _recorded_survivors(name: str, mutants: Sequence[Mutant]) -> list[Mutant]:
    """Those that survived the last full run, which has to be of the same code."""
    last = recorded().get(name)
    names = {each.name for each in mutants}
    if last is None or last.mutants != len(mutants) or not names.issuperset(last.survivors):
        sys.exit(f"{name} was not tried as it is: use --record")
    return [each for each in mutants if each.name in last.survivors]


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--module", default="", help="only modules with this in their path")
    number = parser.add_mutually_exclusive_group()
    number.add_argument("--most", type=int, help="at most so many mutants of each module (all)")
    number.add_argument("--survivors", action="store_true", help="try those again that survived, and record them")
    number.add_argument("--record", action="store_true", help="write the scores of the modules, and their page")
    return parser.parse_args(arguments)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
