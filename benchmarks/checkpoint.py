"""Checkpoints of a large table: the first one, and the next, some commits later; beside delta-rs and Delta Spark."""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from benchmarks import checkpoint_tasks as tasks
from benchmarks import child, publish_tasks
from benchmarks.adds import NUMBERED_SCHEMA, adds, numbered_adds, write_ndjson
from benchmarks.bulk_tasks import commit
from benchmarks.lab import Lab, Place
from benchmarks.report import Result, Table
from deltamirror import Add

LATER = 100
_FEWER = 100_000
_FEWEST = 10_000
DELTA_RS: Final = {"delta-rs": tasks.delta_rs}
_PEERS: Final = {**DELTA_RS, "Delta Spark": tasks.delta_spark}
_READER: Final = {"delta-rs": tasks.open_by_delta_rs}
_READERS: Final = {**_READER, "DuckDB": tasks.open_by_duckdb, "Delta Spark": tasks.open_by_delta_spark}
_NUMBERED = "numbered files"


def run(lab: Lab) -> Result:
    """Seconds, megabytes and memory, for files as they are, for fewer, and for some that differ by numbers only."""
    count = int(lab.pick(full=1_000_000, quick=20_000))
    with lab.place("sqlite") as place:
        found = measured(lab, place, islice(adds(seed=1), count), verifies=True)
    with lab.place("sqlite", schema=NUMBERED_SCHEMA, partition_by=()) as place:
        numbered = measured(lab, place, islice(numbered_adds(first=0), count), numbered_from=count)
    found |= {f"{name}, {_NUMBERED}": figures for name, figures in numbered.items()}
    fewer = int(lab.pick(full=_FEWER, quick=_FEWEST))
    with lab.place("sqlite") as place:
        found |= _of(fewer, measured(lab, place, islice(adds(seed=1), fewer), verifies=True, readers=_READERS))
    if not lab.quick:
        with lab.place("sqlite") as place:
            found |= _of(_FEWEST, measured(lab, place, islice(adds(seed=1), _FEWEST), peers=DELTA_RS))
    opened = (f"{reader}: open s" for reader in _READERS)
    verify = ("verify s", "verify own MiB")
    header = ("", "first s", "bare first s", "next s", "bare next s", "MB", "peak MiB", "own MiB", *verify, *opened)
    rows = [(name, *_cells(figures)) for name, figures in found.items()]
    title = f"Checkpoint of {count:,} files, and the next one, {LATER} commits later"
    return Result("checkpoint", Table(title, header, rows), {"count": count, "fewer": fewer, **found})


def measured(
    lab: Lab,
    place: Place,
    files: Iterator[Add],
    *,
    numbered_from: int | None = None,
    verifies: bool = False,
    peers: Mapping[str, Callable[..., Any]] = _PEERS,
    readers: Mapping[str, Callable[..., Any]] = _READER,
) -> dict[str, dict[str, float]]:
    """All subjects have the log that deltamirror published, each in a copy of its own."""
    source = lab.folder / "checkpoint.ndjson"
    write_ndjson(source, files)
    child.call(commit, place=place.json(), source="ndjson", path=str(source))
    publish(place)
    copies = {name: child.call(tasks.copy_log, place=place.json(), name=name) for name in peers}
    found: dict[str, dict[str, float]] = {"deltamirror": {}}
    found["deltamirror"] |= _named(child.call(tasks.deltamirror, place=place.json()), "first")
    found["deltamirror"]["bare"] = child.call(tasks.bare_arrow, path=str(source))
    found["deltamirror"]["bare next"] = child.call(tasks.bare_file, place=place.json())
    child.call(publish_tasks.fill, place=place.json(), count=LATER, numbered_from=numbered_from)
    publish(place)
    found["deltamirror"] |= _named(child.call(tasks.deltamirror, place=place.json()), "next")
    if verifies:
        verified = child.call(tasks.verified, place=place.json())
        found["deltamirror"] |= {"verify": verified["seconds"], "verify own": verified["own"]}
    for name, task in peers.items():
        found[name] = child.call(task, folder=copies[name], place=place.json())
    folders = {"deltamirror": f"{place.folder}/table", **copies}
    for reader, task in readers.items():
        taken = child.call(task, folders=list(folders.values()))
        for name, (best, *_, worst) in zip(folders, taken, strict=True):
            found[name] |= {f"open {reader}": best, f"worst open {reader}": worst}
    return found


def _of(count: int, found: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    return {f"{name}, {count:,} files": figures for name, figures in found.items()}


def publish(place: Place) -> None:
    """Publish what waits, without a checkpoint."""
    child.call(publish_tasks.mirror, place=place.json(), runner="local", checkpoints=False)


def _named(figures: dict[str, Any], name: str) -> dict[str, float]:
    return {**figures, name: figures["seconds"]}


def _cells(figures: dict[str, float]) -> tuple[str, ...]:
    times = ("first", "bare", "next", "bare next")
    formats = {**dict.fromkeys(times, "2f"), "megabytes": "1f", "peak": "0f", "own": "0f"}
    formats |= {"verify": "1f", "verify own": "0f"}
    formats |= {f"open {reader}": "2f" for reader in _READERS}
    return tuple(f"{figures[name]:.{style}}" if name in figures else "" for name, style in formats.items())
