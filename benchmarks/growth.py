"""Whether a commit gets slower with the files of its table, with its versions, or with the tables beside it."""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from statistics import median
from typing import Any, Final

from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from benchmarks import child
from benchmarks.adds import PARTITION_COLUMN, adds
from benchmarks.copies import add_tables, add_versions
from benchmarks.lab import ENGINES, TABLE, Lab, Place
from benchmarks.report import Result, Table
from benchmarks.writers import DELTA_RS, Subject, delta_rs_action, delta_rs_schema, open_writer, prepare
from deltamirror import Add, Catalog
from deltamirror.txnlog.queue.claims import claim
from deltamirror.work import Lane

_WARM_UP: Final = 10
_OURS: Final = [Subject("deltamirror", engine) for engine in ENGINES]
_COMMITTED_TO: Final = 10
_CLAIMED: Final = 64
_COMMIT: Final = "p50 ms of a commit of one add"
_CLAIM: Final = "p50 ms of a claim that finds nothing"


def run(lab: Lab) -> Result:
    """The median latency of a commit, by the number of files in the table; beside delta-rs."""
    sizes = (0, 10_000) if lab.quick else (0, 10_000, 100_000)
    return _result(lab, "growth", "files", [*_OURS, DELTA_RS], sizes, by_files)


def run_history(lab: Lab) -> Result:
    """By the number of versions before it."""
    sizes = (100, 10_000) if lab.quick else (100, 10_000, 1_000_000)
    return _result(lab, "history", "versions", _OURS, sizes, by_versions)


def run_tables(lab: Lab) -> Result:
    """By the number of tables in the catalog."""
    sizes = (10, 100) if lab.quick else (10, 1_000, 10_000, 100_000)
    return _result(lab, "tables", "tables", _OURS, sizes, by_tables)


def run_claims(lab: Lab) -> Result:
    """The question of an idle service, by the number of tables in the catalog."""
    sizes = (10, 100) if lab.quick else (10, 1_000, 10_000, 100_000)
    return _result(lab, "claims", "tables", _OURS, sizes, claims_by_tables, _CLAIM)


def _result(
    lab: Lab,
    name: str,
    what: str,
    subjects: Sequence[Subject],
    sizes: Sequence[int],
    measure: Callable[..., float],
    timed: str = _COMMIT,
) -> Result:
    seconds = lab.pick(full=2.0, quick=1.0)
    found = {
        str(subject): {size: _once(lab, subject, measure, size, seconds) for size in sizes} for subject in subjects
    }
    rows = [(subject, *(f"{cost:.2f}" for cost in costs.values())) for subject, costs in found.items()]
    header = (timed, *(f"{size:,} {what}" for size in sizes))
    return Result(name, Table(f"Latency by the number of {what}", header, rows), found)


def _once(lab: Lab, subject: Subject, measure: Callable[..., float], size: int, seconds: float) -> Any:
    with lab.place(subject.engine) as place:
        where = {"who": subject.who, "engine": subject.engine, "place": place.json()}
        return child.call(measure, **where, size=size, seconds=seconds)


def by_files(*, who: str, engine: str, place: dict[str, str], size: int, seconds: float) -> float:
    """In a child: fill the table by one commit, then time small ones; milliseconds."""
    subject, where = Subject(who, engine), Place(**place)
    prepare(subject, where)
    if size:
        _fill(subject, where, size)
    return _by_writer(subject, where, seconds)


def by_versions(*, who: str, engine: str, place: dict[str, str], size: int, seconds: float) -> float:
    """In a child: give the table that many versions, as rows of the database, then time small commits."""
    where = Place(**place)
    add_versions(where, size)
    return _by_writer(Subject(who, engine), where, seconds)


def by_tables(*, who: str, engine: str, place: dict[str, str], size: int, seconds: float) -> float:
    """In a child: give the catalog that many tables, then time small commits, in turn to ten of them."""
    where = Place(**place)
    names = add_tables(where, size)
    with Catalog(where.url) as catalog:
        chosen = cycle(names[:: len(names) // _COMMITTED_TO])
        return _median(lambda add: catalog.table(next(chosen)).append([add]), seconds)


def claims_by_tables(*, who: str, engine: str, place: dict[str, str], size: int, seconds: float) -> float:
    """In a child: the same, and time what a service asks at every poll: which tables wait; none does."""
    where = Place(**place)
    add_tables(where, size)
    with Catalog(where.url) as catalog:
        return _median(
            lambda _: claim(catalog.database, lane=Lane.COMMITS, owner=who, seconds=60.0, limit=_CLAIMED), seconds
        )


def _by_writer(subject: Subject, place: Place, seconds: float) -> float:
    writer = open_writer(subject, place)
    try:
        return _median(writer.commit, seconds)
    finally:
        writer.close()


def _median(commit: Callable[[Add], object], seconds: float) -> float:
    source = adds(seed=4)
    for _ in range(_WARM_UP):
        commit(next(source))
    return median(_latencies(commit, source, seconds)) * 1e3


def _latencies(commit: Callable[[Add], object], source: Iterator[Add], seconds: float) -> Iterator[float]:
    begin = time.perf_counter()
    while (before := time.perf_counter()) < begin + seconds:
        commit(next(source))
        yield time.perf_counter() - before


def _fill(subject: Subject, place: Place, size: int) -> None:
    files = islice(adds(seed=3), size)
    if subject == DELTA_RS:
        actions: list[AddAction | RemoveAction] = [delta_rs_action(add) for add in files]
        DeltaTable(place.folder).create_write_transaction(actions, "append", delta_rs_schema(), [PARTITION_COLUMN])
    else:
        with Catalog(place.url) as catalog:
            catalog.table(TABLE).append(files)
