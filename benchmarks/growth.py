"""Whether a commit gets slower as its table gets larger."""

import statistics
import time
from itertools import islice
from typing import Any

from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from benchmarks import child
from benchmarks.adds import PARTITION_COLUMN, adds
from benchmarks.lab import ENGINES, TABLE, Lab, Place
from benchmarks.report import Result, Table
from benchmarks.writers import DELTA_RS, Subject, delta_rs_action, delta_rs_schema, open_writer, prepare
from deltamirror import Catalog

__all__ = ["measure", "run"]

_SIZES = (0, 10_000, 100_000)
_QUICK_SIZES = (0, 10_000)
_WARM_UP = 10


def run(lab: Lab) -> Result:
    """The median latency of a commit, by the number of files in the table."""
    sizes, seconds = _QUICK_SIZES if lab.quick else _SIZES, lab.pick(full=2.0, quick=1.0)
    subjects = [*(Subject("deltamirror", engine) for engine in ENGINES), DELTA_RS]
    found = {str(subject): {size: _once(lab, subject, size, seconds) for size in sizes} for subject in subjects}
    rows = [(name, *(f"{cost:.2f}" for cost in by_size.values())) for name, by_size in found.items()]
    header = ("p50 ms of a commit of one add", *(f"{size:,} files" for size in sizes))
    return Result("growth", Table("Latency by the size of the table", header, rows), found)


def _once(lab: Lab, subject: Subject, size: int, seconds: float) -> Any:
    with lab.place(subject.engine) as place:
        where = {"who": subject.who, "engine": subject.engine, "place": place.json()}
        return child.call(measure, **where, size=size, seconds=seconds)


def measure(*, who: str, engine: str, place: dict[str, str], size: int, seconds: float) -> float:
    """In a child: fill the table by one commit, then time small ones; milliseconds."""
    subject, where = Subject(who, engine), Place(**place)
    prepare(subject, where)
    if size:
        _fill(subject, where, size)
    writer, source = open_writer(subject, where), adds(seed=4)
    for _ in range(_WARM_UP):
        writer.commit(next(source))
    latencies, begin = [], time.perf_counter()
    while (before := time.perf_counter()) < begin + seconds:
        writer.commit(next(source))
        latencies.append(time.perf_counter() - before)
    writer.close()
    return statistics.median(latencies) * 1e3


def _fill(subject: Subject, place: Place, size: int) -> None:
    files = islice(adds(seed=3), size)
    if subject == DELTA_RS:
        actions: list[AddAction | RemoveAction] = [delta_rs_action(add) for add in files]
        DeltaTable(place.folder).create_write_transaction(actions, "append", delta_rs_schema(), [PARTITION_COLUMN])
    else:
        with Catalog(place.url) as catalog:
            catalog.table(TABLE).append(files)
