"""One commit of a million adds, and what it is like to use the table afterwards."""

from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks import bulk_tasks as tasks
from benchmarks import child
from benchmarks.adds import adds, write_arrow, write_ndjson
from benchmarks.lab import ENGINES, Lab, Place
from benchmarks.report import Result, Table

_SOURCES = ("structs", "arrow", "ndjson")


def run(lab: Lab) -> Result:
    """Seconds, megabytes and memory of the commit; seconds to read it; milliseconds to remove one file."""
    count = int(lab.pick(full=1_000_000, quick=20_000))
    inputs = {"ndjson": lab.folder / "adds.ndjson", "arrow": lab.folder / "adds.arrow"}
    write_ndjson(inputs["ndjson"], islice(adds(seed=1), count))
    write_arrow(inputs["arrow"], islice(adds(seed=1), count))
    sources = _SOURCES[:1] if lab.quick else _SOURCES
    found = {"delta-rs": _said("delta-rs", _delta_rs(lab, inputs["ndjson"]))}
    for engine in ENGINES:
        for source in sources:
            name = f"deltamirror {engine}, {source}"
            with lab.place(engine) as place:
                found[name] = _said(name, _deltamirror(place, source, inputs))
                if source == sources[-1]:
                    found[f"bare {engine}"] = _said(f"bare {engine}", _bare(lab, place))
    base = found["delta-rs"]["seconds"]
    rows = [(name, *_cells(figures, base)) for name, figures in found.items()]
    header = ("", "seconds", "faster", "CPU s", "MB", "peak MiB", "input MiB", "read s", "list s", "remove ms")
    return Result("bulk", Table(f"One commit of {count:,} adds", header, rows), {"count": count, **found})


def _said(name: str, figures: dict[str, float]) -> dict[str, float]:
    """The figures; a run takes minutes, and whoever waits wants to see something."""
    print(f"{name}: " + ", ".join(f"{key} {value:.1f}" for key, value in figures.items()), flush=True)
    return figures


def _cells(figures: dict[str, float], base: float) -> tuple[str, ...]:
    formats = {"computed": "1f", "megabytes": "0f", "peak": "0f", "input": "0f"}
    formats |= {"read": "2f", "list": "2f", "remove": "1f"}
    cells = (f"{figures[name]:.{style}}" if name in figures else "" for name, style in formats.items())
    return (f"{figures['seconds']:.2f}", f"{base / figures['seconds']:.1f} ×", *cells)


def _delta_rs(lab: Lab, ndjson: Path) -> dict[str, float]:
    with lab.place("files") as place:
        figures: dict[str, float] = child.call(tasks.delta_rs_commit, place=place.json(), path=str(ndjson))
        figures["megabytes"] = place.megabytes()
        figures["list"] = child.call(tasks.delta_rs_open, place=place.json())
    return figures


def _deltamirror(place: Place, source: str, inputs: dict[str, Path]) -> dict[str, float]:
    figures: dict[str, float] = _commit(place, source, inputs)
    figures["megabytes"] = place.megabytes()
    figures["read"] = child.call(tasks.read_lines, place=place.json())
    if source == _SOURCES[0]:
        figures["list"] = child.call(tasks.list_files, place=place.json())
        figures["remove"] = child.call(tasks.remove_one, place=place.json(), path=str(inputs["ndjson"]))
    return figures


def _commit(place: Place, source: str, inputs: dict[str, Path]) -> Any:
    path = inputs["arrow" if source == "arrow" else "ndjson"]
    return child.call(tasks.commit, place=place.json(), source=source, path=str(path))


def _bare(lab: Lab, full: Place) -> dict[str, float]:
    """The load of the rows that a place has into an empty one."""
    with lab.place(full.engine) as empty:
        figures: dict[str, float] = child.call(tasks.bare_load, source=full.json(), target=empty.json())
        figures["megabytes"] = empty.megabytes()
    return figures
