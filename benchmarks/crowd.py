"""Eight writers on one table: processes, or threads where the engine serves one process only."""

import statistics
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Protocol

from benchmarks import child, single
from benchmarks.adds import adds
from benchmarks.lab import Lab, Place
from benchmarks.report import Result, Table, rate
from benchmarks.writers import BARE_SERVER, DELTA_RS, SUBJECTS, Subject, Writer, newest_version, open_writer, prepare

WRITERS = 8
_WARM_UP = 3


class _Barrier(Protocol):
    def wait(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Tally:
    """What one writer got done."""

    begin: float
    end: float
    latencies: list[float]
    warm: int
    """Commits before the measurement."""
    failed: int

    @property
    def committed(self) -> int:
        """All commits that this writer was told are done."""
        return self.warm + len(self.latencies)


def run(lab: Lab) -> Result:
    """Commits a second in total, and how they were shared."""
    seconds = lab.pick(full=6.0, quick=2.0)
    found: dict[str, Any] = {}
    for subject in SUBJECTS:
        with lab.place(subject.engine) as place:
            found[str(subject)] = once(subject, place, seconds)
        found[str(subject)]["alone"] = single.once(lab, subject, seconds / 2)["rate"]
    base = found[str(DELTA_RS)]["rate"]
    rows = [(name, *_cells(figures), f"{figures['rate'] / base:.1f} ×") for name, figures in found.items()]
    header = (
        f"{WRITERS} writers",
        "commits/s",
        "failed",
        "lost",
        "slowest",
        "fastest",
        "p50 ms",
        "p99 ms",
        "one alone",
        "of delta-rs",
    )
    title = f"Commits of one add, {WRITERS} writers, one table (slowest and fastest writer: of an equal share)"
    return Result("crowd", Table(title, header, rows), found)


def _cells(figures: dict[str, float]) -> tuple[str, ...]:
    counts = f"{figures['failed']:.0f}", f"{figures['lost']:.0f}"
    shares = f"{figures['slowest']:.0%}", f"{figures['fastest']:.0%}"
    return (
        rate(figures["rate"]),
        *counts,
        *shares,
        f"{figures['p50']:.1f}",
        f"{figures['p99']:.1f}",
        rate(figures["alone"]),
    )


def once(subject: Subject, place: Place, seconds: float, *, threads: int = 1) -> Any:
    """The figures of all writers together: so many in each process."""
    return child.call(
        measure, who=subject.who, engine=subject.engine, place=place.json(), seconds=seconds, threads=threads
    )


def measure(*, who: str, engine: str, place: dict[str, str], seconds: float, threads: int) -> dict[str, float]:
    """In a child: start all writers, and put together what they got done."""
    subject, where = Subject(who, engine), Place(**place)
    prepare(subject, where)
    tallies = _threads(subject, where, seconds) if engine == "duckdb" else _processes(subject, where, seconds, threads)
    committed = sum(tally.committed for tally in tallies)
    latencies = [latency for tally in tallies for latency in tally.latencies]
    elapsed = max(tally.end for tally in tallies) - min(tally.begin for tally in tallies)
    fair = len(latencies) / len(tallies)
    quantiles = statistics.quantiles(latencies, n=100)
    return {
        "rate": len(latencies) / elapsed,
        "failed": sum(tally.failed for tally in tallies),
        "lost": 0 if subject == BARE_SERVER else max(0, committed - newest_version(subject, where)),
        "slowest": min(len(tally.latencies) for tally in tallies) / fair,
        "fastest": max(len(tally.latencies) for tally in tallies) / fair,
        "p50": quantiles[49] * 1e3,
        "p99": quantiles[98] * 1e3,
    }


def _processes(subject: Subject, place: Place, seconds: float, threads: int) -> list[Tally]:
    context = get_context("spawn")
    ready, answers = context.Barrier(WRITERS * threads), context.Queue()
    arguments = (subject, place, seconds, ready, answers)
    seeds = [range(first, first + threads) for first in range(0, WRITERS * threads, threads)]
    processes = [context.Process(target=_in_process, args=(*arguments, of_process)) for of_process in seeds]
    for process in processes:
        process.start()
    tallies: list[Tally] = [tally for _ in processes for tally in answers.get()]
    for process in processes:
        process.join()
    return tallies


def _in_process(
    subject: Subject, place: Place, seconds: float, ready: _Barrier, answers: Any, seeds: Sequence[int]
) -> None:
    """Writers of one process, each in a thread, and with a connection, of its own."""

    def work(seed: int) -> Tally:
        writer = open_writer(subject, place)
        tally = _work(writer, seed, seconds, ready)
        writer.close()
        return tally

    with ThreadPoolExecutor(len(seeds)) as executor:
        answers.put(list(executor.map(work, seeds)))


def _threads(subject: Subject, place: Place, seconds: float) -> list[Tally]:
    writer, ready = open_writer(subject, place), threading.Barrier(WRITERS)
    with ThreadPoolExecutor(WRITERS) as executor:
        working = [executor.submit(_work, writer, seed, seconds, ready) for seed in range(WRITERS)]
        tallies = [future.result() for future in working]
    writer.close()
    return tallies


def _work(writer: Writer, seed: int, seconds: float, ready: _Barrier) -> Tally:
    source, latencies, failed = adds(seed=100 + seed), list[float](), 0
    warm = sum(_try(writer, next(source)) for _ in range(_WARM_UP))
    ready.wait()
    begin = time.perf_counter()
    while (before := time.perf_counter()) < begin + seconds:
        if _try(writer, next(source)):
            latencies.append(time.perf_counter() - before)
        else:
            failed += 1
    return Tally(begin, time.perf_counter(), latencies, warm, failed)


def _try(writer: Writer, add: Any) -> bool:
    try:
        writer.commit(add)
    except Exception:  # noqa: BLE001  a failed commit is a figure, whatever the reason
        return False
    return True
