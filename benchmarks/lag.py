"""From commit to visible: a service on Spark follows tables on PostgreSQL and S3 under a steady load."""

import os
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import psycopg

from benchmarks.adds import PARTITION_COLUMN, SCHEMA, adds
from benchmarks.lab import Lab
from benchmarks.report import Result, Table, rate
from benchmarks.service import SERVICE, CpuMeter, Rig, open_rig, server_pid
from deltamirror import Catalog

_WRITERS: Final = 8
_CATCHES_UP_WITHIN: Final = 300


@dataclass(frozen=True, slots=True)
class Load:
    """Commits of one add at a steady pace, in turn over tables."""

    tables: int
    commits_a_second: int
    seconds: int
    warms_up_for: int
    """The same load goes before what is measured: a JVM compiles its code as it goes."""


_LOADS: Final = (
    Load(tables=20, commits_a_second=20, seconds=60, warms_up_for=30),
    Load(tables=50, commits_a_second=50, seconds=60, warms_up_for=30),
    Load(tables=100, commits_a_second=100, seconds=180, warms_up_for=30),
)
_QUICK_LOADS: Final = tuple(replace(load, seconds=20, warms_up_for=5) for load in (_LOADS[0], _LOADS[2]))


@dataclass(frozen=True, slots=True)
class Lags:
    """The time from the commit of each version to its presence in the log, in milliseconds, as SQL has it."""

    milliseconds: Sequence[float]
    seconds: float
    late: float
    """By how many seconds the last commit was late: a load that could not be made."""
    computed: Mapping[str, float]
    """Seconds of the processor, by part."""

    def figures(self) -> dict[str, Any]:
        """By name."""
        quantiles = statistics.quantiles(self.milliseconds, n=100)
        times = {"p50": quantiles[49], "p95": quantiles[94], "p99": quantiles[98], "worst": max(self.milliseconds)}
        cores = {part: seconds / self.seconds for part, seconds in self.computed.items()}
        rate, there = len(self.milliseconds) / self.seconds, len(os.sched_getaffinity(0))
        return {"rate": rate, **times, "late": self.late, "cores": cores, "cores there": there}


def run(lab: Lab) -> Result:
    """Quantiles of the time from the commit of a version to its presence in the log, under three loads."""
    figures = {str(load.commits_a_second): _measured(lab, load) for load in (_QUICK_LOADS if lab.quick else _LOADS)}
    parts = next(iter(figures.values()))["cores"]
    header = ("", "commits/s", "p50 ms", "p95 ms", "p99 ms", "worst ms", *(f"{part}: ms" for part in parts))
    rows = [(f"{load} tables", *_cells(found)) for load, found in figures.items()]
    title = "From commit to visible, PostgreSQL and S3, Spark local[2]; and processor time of a version"
    return Result("lag", Table(title, header, rows), figures)


def _measured(lab: Lab, load: Load) -> dict[str, Any]:
    with lab.place("postgresql") as place:
        return measure(place.url, load).figures()


def _cells(figures: dict[str, Any]) -> Iterator[str]:
    yield rate(figures["rate"])
    yield from (f"{figures[name]:,.0f}" for name in ("p50", "p95", "p99", "worst"))
    yield from (f"{cores * 1_000 / figures['rate']:.1f}" for cores in figures["cores"].values())


def measure(url: str, load: Load) -> Lags:
    """A service on Spark follows new tables of a PostgreSQL catalog, on an S3 server of its own, under a load."""
    names = [f"load.t{number:03}" for number in range(load.tables)]
    with open_rig(url) as rig:
        rig.create_tables(names, schema=SCHEMA, partition_by=[PARTITION_COLUMN])
        with rig.service() as pid:
            warm, _ = _load(rig, names, load.warms_up_for, load.commits_a_second, seed=7)
            _wait(rig, warm)
            begin = time.monotonic()
            own = time.process_time()
            with CpuMeter({SERVICE: pid, "PostgreSQL": server_pid(url), "S3 server": rig.pid}) as meter:
                committed, late = _load(rig, names, load.seconds, load.commits_a_second, seed=8)
            taken, own = time.monotonic() - begin, time.process_time() - own
            _wait(rig, committed)
        return Lags(_lags(url, warm), taken, late, {**meter.seconds, "writer": own})


def _load(rig: Rig, names: list[str], seconds: int, a_second: int, *, seed: int) -> tuple[dict[str, int], float]:
    """Commits in turn over all tables, each at its time whether or not the one before it is done.

    The newest version of each table, and by how many seconds the last commit was late.
    """
    count = seconds * a_second
    source, begin = list(islice(adds(seed=seed), count)), time.monotonic()
    with Catalog(settings=rig.settings()) as catalog, ThreadPoolExecutor(_WRITERS) as writers:

        def commit(number: int) -> tuple[str, int]:
            time.sleep(max(0.0, begin + number / a_second - time.monotonic()))
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
