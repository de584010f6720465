"""``python -m tests.admission --seed N [--count M]``: run cases, read them, and tell of what readers cannot read."""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.admission.cases import counted, open_lake, run_seed
from tests.admission.directed import GROUPS
from tests.admission.reading import MODULES, open_readers, read_all
from tests.admission.report import directed_problems, told

_AT_ONCE = 100
_GROUPS_AT_ONCE = 40


def main(arguments: Sequence[str]) -> int:
    """The exit status: 1 if something was admitted that a reader does not read."""
    options = _options(arguments)
    if options.directed is not None:
        return _directed(options)
    failures, begun = 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder, open_readers(Path(folder), options.readers) as readers:
        for first in range(options.seed, options.seed + options.count, _AT_ONCE):
            seeds = range(first, min(first + _AT_ONCE, options.seed + options.count))
            part = Path(folder) / str(first)
            part.mkdir()
            with open_lake(part) as lake:
                tried = [run_seed(lake, seed, only=options.steps) for seed in seeds]
                made = time.monotonic()
                wrong = read_all(readers, tried)
                _say(f"made in {made - begun:.1f} s, read in {time.monotonic() - made:.1f} s")
                for seed, each in zip(seeds, tried, strict=True):
                    if options.count == 1:
                        _say("\n".join([str(each.definition), *map(str, each.events)]))
                    if each.name in wrong:
                        failures += 1
                        _say(told(lake, readers, seed, wrong[each.name], shrink=not options.no_shrink))
                admitted, refused = counted(tried)
                if options.count > 1:
                    _say(f"admitted {dict(admitted)}\nrefused {dict(refused)}")
            _say(f"{seeds.stop - options.seed} cases, {failures} with findings, {time.monotonic() - begun:.0f} s")
    return int(failures > 0)


def _directed(options: argparse.Namespace) -> int:
    groups = [group for name, group in GROUPS.items() if any(word in name for word in options.directed.split("|"))]
    with (
        tempfile.TemporaryDirectory() as folder,
        open_readers(Path(folder), options.readers) as readers,
        open_lake(Path(folder)) as lake,
    ):
        problems = []
        for first in range(0, len(groups), _GROUPS_AT_ONCE):
            found = directed_problems(lake, readers, groups[first : first + _GROUPS_AT_ONCE])
            _say("\n".join([f"{first} of {len(groups)}", *found]))
            problems += found
    _say(f"{len(groups)} groups, {len(problems)} findings")
    return int(bool(problems))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.admission", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first case (0)")
    parser.add_argument("--count", type=int, default=1, help="how many, one seed after the other (1)")
    parser.add_argument("--steps", type=_numbers, help="only these steps of the case: 0,2,5")
    parser.add_argument(
        "--readers", type=lambda text: list(filter(None, text.split(","))), default=list(MODULES), help="only these"
    )
    parser.add_argument("--directed", help="the named cases whose names have this in them")
    parser.add_argument("--no-shrink", action="store_true", help="tell of cases as they are")
    return parser.parse_args(arguments)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
