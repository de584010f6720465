"""``python -m tests.statements --seed 17 --steps 50 --store s3``: one life; ``--count``: of the next seeds, too."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from deltamirror import Catalog
from deltamirror.config import Settings
from deltamirror.errors import DeltaMirrorError
from tests.statements.life import Lake, live
from tests.support.readers.reader import Reader, RequestFailed
from tests.support.readers.s3_access import S3Access
from tests.support.servers.seaweed_server import started_seaweed
from tests.support.suite.worker import Worker


def main() -> int:
    """Live, and say what went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.statements", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--store", choices=("disk", "s3"), default="disk")
    asked = parser.parse_args()
    failed = 0
    with TemporaryDirectory() as name, closing(Worker("tests.support.readers.delta_spark", Path(name))) as worker:
        for seed in range(asked.seed, asked.seed + asked.count):
            try:
                with _lake(Path(name) / f"{seed}", Reader(worker), asked.store) as lake:
                    _say(f"{dict(live(seed, asked.steps, lake, _say))}")
            except (AssertionError, DeltaMirrorError, RequestFailed) as error:
                failed += 1
                _say(f"seed {seed} failed: {type(error).__name__}: {error}"[:6_000])
    return 1 if failed else 0


@contextmanager
def _lake(folder: Path, spark: Reader, store: str) -> Iterator[Lake]:
    folder.mkdir()
    with ExitStack() as stack:
        root, settings, hadoop = f"{folder}", Settings(), dict[str, str]()
        if store == "s3":
            server = stack.enter_context(started_seaweed())
            bucket, settings = server.create_bucket(), Settings(storage=server.settings())
            root, hadoop = f"s3a://{bucket}", S3Access.of(settings.storage).hadoop(bucket)
        catalog = stack.enter_context(Catalog(f"sqlite:///{folder / 'lake.db'}", settings=settings))
        catalog.init()
        yield Lake(catalog, spark, root, folder, settings, hadoop)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
