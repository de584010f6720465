"""Rows: appends, scans and a merge, beside delta-rs from Arrow and beside Delta Spark from DataFrames."""

from typing import Any

from benchmarks import child
from benchmarks import rows_tasks as tasks
from benchmarks.lab import Lab
from benchmarks.report import Result, Table, rate

_ENGINE = "sqlite"
_PEERS_APPENDS = 40


def run(lab: Lab) -> Result:
    """Seconds for many rows; appends of one row a second. All on local disk."""
    count = int(lab.pick(full=10_000_000, quick=500_000))
    single = int(lab.pick(full=1_000, quick=100))
    source = str(lab.folder / "rows.parquet")
    child.call(tasks.write_source, path=source, count=count)
    with lab.place(_ENGINE, schema=tasks.ROWS, partition_by=()) as place:
        arrow: dict[str, Any] = {"deltamirror": child.call(tasks.arrow_by_deltamirror, place=place.json(), count=count)}
    with lab.place("files") as place:
        arrow["delta-rs"] = child.call(tasks.arrow_by_delta_rs, place=place.json(), count=count)
    with lab.place(_ENGINE, schema=tasks.ROWS, partition_by=()) as place:
        frames = child.call(tasks.frames, place=place.json(), source=source, count=count)
    rates = _single(lab, single)
    rows = [
        *_rows("Arrow", arrow["deltamirror"], "delta-rs", arrow["delta-rs"]),
        *_rows("DataFrame", frames["deltamirror"], "Delta Spark", frames["Delta Spark"]),
        *(_appends(rates, peer) for peer in ("delta-rs", "Delta Spark")),
    ]
    title = f"{count:,} rows on local disk, seconds; {single:,} appends of one row, a second"
    figures = {"count": count, "arrow": arrow, "frames": frames, "single": rates}
    return Result("rows", Table(title, ("", "deltamirror", "peer", "faster"), rows), figures)


def _single(lab: Lab, count: int) -> dict[str, float]:
    with lab.place(_ENGINE, schema=tasks.ROWS, partition_by=()) as place:
        ours = child.call(tasks.single_by_deltamirror, place=place.json(), count=count)
    peers = {"delta-rs": tasks.single_by_delta_rs, "Delta Spark": tasks.single_by_delta_spark}
    found = {"deltamirror": ours}
    for name, task in peers.items():
        with lab.place("files") as place:
            found[name] = child.call(task, place=place.json(), count=min(count, _PEERS_APPENDS))
    return found


def _appends(rates: dict[str, float], peer: str) -> tuple[str, str, str, str]:
    ours, theirs = rates["deltamirror"], rates[peer]
    return f"appends of one row a second, of {peer}", rate(ours), rate(theirs), _ratio(ours, theirs)


def _rows(data: str, ours: dict[str, float], peer: str, theirs: dict[str, float]) -> list[tuple[str, str, str, str]]:
    return [
        (f"{what}, {data}, of {peer}", f"{ours[what]:.1f}", f"{theirs[what]:.1f}", _ratio(theirs[what], ours[what]))
        for what in ours
    ]


def _ratio(faster: float, slower: float) -> str:
    return f"{faster / slower:.1f} ×"
