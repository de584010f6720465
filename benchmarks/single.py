"""One writer: commits of one add, one after the other."""

import statistics
import time
from typing import Any

from benchmarks import child
from benchmarks.adds import adds
from benchmarks.lab import Lab, Place
from benchmarks.report import Result, Table, rate, spread
from benchmarks.writers import DELTA_RS, SUBJECTS, Subject, open_writer, prepare

_WARM_UP = 20


def run(lab: Lab) -> Result:
    """Commits a second, in three fresh processes each."""
    seconds, repeats = lab.pick(full=3.0, quick=1.0), int(lab.pick(full=3, quick=1))
    found: dict[str, list[dict[str, float]]] = {str(subject): [] for subject in SUBJECTS}
    for _ in range(repeats):  # subjects take turns, so that a busy machine slows all of them
        for subject in SUBJECTS:
            found[str(subject)].append(once(lab, subject, seconds))
    base = _median(found[str(DELTA_RS)], "rate")
    rows = [(name, *_cells(runs), f"{_median(runs, 'rate') / base:.1f} ×") for name, runs in found.items()]
    header = ("one writer", "commits/s", "min–max", "p50 ms", "p99 ms", "CPU ms", "of delta-rs")
    return Result("single", Table("Commits of one add, one writer", header, rows), dict(found))


def _cells(runs: list[dict[str, float]]) -> tuple[str, ...]:
    times = (f"{_median(runs, key):.2f}" for key in ("p50", "p99", "cpu"))
    return rate(_median(runs, "rate")), spread([run["rate"] for run in runs]), *times


def _median(runs: list[dict[str, float]], key: str) -> float:
    return statistics.median(run[key] for run in runs)


def once(lab: Lab, subject: Subject, seconds: float) -> Any:
    """What a fresh process measures of one writer."""
    with lab.place(subject.engine) as place:
        return child.call(measure, who=subject.who, engine=subject.engine, place=place.json(), seconds=seconds)


def measure(*, who: str, engine: str, place: dict[str, str], seconds: float) -> dict[str, float]:
    """In a child: commits a second; latencies, and what this process computes for a commit, in milliseconds."""
    subject, where = Subject(who, engine), Place(**place)
    prepare(subject, where)
    writer, source = open_writer(subject, where), adds(seed=2)
    for _ in range(_WARM_UP):
        writer.commit(next(source))
    latencies, cpu, begin = [], time.process_time(), time.perf_counter()
    while (before := time.perf_counter()) < begin + seconds:
        writer.commit(next(source))
        latencies.append(time.perf_counter() - before)
    elapsed, cpu = time.perf_counter() - begin, time.process_time() - cpu
    writer.close()
    count, quantiles = len(latencies), statistics.quantiles(latencies, n=100)
    return {"rate": count / elapsed, "p50": quantiles[49] * 1e3, "p99": quantiles[98] * 1e3, "cpu": cpu / count * 1e3}
