"""A service that has nothing to do: what it computes and asks, with a thousand tables."""

import time

from benchmarks.lab import Lab
from benchmarks.report import Result, Table
from benchmarks.service import SERVICE, CpuMeter, open_rig, transactions
from deltamirror import Catalog

_TABLES = 1_000
_SETTLES = 20


def run(lab: Lab) -> Result:
    """The share of a core, and transactions a second."""
    seconds = lab.pick(full=60, quick=20)
    with lab.place("postgresql") as place, open_rig(place.url) as rig:
        names = [f"idle.t{number:04}" for number in range(_TABLES)]
        rig.create_tables(names, schema="id long", partition_by=[])
        with rig.service() as pid:
            with Catalog(settings=rig.settings()) as catalog:
                catalog.wait_until_published(dict.fromkeys(names, 0), seconds=600)
            time.sleep(_SETTLES)  # what follows on the first publication is over
            asked, begin = transactions(place.url), time.monotonic()
            with CpuMeter({SERVICE: pid}) as meter:
                time.sleep(seconds)
            taken = time.monotonic() - begin
            figures = {
                "core": sum(meter.seconds.values()) / taken,
                "transactions": (transactions(place.url) - asked) / taken,
            }
    row = (f"{_TABLES:,} tables", f"{figures['core']:.1%}", f"{figures['transactions']:.1f}")
    header = ("", "of a core", "transactions/s")
    return Result("idle", Table("An idle service, PostgreSQL and S3, Spark local[2]", header, [row]), figures)
