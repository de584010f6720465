"""A mirror on Spark that is killed (kill -9) at a point: ``python -m tests.support.spark_crash URL POINT``.

The driver dies, and Spark with it. With an empty point nobody does.
"""

import sys

from msgspec.structs import replace

from deltamirror import MirrorEngine
from tests.support.crash_points import observing
from tests.support.fuses import die
from tests.support.small_lakes import settings_of

__all__: list[str] = []


def main(url: str, point: str) -> None:
    """Mirror all tables once."""
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

    with observing(tell), MirrorEngine(url, settings=on_spark) as engine:
        engine.run(once=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
