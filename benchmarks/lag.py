"""From commit to visible: a service on Spark follows a hundred tables on PostgreSQL and S3 under a steady load."""

import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import psycopg

from benchmarks.adds import PARTITION_COLUMN, SCHEMA, adds
from benchmarks.lab import Lab
from benchmarks.report import Result, Table, rate
from benchmarks.service import CpuMeter, Rig, open_rig
from deltamirror import Catalog

__all__ = ["run"]

_TABLES = 100
_COMMITS_A_SECOND = 100
_WRITERS = 8
_CATCHES_UP_WITHIN = 300
_WARMS_UP_FOR = 30
"""The same load goes before what is measured: a JVM compiles its code as it goes."""


def run(lab: Lab) -> Result:
    """Quantiles of the time from the commit of a version to its presence in the log, as SQL has them."""
    seconds = int(lab.pick(full=300, quick=20))
    with lab.place("postgresql") as place, open_rig(place.url) as rig:
        names = [f"load.t{number:03}" for number in range(_TABLES)]
        rig.create_tables(names, schema=SCHEMA, partition_by=[PARTITION_COLUMN])
        with rig.service() as pid:
            warm, _ = _load(rig, names, int(lab.pick(full=_WARMS_UP_FOR, quick=5)), seed=7)
            _wait(rig, warm)
            begin = time.monotonic()
            with CpuMeter(pid) as meter:
                committed, late = _load(rig, names, seconds, seed=8)
            taken = time.monotonic() - begin
            cores = meter.seconds / taken
            _wait(rig, committed)
        lags = _lags(place.url, warm)
    quantiles = statistics.quantiles(lags, n=100)
    figures = {
        "rate": len(lags) / taken,
        "p50": quantiles[49],
        "p95": quantiles[94],
        "p99": quantiles[98],
        "worst": max(lags),
        "late": late,
        "cores": cores,
    }
    header = ("", "commits/s", "p50 ms", "p95 ms", "p99 ms", "worst ms", "cores of the service")
    times = [f"{figures[name]:,.0f}" for name in ("p50", "p95", "p99", "worst")]
    row = (f"{_TABLES} tables, {seconds} s after {_WARMS_UP_FOR} s", rate(figures["rate"]), *times, f"{cores:.2f}")
    return Result("lag", Table("From commit to visible, PostgreSQL and S3, Spark local[2]", header, [row]), figures)


def _load(rig: Rig, names: list[str], seconds: int, *, seed: int) -> tuple[dict[str, int], float]:
    """Commits in turn over all tables, each at its time whether or not the one before it is done.

    The newest version of each table, and by how many seconds the last commit was late.
    """
    count = seconds * _COMMITS_A_SECOND
    source, begin = list(islice(adds(seed=seed), count)), time.monotonic()
    with Catalog(settings=rig.settings()) as catalog, ThreadPoolExecutor(_WRITERS) as writers:

        def commit(number: int) -> tuple[str, int]:
            time.sleep(max(0.0, begin + number / _COMMITS_A_SECOND - time.monotonic()))
            name = names[number % len(names)]
            return name, catalog.table(name).append([source[number]]).versions[name]

        versions: dict[str, int] = {}
        for name, version in writers.map(commit, range(count)):
            versions[name] = max(version, versions.get(name, 0))
        late = time.monotonic() - begin - seconds
    return versions, max(0.0, late)


def _wait(rig: Rig, versions: dict[str, int]) -> None:
    with Catalog(settings=rig.settings()) as catalog:
        catalog.wait_until_published(versions, seconds=_CATCHES_UP_WITHIN)


def _lags(url: str, before: dict[str, int]) -> list[float]:
    """Of the versions after those that tables had before; of no other tables."""
    query = (
        "SELECT t.name, v.version, s.published_at - v.committed_at FROM dl_mirror_status s"
        " JOIN dl_table_versions v USING (table_id, version) JOIN dl_tables t USING (table_id)"
    )
    with psycopg.connect(url) as connection:
        return [float(lag) for name, version, lag in connection.execute(query) if version > before.get(name, version)]
