"""``python -m tests.lockstep --seed 17 --steps 50``: one life; with ``--count``, those of the next seeds, too."""

import argparse
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory

from deltamirror import Catalog
from deltamirror.errors import DeltaMirrorError
from tests.lockstep.life import Readers, live
from tests.support.readers.reader import Reader, RequestFailed
from tests.support.suite.worker import Worker

WORKERS = ("delta_spark", "delta_rs", "duckdb")


def main() -> int:
    """Live, and say what went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.lockstep", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--steps", type=int, default=50)
    asked = parser.parse_args()
    failed = 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        catalog = stack.enter_context(Catalog(f"sqlite:///{folder / 'lake.db'}"))
        catalog.init()
        readers = Readers(*(_reader(stack, folder, name) for name in WORKERS))
        for seed in range(asked.seed, asked.seed + asked.count):
            try:
                _say(f"{dict(live(seed, asked.steps, catalog, readers, folder / f't{seed}', _say))}")
            except (AssertionError, DeltaMirrorError, RequestFailed) as error:
                failed += 1
                _say(f"seed {seed} failed: {type(error).__name__}: {error}"[:4_000])
    return 1 if failed else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _reader(stack: ExitStack, folder: Path, name: str) -> Reader:
    own = folder / name
    own.mkdir()
    return Reader(stack.enter_context(closing(Worker(f"tests.support.readers.{name}", own))))


if __name__ == "__main__":
    sys.exit(main())
