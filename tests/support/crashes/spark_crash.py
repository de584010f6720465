"""A mirror on Spark that is killed (kill -9) at a point.

As a program: ``python -m tests.support.crashes.spark_crash URL POINT [FUSE]``. The driver dies, and Spark
with it. With a FUSE, which is a file that is not there, it is the Python process of the first executor that comes to
the point, and the driver mirrors once more. With an empty point nobody dies.
"""

import sys
from contextlib import nullcontext
from functools import partial
from typing import Any

from msgspec.structs import replace

from deltamirror import MirrorEngine
from deltamirror.pipeline.run.spark import runner
from tests.support.crashes.fuses import die
from tests.support.crashes.points import observing
from tests.support.crashes.struck_executors import struck_units
from tests.support.lakes.small_lakes import settings_of

__all__: list[str] = []


def main(url: str, point: str, fuse: str = "") -> None:
    """Mirror all tables."""
    settings = settings_of()
    # Executors go by the time of the claim, and the first unit waits until Spark is up.
    on_spark = replace(
        settings,
        mirror=replace(settings.mirror, runner="spark", lease=600.0),
        checkpoint=replace(settings.checkpoint, lease=600.0),
    )

    def tell(passed: str) -> None:
        if passed == point:
            die()

    if fuse:
        patched: Any = runner
        patched.run_units = partial(struck_units, point=point, fuse=fuse)
    watched = nullcontext() if fuse else observing(tell)
    with watched, MirrorEngine(url, settings=on_spark) as engine:
        for _ in range(2 if fuse else 1):
            engine.run(once=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
