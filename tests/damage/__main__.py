"""``python -m tests.damage --seed N [--count M]``: damage logs, have them mended, and let readers read them."""

import argparse
import logging
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.damage.cases import drawn, run
from tests.damage.lake import KINDS, prepared
from tests.support.readers.duckdb import DuckDB


def main(arguments: Sequence[str]) -> int:
    """The exit status: 1 if a reader sees something else than SQL says, and nobody is told."""
    options = _options(arguments)
    logging.disable()
    failures, begun, duckdb = 0, time.monotonic(), DuckDB()
    with tempfile.TemporaryDirectory() as folder:
        lakes = {}
        for kind in KINDS:
            (Path(folder) / kind).mkdir()
            lakes[kind] = prepared(Path(folder) / kind, kind)
        for seed in range(options.seed, options.seed + options.count):
            case = drawn(seed)
            done, wrong = run(case, lakes[case.kind], duckdb)
            failures += bool(wrong)
            if wrong or options.count == 1:
                _say("\n  ".join([f"{case}: {'; '.join(done)}", *wrong]))
    _say(f"{options.count} cases, {failures} with findings, {time.monotonic() - begun:.0f} s")
    return int(failures > 0)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.damage", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first case (0)")
    parser.add_argument("--count", type=int, default=1, help="how many, one seed after the other (1)")
    return parser.parse_args(arguments)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
